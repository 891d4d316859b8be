// The shuffle evictor (t = 1, l = 3): one hidden permutation of the whole path, pi_3 after pi_2
// after pi_1, in three phases. Each server knows two of the three. docs/protocol.md says who sends
// what, and why nobody learns anything of it.
//
//   phase 0   1 and 2 permute their shares by pi_1, weighted so that they add up to the content;
//             1 passes its part on to 2, masked; 3 has the mask
//   phase 1   2 and 3 permute by pi_2; 2 passes its part on to 3, masked; 1 has the mask
//   phase 2   3 and 1 permute by pi_3, and each shares its part anew on a line through what 2 has
//             of it, which is a mask; they exchange their shares
#pragma once

#include "oramcore/protocol/permutation.h"
#include "serverd/oram/eviction.h"

namespace s3oram {

/// Its buckets, in order: the root's stash buckets, then the path's from level 1 on. Slots that
/// land on the places of the evicted writes are dropped: nobody reads them again. The shares of
/// servers 1 and 2 suffice.
class ShuffleEviction final : public Eviction {
 public:
  /// Errors: bad_request.
  static Result<std::shared_ptr<Eviction>> make(EvictionInput input, const EvictionHost& host);
  ShuffleEviction(EvictionInput input, const EvictionHost& host, ShuffleOrders orders);
  bool reads_path() const override { return self() != 3; }

 private:
  Task<Status> evict_tile(std::uint32_t tile) override;
  Task<Status> first_server(std::uint32_t tile);
  Task<Status> second_server(std::uint32_t tile);
  Task<Status> third_server(std::uint32_t tile);

  /// Columns of a tile, of as many rows as there are slots (or are kept).
  class Columns;
  const std::uint8_t* row(std::size_t slot, std::uint32_t tile) const;
  std::uint8_t* result(std::size_t kept, std::uint32_t tile);
  Prg stream(const std::optional<Seed>& seed, std::string_view purpose, std::uint32_t tile) const;
  Columns masks(const std::optional<Seed>& seed, std::string_view purpose, std::size_t rows,
                std::uint32_t tile) const;
  void add_result(std::uint32_t tile, ByteSpan shares);

  ShuffleOrders orders_;
  std::size_t slots_, kept_, dropped_;
  Permutation first_from_, second_from_, third_from_;  // where a slot's content comes from
  Bytes zeros_;
};

}  // namespace s3oram
