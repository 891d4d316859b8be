// Loads root writes from the store, and compares them with what the client knows.
#include "serverd/oram/root_buffer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace s3oram {

Status RootBuffer::open(BucketStore& store, std::size_t count) {
  slots_.assign(count, {});
  for (std::uint16_t slot = 0; slot < count; ++slot) {
    auto found = store.read_slot(kRootBuffer, slot);
    // A slot that cannot be read from the disk counts as never written; the client heals it.
    if (found && *found) keep(slot, std::move((*found)->content), (*found)->stamp);
  }
  // An earlier process may have ended before it synced these slots.
  S3O_TRY(store.sync());
  for (Slot& slot : slots_) slot.durable = slot.stamp;
  return {};
}

void RootBuffer::keep(std::uint16_t slot, Bytes share, std::uint64_t stamp) {
  slots_[slot] = {std::make_shared<const Bytes>(std::move(share)), stamp};
}

Status RootBuffer::check(std::size_t slot) const {
  if (slots_[slot].stamp == 0)
    return fail(Errc::corrupt, "root slot {} of server {} is lost", slot, self_);
  return {};
}

Result<BucketRows> RootBuffer::rows(const PathSlots& path) const {
  BucketRows bucket;
  for (std::size_t i = 0; i < path.writes(); ++i) {
    const std::uint16_t slot = path.root_buffer_slot(i);
    S3O_TRY(check(slot));
    bucket.rows.push_back(slots_[slot].content->data());
    bucket.owners.push_back(slots_[slot].content);
  }
  return bucket;
}

void RootBuffer::distrust(WriteNumber first, unsigned every,
                          const std::vector<std::uint64_t>& known) {
  for (std::size_t i = 0; i < std::min(known.size(), slots_.size()); ++i) {
    Slot& slot = slots_[root_slot(first + i, every)];
    if (known[i] == 0 || slot.stamp == known[i] || slot.stamp == 0) continue;
    spdlog::error("root write {} is lost although it was acknowledged: was the store rolled back?",
                  first + i);
    slot.stamp = slot.durable = 0;
  }
}

void RootBuffer::keep_only(WriteNumber first, unsigned every,
                           const std::vector<std::uint64_t>& known) {
  std::vector<std::uint64_t> expected(slots_.size());
  for (std::size_t i = 0; i < std::min(known.size(), expected.size()); ++i)
    expected[root_slot(first + i, every)] = known[i];
  for (std::size_t slot = 0; slot < expected.size(); ++slot)
    if (slots_[slot].stamp != expected[slot]) slots_[slot].stamp = slots_[slot].durable = 0;
}

}  // namespace s3oram
