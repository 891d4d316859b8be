// Reads the log at the server, and copies blocks of the top to top.cache.
#include "oramcore/schemes/ring/client/top_refill.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram::ring {
namespace {

constexpr unsigned kReadsAgain = 2;  // further reads of the log, if it is not what was written

}  // namespace

Task<Result<bool>> TopRefill::restore() {
  S3O_CO_ASSIGN(const bool whole,
                co_await offload(ring_.environment.pool, [this] { return top_.is_whole(); }));
  if (!whole) spdlog::warn("top.cache is incomplete: it is rebuilt from the server's log");
  const Status reserved = co_await offload(
      ring_.environment.pool, [this] { return ring_.cache.reserve(cache_slots(ring_.volume)); });
  if (!reserved)
    spdlog::warn("cannot reserve disk space for top.cache: {}", reserved.error().message);
  const RingTree& tree = ring_.tree;
  if (whole && tree.synced == tree.written) co_return false;
  const Turn oldest = tree.written - std::min<Turn>(tree.written, ring_.params.log_slots);
  co_return co_await restore_from(whole ? std::max(tree.synced, oldest) : oldest);
}

/// Verifies all of the log since the last sync, needed or not. If the client noticed a missing
/// write only when it needs it, the server would learn which turn wrote the block that is wanted.
/// Gives up only what the server reports as lost. What it sends altered may still be there.
Task<Result<bool>> TopRefill::restore_from(Turn from) {
  for (unsigned again = 0;; ++again) {
    S3O_CO_ASSIGN(const auto lacking, co_await refill(from));
    std::set<Turn> missing = lacking.altered;
    missing.insert(lacking.lost.lower_bound(ring_.tree.synced), lacking.lost.end());
    if (missing.empty()) {
      for (const Turn turn : lacking.lost) ring_.mark_unreadable(ring_.places.top().at(turn));
      co_return true;
    }
    if (again == kReadsAgain)
      co_return fail(Errc::wrong_volume,
                     "server {} has lost writes that it had confirmed ({} in its log, the first of "
                     "turn {}): bring its newest store back, or, if that is lost, s3oramfs restore",
                     kServer, missing.size(), *missing.begin());
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
  }
}

void TopRefill::begin() {
  if (ring_.not_cached.empty() || std::exchange(refilling_, true)) return;
  ring_.start(refill_all());
}

/// Reads the whole log, to replace slots of the cache that are damaged. Blocks that the server has
/// lost, too, are given up. If it sends something other than what was written, or nothing that can
/// be decoded, nothing is given up, and the volume stops in the end, as it does for other answers
/// (values_of()). It also stops if the server refuses.
Task<void> TopRefill::refill_all() {
  spdlog::error("top.cache: {} blocks do not open; the log is read again", ring_.not_cached.size());
  for (unsigned again = 0; !ring_.dead; ++again) {
    const Turn until = ring_.tree.written;
    const auto lacking = co_await refill(until - std::min<Turn>(until, ring_.params.log_slots));
    if (!lacking && lacking.error().code != Errc::corrupt) ring_.die(lacking.error());
    if (ring_.dead || (lacking && take_refilled(until, *lacking))) break;
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
bool TopRefill::take_refilled(Turn until, const Lacking& lacking) {
  bool is_sound = true;
  for (const BlockId block : std::exchange(ring_.not_cached, {})) {
    const Place place = ring_.places.get(block);
    if (place.kind != Place::Kind::top) continue;
    const bool is_altered = lacking.altered.contains(place.turn);
    is_sound &= !is_altered;
    if (place.turn >= until || is_altered) ring_.not_cached.insert(block);
    // Other turns have used its slot of the log if it was given up in an earlier mount.
    const bool is_past = place.turn + ring_.params.log_slots < until;
    if (is_past || lacking.lost.contains(place.turn)) ring_.mark_unreadable(block);
  }
  return is_sound;
}

Task<Result<TopRefill::Lacking>> TopRefill::refill(Turn from) {
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
Task<TopRefill::InLog> TopRefill::refill_slot(Turn turn, const LoggedBlock& logged) {
  // A turn that is not acknowledged yet may have used the slot again.
  const bool is_reused =
      logged.turn == turn + ring_.params.log_slots && logged.turn < ring_.next_turn;
  const InLog lacks = is_reused || logged.is_lost() ? InLog::lost : InLog::altered;
  const auto sealed = ring_.sealer.open(logged.sealed);
  const auto label = sealed && logged.turn == turn ? read_label(sealed->label) : std::nullopt;
  const auto access = top_.logged(turn);
  if (access && !is_reused && (!label || label->version != *access)) co_return lacks;
  const auto found = ring_.places.top().find(turn);
  if (found == ring_.places.top().end()) co_return InLog::found;
  const BlockId block = found->second;
  const Place place = ring_.places.get(block);
  if (!label || label->block != block || label->version != place.version) co_return lacks;
  ring_.cache.hold(place.cache_slot);  // keeps the slot from being reused meanwhile
  Place kept = place;
  const Status written = co_await top_.write(kept.cache_slot, logged.sealed);
  ring_.cache.let_go(place.cache_slot);
  if (kept == place || !written) co_return InLog::found;  // (it fails only if the volume has died)
  if (ring_.places.get(block) == place)
    ring_.set_place(block, kept);
  else
    ring_.cache.give_back(kept.cache_slot);
  co_return InLog::found;
}

}  // namespace s3oram::ring
