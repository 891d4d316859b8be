// Presents the tree of an open volume to Capacity.
#pragma once

#include "oramcore/client/capacity.h"
#include "oramcore/client/committer.h"

namespace s3oram {

class GrowingVolume final : public GrowingTree {
 public:
  GrowingVolume(VolumeState& state, Committer& committer) : state_(state), committer_(committer) {}

  unsigned height() const override { return state_.tree.height; }
  std::uint64_t blocks() const override { return state_.positions.mapped(); }
  std::uint64_t epoch() const override { return state_.session.epoch; }
  bool has_ballast() const override { return committer_.has_ballast(); }
  Task<Status> take_ballast() override { return committer_.commit(); }  // takes it if it can
  bool is_dead() const override { return state_.dead.has_value(); }
  void die(Error reason) override { state_.die(std::move(reason)); }
  Bytes takers() const override { return state_.in_step.takers(); }
  Bytes members() const override { return state_.in_step.members(); }
  bool drop(Party server) override {
    if (state_.in_step.of(server) != Standing::following) return false;
    state_.in_step.leave(server);
    state_.servers.leave_out(server);
    return true;
  }
  void start_for_room(Task<void> task) override { state_.start(std::move(task)); }

 private:
  VolumeState& state_;
  Committer& committer_;
};

}  // namespace s3oram
