// Draws masks and computes their digests (hop_masks.h).
#include "oramcore/schemes/s3oram/hop_masks.h"

#include "oramcore/field/gf256.h"
#include "oramcore/protocol/message_bounds.h"
#include "oramcore/sharing/hop_digest.h"
#include "oramcore/sharing/row_sum.h"

namespace s3oram {
namespace {

using Sums = std::vector<gf128::Sum>;

/// Accumulates the sums over all tiles, from one tile's masks at a time.
class MaskDigests {
 public:
  MaskDigests(const VolumeParams& params, const EvictionOrders& orders,
              const ShuffleAttempt& attempt)
      : orders_(orders),
        attempt_(attempt),
        rows_(orders.hops.pi_1.size()),
        kept_(rows_ - params.evict_every),
        from_2_(inverse(orders.hops.pi_2)),
        from_3_(inverse(orders.hops.pi_3)),
        first_to_second_(rows_),
        second_to_third_(rows_),
        third_to_first_(rows_),
        first_to_third_(kept_) {
    const auto part = [&](unsigned role) {
      return gf::mul(orders.server_of(role), gf::inverse(orders.server_of(2)));
    };
    at_1_ = {static_cast<std::uint8_t>(1 ^ part(1)), part(1)};
    at_3_ = {static_cast<std::uint8_t>(1 ^ part(3)), part(3)};
  }

  void add_tile(std::uint32_t tile, std::size_t width);
  HopMasks take() const;

 private:
  /// A(x) and B(x), with the mask at role 2's point.
  struct Line {
    std::uint8_t content = 0, mask = 0;
  };
  Bytes drawn(const std::optional<Seed>& seed, std::string_view purpose, std::uint32_t tile,
              std::size_t size) const {
    Bytes bytes(size);
    shuffle_stream(*seed, purpose, attempt_, tile).fill(bytes);
    return bytes;
  }

  const EvictionOrders& orders_;
  const ShuffleAttempt attempt_;
  std::size_t rows_, kept_;
  Permutation from_2_, from_3_;
  Line at_1_, at_3_;
  Sums first_to_second_, second_to_third_, third_to_first_, first_to_third_;
  gf128::Sum audit_;
};

void MaskDigests::add_tile(std::uint32_t tile, std::size_t width) {
  using namespace shuffle_streams;
  const CheckedShuffleOrders& all = orders_.shuffle;
  const auto key = [&](const std::optional<Seed>& seed) {
    return shuffle_stream(*seed, kDigest, attempt_, tile);
  };
  Prg stream_1 = key(all.check_1), stream_2 = key(all.check_2), stream_3 = key(all.check_3);
  const HopDigest c1(stream_1, width), c2(stream_2, width), c3(stream_3, width);
  const Bytes g13 = drawn(all.mask_first, kFirstMask, tile, rows_ * width);
  const Bytes g21 = drawn(all.mask_second, kSecondMask, tile, rows_ * width);
  const Bytes g12 = drawn(all.line_of_1, kLineOf1, tile, kept_ * width);
  const Bytes g32 = drawn(all.line_of_3, kLineOf3, tile, rows_ * width);
  const auto& [pi_1, pi_2, pi_3] = orders_.hops;
  for (std::size_t s = 0; s < rows_; ++s) {
    c1.add(g13.data() + pi_1[s] * width, first_to_second_[s]);
    c2.add(g21.data() + pi_2[s] * width, second_to_third_[s]);
  }
  Bytes row(width);
  const auto digest = [&](Line line, const std::uint8_t* content, const std::uint8_t* mask,
                          const HopDigest& by, gf128::Sum& to) {
    std::ranges::fill(row, std::uint8_t{0});
    gf::inner_product(std::array{line.content, line.mask}, std::array{content, mask}, row);
    by.add(row.data(), to);
  };
  for (std::size_t r = 0; r < rows_; ++r) {
    const std::size_t q = from_3_[r];
    digest(at_1_, g13.data() + from_2_[q] * width, g32.data() + r * width, c3, third_to_first_[r]);
    if (r < rows_ - kept_) continue;
    const std::size_t at = r - (rows_ - kept_);
    digest(at_3_, g21.data() + q * width, g12.data() + at * width, c1, first_to_third_[at]);
  }
  c2.add_words(drawn(all.audit_mask, kAudit, tile, RowSum::size(width)), audit_);
}

HopMasks MaskDigests::take() const {
  const auto reduced = [](const Sums& sums) {
    HopList list;
    for (const gf128::Sum& sum : sums) list.push_back(gf128::reduce(sum));
    return list;
  };
  return {.first_to_second = reduced(first_to_second_),
          .second_to_third = reduced(second_to_third_),
          .third_to_first = reduced(third_to_first_),
          .first_to_third = reduced(first_to_third_),
          .audit = gf128::reduce(audit_),
          .weights = share_weights(*orders_.shuffle.check_3, attempt_, rows_)};
}

}  // namespace

HopMasks make_hop_masks(const VolumeParams& params, const EvictionOrders& orders,
                        const ShuffleAttempt& attempt) {
  MaskDigests digests(params, orders, attempt);
  const std::size_t whole = params.slot_size();
  const std::size_t width = tile_width(params, orders.hops.pi_1.size());
  for (std::size_t begin = 0, tile = 0; begin < whole; begin += width, ++tile)
    digests.add_tile(static_cast<std::uint32_t>(tile), std::min(width, whole - begin));
  return digests.take();
}

}  // namespace s3oram
