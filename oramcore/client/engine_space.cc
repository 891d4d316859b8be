// Room for blocks. A tree grows only once every server has reserved the room for it. While a server
// has none, no more blocks are taken than a tree of the present height holds (Rule::reserve_space).
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "oramcore/client/engine.h"

namespace s3oram {
namespace {

constexpr Duration kAskAgainAfter = std::chrono::seconds(10);
constexpr Duration kAskForWriteAfter = std::chrono::milliseconds(500);  // one is tried each second
constexpr Duration kAnswersWithin = std::chrono::seconds(1);

}  // namespace

/// Whether the accesses until the next decision could overfill the tree.
bool Engine::wants_to_grow() const {
  return positions_.mapped() + params_.root_buffer_slots() >
             capacity(tree_.height, params_.evict_every) &&
         tree_.height < kMaxHeight;
}

Task<Status> Engine::reserve_at(Party server, unsigned height) {
  const ReserveRequest request{session_.epoch, static_cast<std::uint8_t>(height)};
  for (;;) {
    auto answer = co_await servers_.ask_once(server, ReserveRequest::kType, encode(request));
    if (answer) co_return Status{};
    if (answer.error().code != Errc::need_open) co_return fail(answer.error());
  }
}

/// Returns whether all servers have reserved room for a tree of this height.
Task<bool> Engine::reserve(unsigned height) {
  auto answers =
      co_await for_all(servers_.count(), [&](Party server) { return reserve_at(server, height); });
  const bool known = std::exchange(growth_refused_, false);
  for (auto& answer : answers) {
    if (answer || !rule_holds(Rule::reserve_space)) continue;
    const Errc code = answer.error().code;
    if (code == Errc::fenced || code == Errc::bad_request) die(answer.error());
    if (!dead_ && !known)
      spdlog::warn("the tree does not grow to height {}: {}", height, answer.error().message);
    growth_refused_ = true;
  }
  count_room();
  co_return !growth_refused_;
}

/// Whether `more` blocks that are not yet mapped may be written.
bool Engine::has_room(std::uint64_t more) {
  if (state_.has_ballast()) {
    if (!growth_refused_) return true;
    const std::uint64_t fitting = capacity(tree_.height, params_.evict_every);
    if (positions_.mapped() + new_blocks_ + more <= fitting) return true;
  }
  ask_for_room();
  return false;
}

void Engine::look_for_room() {
  asio::post(environment_.executor, [this] { ask_for_room(); });
}

/// Asks the servers whether there is room again, for later writes.
void Engine::ask_for_room() {
  if (!growth_refused_ && highest_ > tree_.height && state_.has_ballast()) return;
  const Duration now = environment_.clock.now();
  if (room_asked_ && now - *room_asked_ < kAskForWriteAfter) return;
  room_asked_ = now;
  start(ask_now());
}

Task<void> Engine::ask_now() {
  if (!state_.has_ballast())
    static_cast<void>(co_await commit_now());  // it takes ballast if it can
  if (growth_refused_) static_cast<void>(co_await reserve(tree_.height + 1));
  if (highest_ <= tree_.height) co_await ask_highest();
  count_room();
}

/// Asks no server, because every write of new data calls it.
Room Engine::room() {
  const std::uint64_t fitting = fitting_, taken = taken_;
  const std::uint64_t kept = taken - std::min<std::uint64_t>(taken, discarding_);
  return {fitting - std::min(fitting, kept), more_room_, can_grow_};
}

void Engine::refresh_room() {
  asio::post(environment_.executor, [this] { keep_room_known(); });
}

/// Asks the servers for their room, at most every ten seconds.
void Engine::keep_room_known() {
  const Duration now = environment_.clock.now();
  if (height_asked_ && now - *height_asked_ < kAskAgainAfter) return;
  height_asked_ = now;
  start(ask_highest());
}

Task<void> Engine::ask_highest() {
  auto answers = co_await for_all(
      servers_.count(), [this](Party server) { return servers_.room(server, kAnswersWithin); });
  highest_ = kMaxHeight;
  for (const auto& answer : answers)
    if (answer) highest_ = std::min<unsigned>(highest_, answer->height);
  if (growth_refused_ && highest_ > tree_.height)
    static_cast<void>(co_await reserve(tree_.height + 1));  // there is room again
  count_room();
}

void Engine::count_room() {
  const unsigned every = params_.evict_every;
  const std::uint64_t fitting = capacity(tree_.height, every);
  const std::uint64_t taken = positions_.mapped() + new_blocks_;
  fitting_ = state_.has_ballast() ? fitting : 0;
  taken_ = taken;
  can_grow_ = state_.has_ballast() && !growth_refused_ && highest_ > tree_.height;
  const std::uint64_t most = can_grow_ ? capacity(highest_, every) : 0;
  more_room_ = most - std::min(most, std::max(fitting, taken));
}

}  // namespace s3oram
