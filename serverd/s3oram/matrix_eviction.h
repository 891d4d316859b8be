// The matrix evictor: Subroutine 3's matrix products, each turned into a consistent sharing of
// degree t again by the secure multiplication protocol (Protocol 1).
#pragma once

#include "serverd/oram/eviction.h"

namespace s3oram {

/// Its buckets, in order: the path's at levels 0..height as the next level saw them (level 0: the
/// root writes), then the leaf's sibling.
class MatrixEviction final : public Eviction {
 public:
  /// Errors: bad_request.
  static Result<std::shared_ptr<Eviction>> make(EvictionInput input, const EvictionHost& host);
  MatrixEviction(EvictionInput input, const EvictionHost& host);
  bool reads_path() const override { return self() <= params().scheme.quorum(); }
  // They become a bucket as they are, at servers that do not multiply too.
  bool reads_writes() const override { return true; }

 private:
  Task<Status> evict_tile(std::uint32_t tile) override;
  BucketBuffers take_results() override;
  Task<Status> step(std::size_t step, std::uint32_t tile);
  /// Returns the randomness that sharing the products of a tile again takes.
  std::unique_ptr<Random> randomness(std::size_t step, std::uint32_t tile);
  std::vector<Bytes> multiply(std::size_t step, std::uint32_t tile, Random& random) const;
  void combine(std::size_t step, std::uint32_t tile, const std::vector<ByteSpan>& shares);
  void keep_writes(std::uint32_t tile);
  BucketRows source(std::size_t step) const;
  BucketRows target(std::size_t step) const {
    return rows_of(path_[step].bucket_version, path_[step].slots);
  }

  std::shared_ptr<BucketVersion> level_0_;
  Bytes lagrange_;  // V^-1[1, *] of the servers that multiply
};

}  // namespace s3oram
