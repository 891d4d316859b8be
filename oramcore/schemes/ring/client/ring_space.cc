// Room for blocks: the tree grows by an empty level once the server has reserved the room for it;
// while it has none, no more blocks are taken than the tree of the present height holds
// (Rule::reserve_space).
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/ring_engine.h"

namespace s3oram::ring {
namespace {

constexpr Duration kAsksForRoomAfter = std::chrono::seconds(10);
constexpr Duration kRoomAnswersWithin = std::chrono::seconds(1);

}  // namespace

/// When the accesses that may come before the next decision could overfill the tree.
bool RingEngine::wants_to_grow() const {
  const std::uint64_t coming = (params_.most_evictions_due() + 1) * params_.evict_every;
  return places_.mapped() + coming > capacity(tree_.height, params_.evict_every) &&
         tree_.height < kMaxHeight;
}

Task<bool> RingEngine::reserve(unsigned height) {
  const ReserveRequest request{session_.epoch, static_cast<std::uint8_t>(height)};
  auto answer = co_await servers_.ask_once(kServer, ReserveRequest::kType, encode(request));
  while (!answer && answer.error().code == Errc::need_open)
    answer = co_await servers_.ask_once(kServer, ReserveRequest::kType, encode(request));
  const bool known = std::exchange(growth_refused_, false);
  if (!answer && rule_holds(Rule::reserve_space)) {
    const Errc code = answer.error().code;
    if (code == Errc::fenced || code == Errc::bad_request) die(answer.error());
    if (!dead_ && !known)
      spdlog::warn("the tree does not grow to height {}: {}", height, answer.error().message);
    growth_refused_ = true;
  }
  count_room();
  co_return !growth_refused_;
}

/// Whether so many more blocks may be written that are not yet mapped.
bool RingEngine::has_room(std::uint64_t more) {
  if (committer_.has_ballast()) {
    if (!growth_refused_) return true;
    const std::uint64_t fits = capacity(tree_.height, params_.evict_every);
    if (places_.mapped() + new_blocks_ + more <= fits) return true;
  }
  start(ask_for_room());
  return false;
}

void RingEngine::look_for_room() {
  asio::post(environment_.executor, [this] { start(ask_for_room()); });
}

void RingEngine::refresh_room() { look_for_room(); }

Room RingEngine::room() {
  const std::uint64_t fits = fitting_, taken = taken_;
  const std::uint64_t kept = taken - std::min<std::uint64_t>(taken, discarding_);
  return {fits - std::min(fits, kept), more_room_, can_grow_};
}

/// Not often.
Task<void> RingEngine::ask_for_room() {
  const Duration now = environment_.clock.now();
  if (dead_ || asking_for_room_ || (room_asked_ && now - *room_asked_ < kAsksForRoomAfter))
    co_return;
  asking_for_room_ = true;
  room_asked_ = now;
  // Takes the ballast again if it can.
  if (!committer_.has_ballast()) static_cast<void>(co_await committer_.commit());
  const auto answer = co_await servers_.room(kServer, kRoomAnswersWithin);
  if (answer) highest_ = answer->height;
  if (growth_refused_ && highest_ > tree_.height && !dead_)
    static_cast<void>(co_await reserve(tree_.height + 1));
  asking_for_room_ = false;
  count_room();
}

void RingEngine::count_room() {
  const unsigned every = params_.evict_every;
  const std::uint64_t fits = capacity(tree_.height, every);
  const std::uint64_t taken = places_.mapped() + new_blocks_;
  fitting_ = committer_.has_ballast() ? fits : 0;
  taken_ = taken;
  can_grow_ = committer_.has_ballast() && !growth_refused_ && highest_ > tree_.height;
  const std::uint64_t most = can_grow_ ? capacity(highest_, every) : 0;
  more_room_ = most - std::min(most, std::max(fits, taken));
}

}  // namespace s3oram::ring
