// Reads and writes of top.cache, on the pool.
#include "oramcore/schemes/ring/client/top_blocks.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {

Result<bool> TopBlocks::is_whole() {
  S3O_ASSIGN(const bool there, ring_.cache.has_all_in_use());
  if (!there) return false;
  for (const auto& [turn, block] : ring_.places.top()) {
    if (turn >= ring_.tree.synced) break;
    if (ring_.unreadable.contains(block)) continue;
    const Place place = ring_.places.get(block);
    const auto sealed = ring_.cache.read(place.cache_slot);
    if (!sealed || !opened_block(ring_.sealer, *sealed, block, place.version)) return false;
  }
  return true;
}

Task<Result<OpenedBlock>> TopBlocks::read(BlockId block, Place place) {
  ring_.cache.hold(place.cache_slot);
  co_return co_await read_held(block, place);
}

Task<Result<OpenedBlock>> TopBlocks::read_held(BlockId block, Place place) {
  auto found = co_await read_slot(place.cache_slot, block, place.version);
  ring_.cache.let_go(place.cache_slot);
  co_return found;
}

Task<void> TopBlocks::read_any() {
  static_cast<void>(co_await read_slot(ring_.cache.any(ring_.environment.random), kNoBlock, 0));
}

/// Reads a slot of the cache; takes the same time whatever it holds.
Task<Result<OpenedBlock>> TopBlocks::read_slot(CacheSlot slot, BlockId block,
                                               std::uint64_t version) {
  co_return co_await offload(ring_.environment.pool, [&]() -> Result<OpenedBlock> {
    const auto sealed = ring_.cache.read(slot);
    auto found = opened_block(ring_.sealer, sealed ? ByteSpan(*sealed) : ByteSpan(ring_.blank),
                              block, version);
    if (!sealed) return fail(Errc::corrupt, "top.cache: {}", sealed.error().message);
    return found;
  });
}

Task<Status> TopBlocks::write(CacheSlot& slot, ByteSpan sealed) {
  for (;;) {
    Status written = co_await offload(ring_.environment.pool,
                                      [&, at = slot] { return ring_.cache.write(at, sealed); });
    if (written) unwritten_.reset();
    if (written) co_return written;
    unwritten_ = written.error();
    if (ring_.dead) co_return fail(*ring_.dead);
    if (told_.pass(ring_.now()))
      spdlog::error("top.cache: {}; trying again{}", written.error().message, told_.more());
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
    if (written.error().code == Errc::disk_full) continue;
    ring_.cache.avoid(slot);
    slot = ring_.cache.take();
  }
}

void TopBlocks::note_logged(Turn turn, std::uint64_t access) {
  ring_.pending.logged[turn] = logged_[turn] = access;
  forget_logged(turn - std::min<Turn>(turn, ring_.params.log_slots - 1));
}

void TopBlocks::forget_logged(Turn end) {
  while (!logged_.empty() && logged_.begin()->first < end) {
    ring_.pending.logged[logged_.begin()->first] = std::nullopt;
    logged_.erase(logged_.begin());
  }
}

std::optional<std::uint64_t> TopBlocks::logged(Turn turn) const {
  const auto found = logged_.find(turn);
  if (found == logged_.end()) return std::nullopt;
  return found->second;
}

}  // namespace s3oram::ring
