// One server's part in an eviction: Subroutine 3's matrix products, each made a consistent sharing
// of degree t again by the secure multiplication protocol (Protocol 1). Columns are independent, so
// the work goes in tiles of columns, several at a time: while one tile waits for the other
// servers' subshares, another is multiplied.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/random.h"
#include "oramcore/wire/messages.h"
#include "serverd/frame_store.h"

namespace s3oram {

/// The first `slots` slots of a frame; none and 0 for a bucket that is all zero.
struct BucketRows {
  std::shared_ptr<const Frame> frame;
  std::size_t slots = 0;
};

/// What an eviction starts from.
struct EvictionInput {
  VolumeDescription volume;
  std::uint64_t epoch = 0;
  EvictionId id;
  unsigned height = 0;
  Payload request;  // owns `matrices`
  View matrices;    // height + 1 times 2Z x Z
};

/// One executor; not thread-safe. Kept alive by a shared_ptr while it runs.
class Eviction : public std::enable_shared_from_this<Eviction> {
 public:
  Eviction(EvictionInput input, Executor executor, Executor pool, Rpc& peers, Random& random);

  /// The present content of the path's buckets, levels 0..height. Called before run().
  void start_from(std::vector<BucketRows> on_path, BucketRows leaf_sibling) {
    on_path_ = std::move(on_path);
    leaf_sibling_ = std::move(leaf_sibling);
  }

  /// The new content of the path's buckets at levels 1..height as sources of the next level saw
  /// them, then of the leaf's sibling: height + 1 frames.
  Task<Result<std::vector<std::shared_ptr<Frame>>>> run();

  /// A subshare has come in. Harmless if it came before.
  void receive(Party from, const SubshareRequest& subshare, Payload owner);

  /// Makes run() end with an error soon.
  void cancel(Error reason);

  const EvictionId& id() const { return input_.id; }

 private:
  struct Subshare {
    Payload owner;
    View share;
  };
  Task<void> work_off_tiles();
  Task<Status> evict_tile(std::uint32_t tile);
  Task<Status> step(std::size_t step, std::uint32_t tile);
  std::vector<Bytes> multiply(std::size_t step, std::uint32_t tile, const Seed& seed) const;
  void combine(std::size_t step, std::uint32_t tile, const std::vector<View>& shares);
  std::size_t tile_begin(std::uint32_t tile) const { return tile * tile_width_; }
  std::size_t tile_width(std::uint32_t tile) const;
  BucketRows source(std::size_t step) const;
  const BucketRows& target(std::size_t step) const;
  bool multiplies() const { return input_.volume.server <= input_.volume.params.scheme.quorum(); }

  EvictionInput input_;
  std::vector<BucketRows> on_path_;
  BucketRows leaf_sibling_;
  Executor executor_;
  Executor pool_;
  Rpc& peers_;
  Random& random_;
  Bytes lagrange_;  // V^-1[1, *] of the servers that multiply
  std::size_t tile_width_;
  std::uint32_t tiles_;
  std::uint32_t next_tile_ = 0;
  std::size_t unanswered_ = 0;  // subshares sent and not yet acknowledged
  std::vector<std::shared_ptr<Frame>> results_;
  std::map<std::tuple<std::size_t, std::uint32_t, Party>, Subshare> inbox_;
  Event changed_;
  std::optional<Error> failure_;
};

}  // namespace s3oram
