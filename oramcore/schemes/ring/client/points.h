// The points of the slots of a bucket version: a secret permutation of the 256 points, drawn from a
// key, the bucket and the version's stamp, so that nothing has to be stored. Slot i lies at its
// i-th point. The points after the last slot are dummies, which are asked for one after another.
#pragma once

#include "oramcore/base/random.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/permutation.h"
#include "oramcore/schemes/ring/protocol/ring_messages.h"

namespace s3oram::ring {

class Points {
 public:
  /// `key` must not be used for anything else.
  Points(const Seed& key, BucketIndex bucket, VersionStamp stamp);

  /// Returns the point of slot `slot` < Z.
  Point of_slot(unsigned slot) const { return static_cast<Point>(order_[slot]); }
  /// Returns the dummy to ask for when the version was touched `touches` times before; there are
  /// 256 - Z.
  Point of_dummy(unsigned bucket_size, unsigned touches) const {
    return static_cast<Point>(order_[bucket_size + touches]);
  }
  /// Returns the points of the first `slots` slots.
  std::vector<Point> first(std::size_t slots) const {
    return {order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(slots)};
  }

 private:
  Permutation order_;
};

}  // namespace s3oram::ring
