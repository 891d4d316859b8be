// Asks for servers' shares of single slots, and counts what was healed.
#include "oramcore/client/slot_shares.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

constexpr std::size_t kSlotsAtOnce = 32, kBytesAtOnce = 4 << 20;

}  // namespace

Task<std::vector<Result<Payload>>> SlotShares::read(SlotAddress at, const Bytes& servers) {
  const ReadSlotRequest question{state_.session.epoch, state_.tree.tree_version, at};
  return for_each_of(servers, [this, message = encode(question)](Party server) {
    return state_.ask_again(server, ReadSlotRequest::kType, message);
  });
}

Task<Status> SlotShares::write(Party server, SlotAddress at, ByteSpan share) {
  const HealSlotRequest request{.epoch = state_.session.epoch,
                                .tree_version = state_.tree.tree_version,
                                .at = at,
                                .access = access_in(at),
                                .share = share};
  S3O_CO_TRY(co_await state_.servers.ask(server, HealSlotRequest::kType, encode(request)));
  co_return Status{};
}

std::vector<SlotAddress> SlotShares::on_path(const PathSlots& path, Leaf leaf) const {
  std::vector<SlotAddress> slots;
  for (std::size_t i = 0; i < path.writes(); ++i)
    slots.push_back({kRoot, path.root_buffer_slot(i)});
  for (std::uint32_t slot = state_.params.root_buffer_slots(); slot < state_.params.root_slots();
       ++slot)
    slots.push_back({kRoot, static_cast<std::uint16_t>(slot)});
  for (unsigned level = 1; level <= path.height(); ++level)
    for (std::uint16_t slot = 0; slot < state_.params.bucket_size; ++slot)
      slots.push_back({bucket_on_path(leaf, level), slot});
  return slots;
}

std::uint64_t SlotShares::access_in(SlotAddress at) const {
  const bool in_root_buffer = at.bucket == kRoot && at.slot < state_.params.root_buffer_slots();
  return in_root_buffer ? state_.access_records[at.slot].access : 0;
}

std::size_t SlotShares::at_once() const {
  return std::clamp<std::size_t>(kBytesAtOnce / state_.params.slot_size(), 1, kSlotsAtOnce);
}

void SlotShares::healed(Party server, SlotAddress at) {
  ++so_far_.shares[server];
  state_.metrics.healed_slots.add();
  if (told_.pass(state_.now()))
    spdlog::warn("server {}: slot {} of bucket {} was damaged and is healed{}", server, at.slot,
                 at.bucket, told_.more());
}

}  // namespace s3oram
