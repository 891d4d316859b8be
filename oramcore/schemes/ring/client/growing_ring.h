// Presents the tree of an open ring to Capacity.
#pragma once

#include "oramcore/client/capacity.h"
#include "oramcore/schemes/ring/client/ring_committer.h"

namespace s3oram::ring {

class GrowingRing final : public GrowingTree {
 public:
  GrowingRing(OpenRing& ring, RingCommitter& committer) : ring_(ring), committer_(committer) {}

  unsigned height() const override { return ring_.tree.height; }
  std::uint64_t blocks() const override { return ring_.places.mapped(); }
  std::uint64_t epoch() const override { return ring_.session.epoch; }
  bool has_ballast() const override { return committer_.has_ballast(); }
  Task<Status> take_ballast() override { return committer_.commit(); }  // restores it if it can
  bool is_dead() const override { return ring_.dead.has_value(); }
  void die(Error reason) override { ring_.die(std::move(reason)); }
  void start_for_room(Task<void> task) override { ring_.start(std::move(task)); }

 private:
  OpenRing& ring_;
  RingCommitter& committer_;
};

}  // namespace s3oram::ring
