// The shuffle evictor (t = 1, l = 3): one hidden permutation of the whole path, pi_3 after pi_2
// after pi_1, in three phases. Each server knows two of the three. docs/protocol.md says who sends
// what, and why no server learns the whole permutation.
//
//   phase 0   1 and 2 permute their shares by pi_1, weighted so that they add up to the content;
//             1 passes its part on to 2, masked; 3 has the mask
//   phase 1   2 and 3 permute by pi_2; 2 passes its part on to 3, masked; 1 has the mask
//   phase 2   3 and 1 permute by pi_3, and each reshares its part on a line through the mask that 2
//             holds; they exchange their shares
//
// Here 1, 2 and 3 are roles, which rotate from attempt to attempt. If the orders contain keys for
// this, each role also digests what it holds and receives, for the client's check (hop_check.h),
// and signs what it sends (signed_hops.h).
#pragma once

#include "oramcore/protocol/hop_check.h"
#include "oramcore/protocol/permutation.h"
#include "oramcore/protocol/signed_hops.h"
#include "oramcore/sharing/hop_digest.h"
#include "oramcore/sharing/row_sum.h"
#include "serverd/oram/eviction.h"

namespace s3oram {

/// Its results, in order: the root's stash buckets, then the path's buckets from level 1 on. Slots
/// that land on the places of the evicted writes are dropped, because they are never read again.
/// The shares of roles 1 and 2 suffice.
class ShuffleEviction final : public Eviction {
 public:
  /// Errors: bad_request.
  static Result<std::shared_ptr<Eviction>> make(EvictionInput input, const EvictionHost& host);
  ShuffleEviction(EvictionInput input, const EvictionHost& host, SignedShuffleOrders orders);
  ~ShuffleEviction() override;
  bool reads_path() const override { return role_ != 3 || checked(); }
  Bytes report() const override;

 private:
  /// The columns of one tile, with a row for each slot, or for each kept slot.
  class Columns;
  /// Digests by list and row: TileCheck makes those of one tile, and Tally adds up those of all
  /// tiles so far.
  class TileCheck;
  class Tally;

  Task<Status> evict_tile(std::uint32_t tile) override;
  Task<Status> first_role(std::uint32_t tile);
  Task<Status> second_role(std::uint32_t tile);
  Task<Status> third_role(std::uint32_t tile);

  /// Calls each(list, rows) for the lists of this role's report, in order.
  template <class Visit>
  void visit_report(Visit each) const;
  bool checked() const { return orders_.checked(); }
  bool is_signed() const { return orders_.sign.has_value(); }
  /// Calls send(), with a signature if the orders ask for one.
  void pass_on(const ShuffleHop& hop, std::uint32_t tile, ByteSpan content);
  /// Calls await(), and keeps the receipt of a signed message. Errors: servers_disagree (the
  /// message should be signed correctly, and is not).
  Task<Result<ByteSpan>> take(const ShuffleHop& hop, std::uint32_t tile, std::size_t size);
  void forget_hop(const ShuffleHop& hop, std::uint32_t tile) {
    forget(server_of(hop.from), hop.step, tile);
  }
  /// Returns how many rows 3 passes on to 1: the kept rows, or all rows if the check must cover
  /// them.
  std::size_t passed_on() const { return checked() ? slots_ : kept_; }
  Party server_of(unsigned role) const;
  RowSum audited(std::uint32_t tile) const;
  std::uint8_t weight(unsigned role, unsigned other) const;
  const std::uint8_t* row(std::size_t slot, std::uint32_t tile) const;
  std::uint8_t* result(std::size_t kept, std::uint32_t tile);
  Prg stream(const std::optional<Seed>& seed, std::string_view purpose, std::uint32_t tile) const;
  Columns masks(const std::optional<Seed>& seed, std::string_view purpose, std::size_t rows,
                std::uint32_t tile) const;
  void add_result(std::uint32_t tile, ByteSpan shares);

  const SignedShuffleOrders orders_;
  const unsigned role_;
  std::size_t slots_, kept_, dropped_;
  Permutation first_from_, second_from_, third_from_;  // where each slot's content comes from
  Bytes zeros_;
  std::unique_ptr<Tally> tally_;         // tally of all tiles so far
  std::vector<gf128::Element> weights_;  // share_weights()
  // Receipts of what this role has received, by place in kShuffleHops and tile.
  std::map<std::pair<std::ptrdiff_t, std::uint32_t>, HopReceipt> receipts_;
};

}  // namespace s3oram
