// Admits one healing at a time.
#include "oramcore/client/healing_turn.h"

namespace s3oram {

Task<void> HealingTurn::await_end() {
  if (state_.dead || !under_way_) co_return;
  ++waiting_;
  while (!state_.dead && under_way_) co_await changed_.wait();
  --waiting_;
  changed_.notify_all();
}

Task<void> HealingTurn::await_turn() {
  while (!state_.dead && (under_way_ || waiting_ > 0)) co_await changed_.wait();
}

Task<void> HealingTurn::begin() {
  under_way_ = true;  // from now on, no eviction is decided
  while (!state_.dead && state_.versions.read.tree_version != state_.tree.tree_version)
    co_await state_.changed.wait();
}

void HealingTurn::end() {
  under_way_ = false;
  changed_.notify_all();
}

}  // namespace s3oram
