// The log of the newest writes at the server, and top.cache, which holds the top's blocks here.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/ring_engine.h"
#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {
namespace {

constexpr unsigned kReadsAgain = 2;  // further reads of the log, if it is not what was written

}  // namespace

Task<Status> RingEngine::write_log(Turn turn, Label label, std::uint64_t replaces, ByteSpan content,
                                   std::function<void(Status)> written) {
  LogWrite write{.block = label.block,
                 .replaces = replaces,
                 .access = next_access_++,
                 .place = {},
                 .written = {}};
  const std::uint64_t access = label.version = write.access;
  const Bytes sealed = sealed_block(ring_.sealer, label, content);
  std::vector<Task<Status>> both;
  both.push_back(send_log(turn, access, label.block, sealed));
  if (label.block != kNoBlock) {
    write.place = {.kind = Place::Kind::top,
                   .leaf = *label.leaf,
                   .version = access,
                   .cache_slot = ring_.cache.take(),
                   .turn = turn};
    both.push_back(keep_in_cache(write.place.cache_slot, sealed));
  }
  auto done = co_await all(std::move(both));
  for (auto& status : done)
    // The turn is never acknowledged, and neither are those that follow it.
    if (!status) ring_.die(status.error());
  if (ring_.dead) co_return fail(*ring_.dead);
  write.written = std::move(written);
  log_writes_[turn] = std::move(write);
  acknowledge_in_order();
  while (!ring_.dead && ring_.tree.written <= turn) co_await ring_.changed.wait();
  if (ring_.tree.written <= turn) co_return fail(*ring_.dead);
  co_return Status{};
}

/// Waits before it overwrites the only other copy of a block of the top. That block is being logged
/// again, or is read back from here if the cache has lost it. If it is `block` itself, this turn
/// logs it, so there is no need to wait.
Task<Status> RingEngine::send_log(Turn turn, std::uint64_t access, BlockId block, ByteSpan sealed) {
  const WriteLogRequest request{
      .epoch = ring_.session.epoch, .turn = turn, .access = access, .sealed = sealed};
  Bytes message = encode(request);
  const auto still_needed = [this, turn, block]() -> bool {
    if (turn < ring_.params.log_slots) return false;
    const auto found = ring_.places.top().find(turn - ring_.params.log_slots);
    if (found == ring_.places.top().end() || found->second == block ||
        ring_.is_given_up(found->second))
      return false;
    if (ring_.not_cached.contains(found->second)) begin_refill();
    return true;
  };
  while (!ring_.dead && rule_holds(Rule::log_again) && still_needed())
    co_await ring_.changed.wait();
  if (ring_.dead) co_return fail(*ring_.dead);
  auto answer = co_await ring_.servers.ask(kServer, WriteLogRequest::kType, std::move(message));
  if (!answer) co_return fail(answer.error());
  co_return Status{};
}

/// Waits for room on a full disk. If a slot cannot be written for another reason, that part of the
/// disk may be bad, so another slot replaces `slot`.
Task<Status> RingEngine::keep_in_cache(CacheSlot& slot, ByteSpan sealed) {
  for (;;) {
    Status written = co_await offload(ring_.environment.pool,
                                      [&, at = slot] { return ring_.cache.write(at, sealed); });
    if (written) cache_unwritten_.reset();
    if (written) co_return written;
    cache_unwritten_ = written.error();
    if (ring_.dead) co_return fail(*ring_.dead);
    if (told_of_cache_.pass(ring_.now()))
      spdlog::error("top.cache: {}; trying again{}", written.error().message,
                    told_of_cache_.more());
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
    if (written.error().code == Errc::disk_full) continue;
    ring_.cache.avoid(slot);
    slot = ring_.cache.take();
  }
}

void RingEngine::acknowledge_in_order() {
  for (;;) {
    const auto next = log_writes_.find(ring_.tree.written);
    if (next == log_writes_.end()) break;
    LogWrite write = std::move(next->second);
    log_writes_.erase(next);
    ring_.pending.records[ring_.tree.written] = std::nullopt;
    ring_.pending.logged[ring_.tree.written] = logged_[ring_.tree.written] = write.access;
    // The slots of older turns are in use again.
    forget_logged(ring_.tree.written -
                  std::min<Turn>(ring_.tree.written, ring_.params.log_slots - 1));
    if (write.block != kNoBlock) {
      if (ring_.places.get(write.block).version == write.replaces) {
        ring_.set_place(write.block, write.place);
        ring_.mark_readable(write.block);
      } else {
        ring_.cache.give_back(write.place.cache_slot);
      }
    }
    ++ring_.tree.written;
    if (write.written) write.written({});
  }
  ring_.changed.notify_all();
  begin_rewrites();
}

// ---- top.cache

/// Reads a block of the top. Errors: corrupt.
Task<Result<OpenedBlock>> RingEngine::read_top(BlockId block, Place place) {
  ring_.cache.hold(place.cache_slot);
  co_return co_await read_held(block, place);
}

/// Reads a slot that is held (hold_cached()), and releases it. Does not read the block from the
/// log, which has it too, because that would show that the block is wanted (refill_whole_cache()).
Task<Result<OpenedBlock>> RingEngine::read_held(BlockId block, Place place) {
  auto found = co_await read_slot(place.cache_slot, block, place.version);
  ring_.cache.let_go(place.cache_slot);
  co_return found;
}

/// Reads a slot of the cache; takes the same time whatever it holds.
Task<Result<OpenedBlock>> RingEngine::read_slot(CacheSlot slot, BlockId block,
                                                std::uint64_t version) {
  co_return co_await offload(ring_.environment.pool, [&]() -> Result<OpenedBlock> {
    const auto sealed = ring_.cache.read(slot);
    auto found = opened_block(ring_.sealer, sealed ? ByteSpan(*sealed) : ByteSpan(ring_.blank),
                              block, version);
    if (!sealed) return fail(Errc::corrupt, "top.cache: {}", sealed.error().message);
    return found;
  });
}

/// Copies the writes of the turns from `from` on from the log to the cache, as far as their blocks
/// are still in the top. Returns the turns that the log lacks: those of blocks of the top and, of
/// the turns since the last sync, all whose write is not the acknowledged one.
Task<Result<RingEngine::Lacking>> RingEngine::refill_cache(Turn from) {
  Lacking lacking;
  const Turn until = ring_.tree.written;
  for (Turn turn = from; turn < until;) {
    const std::uint32_t first = ring_.params.slot_of(turn);
    const auto count = static_cast<std::uint32_t>(std::min<Turn>(
        {until - turn, ring_.params.log_slots - first, rows_in_message(ring_.params)}));
    const ReadLogRequest request{ring_.session.epoch, first, count};
    S3O_CO_ASSIGN(const auto answer,
                  co_await ring_.servers.ask(kServer, ReadLogRequest::kType, encode(request)));
    const auto log = decode<ReadLogAnswer>(answer.body());
    if (!log || log->slots.size() != count)
      co_return fail(Errc::corrupt, "server {} sent an invalid answer", kServer);
    for (const LoggedBlock& logged : log->slots) {
      const InLog found = co_await refill_slot(turn, logged);
      if (found == InLog::lost) lacking.lost.insert(turn);
      if (found == InLog::altered) lacking.altered.insert(turn);
      if (ring_.dead) co_return fail(*ring_.dead);
      ++turn;
    }
  }
  co_return lacking;
}

/// Returns whether the log has what this turn wrote, as far as that is still known.
Task<RingEngine::InLog> RingEngine::refill_slot(Turn turn, const LoggedBlock& logged) {
  // A turn that is not acknowledged yet may have used the slot again.
  const bool is_reused = logged.turn == turn + ring_.params.log_slots && logged.turn < next_turn_;
  const InLog lacks = is_reused || logged.is_lost() ? InLog::lost : InLog::altered;
  const auto sealed = ring_.sealer.open(logged.sealed);
  const auto label = sealed && logged.turn == turn ? read_label(sealed->label) : std::nullopt;
  const auto access = logged_.find(turn);
  if (access != logged_.end() && !is_reused && (!label || label->version != access->second))
    co_return lacks;
  const auto found = ring_.places.top().find(turn);
  if (found == ring_.places.top().end()) co_return InLog::found;
  const BlockId block = found->second;
  const Place place = ring_.places.get(block);
  if (!label || label->block != block || label->version != place.version) co_return lacks;
  ring_.cache.hold(place.cache_slot);  // keeps the slot from being reused meanwhile
  Place kept = place;
  const Status written = co_await keep_in_cache(kept.cache_slot, logged.sealed);
  ring_.cache.let_go(place.cache_slot);
  if (kept == place || !written) co_return InLog::found;  // (it fails only if the volume has died)
  if (ring_.places.get(block) == place)
    ring_.set_place(block, kept);
  else
    ring_.cache.give_back(kept.cache_slot);
  co_return InLog::found;
}

/// Verifies all of the log since the last sync, needed or not. If the client noticed a missing
/// write only when it needs it, the server would learn which turn wrote the block that is wanted.
/// Gives up only what the server reports as lost. What it sends altered may still be there.
Task<Status> RingEngine::refill_lost(Turn from) {
  for (unsigned again = 0;; ++again) {
    S3O_CO_ASSIGN(const auto lacking, co_await refill_cache(from));
    std::set<Turn> missing = lacking.altered;
    missing.insert(lacking.lost.lower_bound(ring_.tree.synced), lacking.lost.end());
    if (missing.empty()) {
      for (const Turn turn : lacking.lost) ring_.mark_unreadable(ring_.places.top().at(turn));
      co_await sync_cache();
      co_return Status{};
    }
    if (again == kReadsAgain)
      co_return fail(Errc::wrong_volume,
                     "server {} has lost writes that it had confirmed ({} in its log, the first of "
                     "turn {}): bring its newest store back, or, if that is lost, s3oramfs restore",
                     kServer, missing.size(), *missing.begin());
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
  }
}

/// Call this only at times that do not depend on which block is wanted.
void RingEngine::begin_refill() {
  if (ring_.not_cached.empty() || std::exchange(refilling_, true)) return;
  start(refill_whole_cache());
}

/// Reads the whole log, to replace slots of the cache that are damaged. Blocks that the server has
/// lost, too, are given up. If it sends something else than what was written, nothing is given up,
/// and the volume stops in the end, as it does for other answers (values_of()).
Task<void> RingEngine::refill_whole_cache() {
  spdlog::error("top.cache: {} blocks do not open; the log is read again", ring_.not_cached.size());
  for (unsigned again = 0; !ring_.dead; ++again) {
    const Turn until = ring_.tree.written;
    const auto lacking =
        co_await refill_cache(until - std::min<Turn>(until, ring_.params.log_slots));
    if (!lacking || ring_.dead || take_refilled(until, *lacking)) break;
    if (again == kReadsAgain)
      ring_.die(
          {Errc::corrupt,
           fmt::format("server {} sends a log that is not what was written to it: its memory is "
                       "damaged, or it lies; no data is given up; have that server checked, then "
                       "mount the vault again",
                       kServer)});
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
  }
  refilling_ = false;
  ring_.changed.notify_all();
}

/// Takes note of the blocks that were written to the cache again from the turns before `until`.
/// Returns false if some were altered.
bool RingEngine::take_refilled(Turn until, const Lacking& lacking) {
  bool is_sound = true;
  for (const BlockId block : std::exchange(ring_.not_cached, {})) {
    const Place place = ring_.places.get(block);
    if (place.kind != Place::Kind::top) continue;
    const bool is_altered = lacking.altered.contains(place.turn);
    is_sound &= !is_altered;
    if (place.turn >= until || is_altered) ring_.not_cached.insert(block);
    if (lacking.lost.contains(place.turn)) ring_.mark_unreadable(block);
  }
  return is_sound;
}

/// Syncs the cache; the next commit records that everything acknowledged now is durable in it.
/// After a failed sync that is no longer so, and the volume goes on with the log (CacheDoubt).
Task<void> RingEngine::sync_cache() {
  // Only one at a time: of two syncs of a file, one may be told about a failure that concerns both.
  while (syncing_cache_) co_await ring_.changed.wait();
  if (doubt_.passes()) co_return;
  syncing_cache_ = true;
  const Turn written = ring_.tree.written;
  bool is_there = true;
  if (doubt_.failure()) is_there = co_await write_doubtful_again();
  if (is_there) co_await sync_cache_until(written);
  syncing_cache_ = false;
  ring_.changed.notify_all();
}

/// Writes again what a failed sync may have lost. Returns whether it is all in the cache.
Task<bool> RingEngine::write_doubtful_again() {
  const Turn oldest =
      ring_.tree.written - std::min<Turn>(ring_.tree.written, ring_.params.log_slots);
  const auto lacking = co_await refill_cache(std::max(ring_.tree.synced, oldest));
  co_return lacking.has_value() && lacking->empty();
}

Task<void> RingEngine::sync_cache_until(Turn written) {
  const Status synced =
      co_await offload(ring_.environment.pool, [this] { return ring_.cache.sync(); });
  if (!synced) {
    spdlog::error(
        "top.cache: {}; nothing is lost, because the server's log has the same blocks; what was "
        "written since the last sync is written again",
        synced.error().message);
    doubt_.failed(synced.error(), next_turn_);
    co_return;
  }
  doubt_.synced(written);
  ring_.tree.synced = std::max(ring_.tree.synced, written);
  forget_logged(ring_.tree.synced);
}

/// Forgets the accesses of the turns before `end`.
void RingEngine::forget_logged(Turn end) {
  while (!logged_.empty() && logged_.begin()->first < end) {
    ring_.pending.logged[logged_.begin()->first] = std::nullopt;
    logged_.erase(logged_.begin());
  }
}

}  // namespace s3oram::ring
