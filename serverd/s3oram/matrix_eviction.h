// The matrix evictor: Subroutine 3's matrix products, each of which the secure multiplication
// protocol (Protocol 1) turns back into a consistent sharing of degree t.
#pragma once

#include "serverd/oram/eviction.h"

namespace s3oram {

/// Its results, in order: the path's buckets at levels 0..height, each as the next level's step
/// read it (level 0: the root writes), then the leaf's sibling.
class MatrixEviction final : public Eviction {
 public:
  /// Errors: bad_request.
  static Result<std::shared_ptr<Eviction>> make(EvictionInput input, const EvictionHost& host);
  MatrixEviction(EvictionInput input, const EvictionHost& host);
  bool reads_path() const override { return self() <= params().scheme.quorum(); }
  // The writes become a bucket unchanged, even at servers that do not multiply.
  bool reads_writes() const override { return true; }

 private:
  Task<Status> evict_tile(std::uint32_t tile) override;
  BucketBuffers take_results() override;
  Task<Status> step(std::size_t step, std::uint32_t tile);
  /// Returns the randomness for resharing the products of a tile.
  std::unique_ptr<Random> randomness(std::size_t step, std::uint32_t tile);
  std::vector<Bytes> multiply(std::size_t step, std::uint32_t tile, Random& random) const;
  void combine(std::size_t step, std::uint32_t tile, const std::vector<ByteSpan>& shares);
  void keep_writes(std::uint32_t tile);
  BucketRows source(std::size_t step) const;
  BucketRows target(std::size_t step) const {
    return rows_of(path_[step].bucket_version, path_[step].slots);
  }

  std::shared_ptr<BucketVersion> level_0_;
  Bytes lagrange_;  // V^-1[1, *] for the servers that multiply
};

}  // namespace s3oram
