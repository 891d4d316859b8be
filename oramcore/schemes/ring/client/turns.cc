// Reserves turns, and decides which of them log a block again.
#include "oramcore/schemes/ring/client/turns.h"

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram::ring {
namespace {

/// Returns whether the write of turn `logged` has to be logged again by now.
bool is_due(Turn logged, Turn now, const Params& params) {
  return logged + params.log_slots <= now + params.log_again_within();
}
bool is_maintenance(Turn turn) { return turn % kMaintenanceEvery == kMaintenanceEvery - 1; }

}  // namespace

void Turns::open() {
  opened_ = true;
  ring_.changed.notify_all();
}

Task<Result<Turn>> Turns::reserve(BlockId block) {
  for (;;) {
    while (!ring_.dead &&
           (!opened_ || ring_.next_turn >= ring_.params.end_turn(rewriter_.evictions_done()) ||
            in_flight_.contains(block) || must_wait(ring_.next_turn)))
      co_await ring_.changed.wait();
    if (ring_.dead) co_return fail(*ring_.dead);
    const Turn turn = ring_.next_turn++;
    const auto must_be_logged = [&](BlockId each) {
      return is_due(ring_.places.get(each).turn, turn, ring_.params);
    };
    if (is_maintenance(turn) || std::ranges::any_of(ring_.not_cached, must_be_logged))
      refill_.begin();
    const auto again = rule_holds(Rule::log_again) ? to_log_again(turn, block) : std::nullopt;
    if (!again) {
      in_flight_.insert(block);
      co_return turn;
    }
    if (*again != kNoBlock) in_flight_.insert(*again);
    log_again_(turn, *again);
  }
}

bool Turns::must_wait(Turn turn) {
  const auto last = rule_holds(Rule::log_again) ? ring_.last_logged_at(turn) : std::nullopt;
  if (!last) return false;
  if (!ring_.not_cached.contains(*last)) return in_flight_.contains(*last);
  refill_.begin();
  return true;
}

std::optional<BlockId> Turns::to_log_again(Turn turn, BlockId wanted) const {
  const bool maintains = is_maintenance(turn);
  // If another block took this turn, its write would wait for `last`, which would wait for it.
  const auto last = ring_.last_logged_at(turn);
  for (const auto& [logged, block] : ring_.places.top()) {
    if (!maintains && !is_due(logged, turn, ring_.params)) break;
    if (block != wanted && !in_flight_.contains(block) && !ring_.not_cached.contains(block) &&
        !ring_.is_given_up(block))
      return last.value_or(block);
  }
  if (maintains) return last.value_or(kNoBlock);
  return std::nullopt;
}

void Turns::release(BlockId block) {
  in_flight_.erase(block);
  ring_.changed.notify_all();
}

}  // namespace s3oram::ring
