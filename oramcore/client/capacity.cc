// Asks the servers for room, and counts it.
#include "oramcore/client/capacity.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

constexpr Duration kAskAgainAfter = std::chrono::seconds(10);
constexpr Duration kAskForWriteAfter = std::chrono::milliseconds(500);  // retried each second
constexpr Duration kRoomAnswersWithin = std::chrono::seconds(1);

}  // namespace

bool Capacity::wants_to_grow(std::uint64_t coming) const {
  return tree_.blocks() + coming > capacity(tree_.height(), evict_every_) &&
         tree_.height() < kMaxHeight;
}

Task<Status> Capacity::reserve_at(Party server, unsigned height) {
  const Bytes request = encode(ReserveRequest{tree_.epoch(), static_cast<std::uint8_t>(height)});
  auto answer = co_await servers_.ask_once(server, ReserveRequest::kType, request);
  // The session is open again. A server that says each time that it was restarted refuses.
  if (!answer && answer.error().code == Errc::need_open)
    answer = co_await servers_.ask_once(server, ReserveRequest::kType, request);
  if (!answer) co_return fail(answer.error());
  co_return Status{};
}

/// Returns `some`, or all servers if it is empty.
Bytes Capacity::all_or(Bytes some) const {
  if (!some.empty()) return some;
  for (Party server = 1; server <= servers_.count(); ++server) some.push_back(server);
  return some;
}

Task<bool> Capacity::reserve(unsigned height) {
  const Bytes asked = all_or(tree_.takers());
  auto answers =
      co_await for_each_of(asked, [&](Party server) { return reserve_at(server, height); });
  const bool known = std::exchange(growth_refused_, false);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto& answer = answers[i];
    if (answer) note_room(asked[i], true);
    if (answer || servers_.is_left_out(asked[i]) || !rule_holds(Rule::reserve_space)) continue;
    const Errc code = answer.error().code;
    if (code == Errc::fenced) tree_.die(answer.error());
    if (!tree_.is_dead() && tree_.drop(asked[i])) {
      spdlog::warn("server {} is sent what it lacks later: it has no room for a tree of height {}",
                   asked[i], height);
      continue;
    }
    if (!tree_.is_dead() && !known)
      spdlog::warn("the tree cannot grow to height {}: {}", height, answer.error().message);
    growth_refused_ = true;
    note_room(asked[i], code != Errc::disk_full);
  }
  count();
  co_return !growth_refused_;
}

void Capacity::note_room(Party server, bool there_is) {
  if (there_is)
    without_room_.erase(server);
  else
    without_room_.insert(server);
}

bool Capacity::has_room(std::uint64_t more) {
  if (tree_.has_ballast()) {
    if (!growth_refused_) return true;
    const std::uint64_t fitting = capacity(tree_.height(), evict_every_);
    if (tree_.blocks() + new_blocks_ + more <= fitting) return true;
  }
  ask();
  return false;
}

void Capacity::ask() {
  if (!growth_refused_ && highest_ > tree_.height() && tree_.has_ballast()) return;
  const Duration now = clock_.now();
  if (room_asked_ && now - *room_asked_ < kAskForWriteAfter) return;
  room_asked_ = now;
  tree_.start_for_room(ask_now());
}

Task<void> Capacity::ask_now() {
  if (!tree_.has_ballast())
    static_cast<void>(co_await tree_.take_ballast());  // it takes ballast if it can
  if (growth_refused_) static_cast<void>(co_await reserve(tree_.height() + 1));
  if (highest_ <= tree_.height()) co_await ask_highest();
  count();
}

Room Capacity::room(std::uint64_t discarding) const {
  const std::uint64_t fitting = fitting_, taken = taken_;
  const std::uint64_t kept = taken - std::min<std::uint64_t>(taken, discarding);
  return {fitting - std::min(fitting, kept), more_room_, can_grow_};
}

void Capacity::keep_known() {
  const Duration now = clock_.now();
  if (height_asked_ && now - *height_asked_ < kAskAgainAfter) return;
  height_asked_ = now;
  tree_.start_for_room(ask_highest());
  tree_.start_for_room(ask_for_reserves());
}

Task<void> Capacity::ask_highest() {
  const Bytes asked = all_or(tree_.members());
  const auto answers = co_await for_each_of(
      asked, [this](Party server) { return servers_.room(server, kRoomAnswersWithin); });
  highest_ = kMaxHeight;
  std::erase_if(without_room_,
                [&](Party server) { return std::ranges::find(asked, server) == asked.end(); });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) continue;
    const unsigned height = answers[i]->height;
    highest_ = std::min(highest_, height);
    note_room(asked[i], height > tree_.height() || height == kMaxHeight);
  }
  if (growth_refused_ && highest_ > tree_.height())
    static_cast<void>(co_await reserve(tree_.height() + 1));  // there is room again
  count();
}

Task<void> Capacity::ask_for_reserves() {
  const Bytes asked = all_or(tree_.takers());
  const auto answers = co_await for_each_of(
      asked, [this](Party server) { return servers_.disk(server, kRoomAnswersWithin); });
  std::set<Party> before = std::exchange(using_reserve_, {});
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Party server = asked[i];
    const bool known = before.contains(server);
    if (answers[i] ? answers[i]->uses_reserve : known) using_reserve_.insert(server);
    if (!answers[i] || answers[i]->uses_reserve == known) continue;
    if (known)
      spdlog::info("the disk of server {} has room again", server);
    else
      spdlog::warn("the disk of server {} is full, and its reserve is in use", server);
  }
}

void Capacity::count() {
  const std::uint64_t fitting = capacity(tree_.height(), evict_every_);
  const std::uint64_t taken = tree_.blocks() + new_blocks_;
  fitting_ = tree_.has_ballast() ? fitting : 0;
  taken_ = taken;
  can_grow_ = tree_.has_ballast() && !growth_refused_ && highest_ > tree_.height();
  const std::uint64_t most = can_grow_ ? capacity(highest_, evict_every_) : 0;
  more_room_ = most - std::min(most, std::max(fitting, taken));
}

}  // namespace s3oram
