// Room for blocks: a tree grows only once every server has reserved the room for it; while one has
// none, no more blocks are taken than the tree of the present height holds (3-durability.md, rule
// 13).
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "oramcore/client/engine.h"

namespace s3oram {
namespace {

constexpr Duration kAskAgainAfter = std::chrono::seconds(10);

}  // namespace

/// When the next A accesses could overfill the tree.
bool Engine::wants_to_grow() const {
  return positions_.mapped() + params_.evict_every > capacity(tree_.height, params_.evict_every) &&
         tree_.height < kMaxHeight;
}

/// Whether all servers have room for a tree of this height.
Task<bool> Engine::reserve(unsigned height) {
  if (!rule_holds(Rule::reserve_space)) co_return true;
  const ReserveRequest request{session_.epoch, static_cast<std::uint8_t>(height)};
  auto answers = co_await for_all(servers_.count(), [&](Party server) {
    return servers_.ask_once(server, ReserveRequest::kType, encode(request));
  });
  growth_refused_.reset();
  for (auto& answer : answers) {
    if (answer) continue;
    const Errc code = answer.error().code;
    if (code == Errc::fenced || code == Errc::bad_request) die(answer.error());
    if (!dead_)
      spdlog::warn("the tree does not grow to height {}: {}", height, answer.error().message);
    growth_refused_ = environment_.clock.now();
  }
  count_room();
  co_return !growth_refused_;
}

/// Whether a block that is not yet mapped may be written.
bool Engine::has_room() {
  if (!growth_refused_) return true;
  const std::uint64_t fitting = capacity(tree_.height, params_.evict_every);
  if (positions_.mapped() + new_blocks_ < fitting) return true;
  // There may be room again; the next write will find out.
  if (environment_.clock.now() - *growth_refused_ >= kAskAgainAfter) {
    growth_refused_ = environment_.clock.now();
    spawn(environment_.executor, [](Engine& engine) -> Task<void> {
      ++engine.running_;
      static_cast<void>(co_await engine.reserve(engine.tree_.height + 1));
      if (--engine.running_ == 0) engine.idle_.notify_all();
    }(*this));
  }
  return false;
}

void Engine::count_room() {
  const std::uint64_t fitting = capacity(tree_.height, params_.evict_every);
  room_ = Room{.blocks = fitting - std::min(fitting, positions_.mapped() + new_blocks_),
               .can_grow = !growth_refused_};
}

}  // namespace s3oram
