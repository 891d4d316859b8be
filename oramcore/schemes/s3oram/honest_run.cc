// Runs all three roles of a shuffle in memory (honest_run.h). The formulas are in docs/protocol.md
// and hop_check.h.
#include "oramcore/schemes/s3oram/honest_run.h"

#include "oramcore/field/gf256.h"
#include "oramcore/protocol/message_bounds.h"
#include "oramcore/sharing/hop_digest.h"
#include "oramcore/sharing/row_sum.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

/// The rows of one tile, one after another.
class TileRows {
 public:
  TileRows(std::size_t rows, std::size_t width) : width_(width), bytes_(rows * width) {}
  std::uint8_t* at(std::size_t row) { return bytes_.data() + row * width_; }
  const std::uint8_t* at(std::size_t row) const { return bytes_.data() + row * width_; }
  MutableByteSpan all() { return bytes_; }
  ByteSpan all() const { return bytes_; }

 private:
  std::size_t width_;
  Bytes bytes_;
};

/// The sums that make up a list of a report, before they are reduced.
struct ListSums {
  explicit ListSums(std::size_t rows) : sums(rows) {}
  HopList reduced() const {
    HopList list;
    for (const gf128::Sum& sum : sums) list.push_back(gf128::reduce(sum));
    return list;
  }
  std::vector<gf128::Sum> sums;
};

/// It is wide because it repeats what three servers do, with the names from docs/protocol.md.
class Shuffle {
 public:
  Shuffle(const VolumeParams& params, const EvictionOrders& orders, const ShuffleAttempt& attempt,
          const PathShares& shares)
      : orders_(orders),
        attempt_(attempt),
        rows_(orders.hops.pi_1.size()),
        dropped_(params.evict_every),
        whole_(params.slot_size()),
        tile_width_(tile_width(params, rows_)),
        weights_(share_weights(*orders.shuffle.check_3, attempt, rows_)),
        shares_(shares) {}

  HonestRun run();

 private:
  std::size_t kept() const { return rows_ - dropped_; }
  /// Returns L(role, other), as in hop_check.h.
  std::uint8_t weight(unsigned role, unsigned other) const {
    return lagrange_at_zero(Bytes{orders_.server_of(role), orders_.server_of(other)})[0];
  }
  /// Returns B(x) of role x; A(x) is that plus 1.
  std::uint8_t line(unsigned role) const {
    return gf::mul(orders_.server_of(role), gf::inverse(orders_.server_of(2)));
  }
  void run_tile(std::uint32_t tile);
  void load(std::size_t begin);
  void first_hops(std::uint32_t tile);
  void last_hops(std::uint32_t tile);
  void audit(std::uint32_t tile);
  TileRows drawn(const std::optional<Seed>& seed, std::string_view purpose, std::uint32_t tile,
                 std::size_t rows) const {
    TileRows bytes(rows, width_);
    shuffle_stream(*seed, purpose, attempt_, tile).fill(bytes.all());
    return bytes;
  }
  /// Computes out = a * x + b * y.
  void combine(std::uint8_t a, const std::uint8_t* x, std::uint8_t b, const std::uint8_t* y,
               std::uint8_t* out) const {
    std::fill_n(out, width_, 0);
    gf::inner_product(std::array{a, b}, std::array{x, y}, MutableByteSpan(out, width_));
  }
  void note(std::size_t hop, std::uint32_t tile, ByteSpan content) {
    result_.sent[hop].push_back(hop_hash(kShuffleHops[hop], tile, content));
  }

  const EvictionOrders& orders_;
  const ShuffleAttempt attempt_;
  const std::size_t rows_, dropped_, whole_, tile_width_;
  const std::vector<gf128::Element> weights_;
  const PathShares& shares_;

  // For the current tile.
  std::size_t width_ = 0;
  std::vector<TileRows> role_;             // shares by role, from 1
  std::unique_ptr<HopDigest> digests_[4];  // by key
  TileRows g13_{0, 0}, to_third_{0, 0};    // mask and content of the second hop

  ListSums first_own_{rows_}, first_received_{rows_}, second_received_{rows_}, second_sent_{rows_},
      third_own_{rows_}, third_own_again_{rows_}, third_first_{rows_ - dropped_},
      third_second_{rows_}, audit_{1};
  HonestRun result_;
};

HonestRun Shuffle::run() {
  for (std::size_t begin = 0, tile = 0; begin < whole_; begin += tile_width_, ++tile) {
    width_ = std::min(tile_width_, whole_ - begin);
    load(begin);
    run_tile(static_cast<std::uint32_t>(tile));
  }
  result_.reports = {{first_own_.reduced(), first_received_.reduced(), audit_.reduced()},
                     {second_received_.reduced(), second_sent_.reduced()},
                     {third_own_.reduced(), third_first_.reduced(), third_second_.reduced(),
                      third_own_again_.reduced()}};
  return std::move(result_);
}

void Shuffle::load(std::size_t begin) {
  const Bytes pair{1, 2};
  role_.assign(4, TileRows(rows_, width_));
  for (unsigned role = 1; role <= 3; ++role) {
    const Bytes at = lagrange_at(orders_.server_of(role), pair);
    for (std::size_t s = 0; s < rows_; ++s)
      combine(at[0], shares_[0][s].data() + begin, at[1], shares_[1][s].data() + begin,
              role_[role].at(s));
  }
}

void Shuffle::run_tile(std::uint32_t tile) {
  const SignedShuffleOrders& all = orders_.shuffle;
  const std::optional<Seed>* const keys[] = {nullptr, &all.check_1, &all.check_2, &all.check_3};
  for (unsigned key = 1; key <= 3; ++key) {
    Prg coefficients = shuffle_stream(**keys[key], shuffle_streams::kDigest, attempt_, tile);
    digests_[key] = std::make_unique<HopDigest>(coefficients, width_);
  }
  first_hops(tile);
  last_hops(tile);
  audit(tile);
}

void Shuffle::first_hops(std::uint32_t tile) {
  using namespace shuffle_streams;
  const auto& [pi_1, pi_2, pi_3] = orders_.hops;
  g13_ = drawn(orders_.shuffle.mask_first, kFirstMask, tile, rows_);
  TileRows to_second = g13_;
  to_third_ = drawn(orders_.shuffle.mask_second, kSecondMask, tile, rows_);
  Bytes row(width_);
  for (std::size_t s = 0; s < rows_; ++s) {
    const std::size_t p = pi_1[s], q = pi_2[p];
    const MutableByteSpan hop(to_second.at(p), width_), next(to_third_.at(q), width_);
    gf::multiply_add(weight(1, 2), ByteSpan(role_[1].at(s), width_), hop);
    gf::multiply_add(weight(2, 1), ByteSpan(role_[2].at(s), width_), next);
    gf::multiply_add(1, hop, next);
    // b2 = hop + L(2,1) times the share; the report is the digest of b2 + L(2,3) times the share.
    combine(1, hop.data(), static_cast<std::uint8_t>(weight(2, 1) ^ weight(2, 3)), role_[2].at(s),
            row.data());
    digests_[1]->add(row.data(), second_received_.sums[s]);
    combine(1, next.data(), 1, g13_.at(p), row.data());
    digests_[2]->add(row.data(), third_second_.sums[p]);
    combine(static_cast<std::uint8_t>(1 ^ line(1)), next.data(), 0, next.data(), row.data());
    digests_[3]->add(row.data(), second_sent_.sums[q]);
    combine(weight(1, 3), role_[1].at(s), 0, role_[1].at(s), row.data());
    digests_[2]->add(row.data(), first_own_.sums[s]);
    combine(weight(3, 2), role_[3].at(s), 0, role_[3].at(s), row.data());
    digests_[1]->add(row.data(), third_own_.sums[s]);
    combine(weight(3, 1), role_[3].at(s), 0, role_[3].at(s), row.data());
    digests_[2]->add(row.data(), third_own_again_.sums[s]);
  }
  note(0, tile, to_second.all());
  note(1, tile, to_third_.all());
}

void Shuffle::last_hops(std::uint32_t tile) {
  using namespace shuffle_streams;
  const Permutation from_3 = inverse(orders_.hops.pi_3), from_2 = inverse(orders_.hops.pi_2);
  const TileRows g21 = drawn(orders_.shuffle.mask_second, kSecondMask, tile, rows_);
  const TileRows g32 = drawn(orders_.shuffle.line_of_3, kLineOf3, tile, rows_);
  const TileRows g12 = drawn(orders_.shuffle.line_of_1, kLineOf1, tile, kept());
  TileRows to_first(rows_, width_), from_first(kept(), width_);
  Bytes content(width_);
  for (std::size_t r = 0; r < rows_; ++r) {
    const std::size_t q = from_3[r];
    combine(1, to_third_.at(q), 1, g13_.at(from_2[q]), content.data());
    combine(static_cast<std::uint8_t>(1 ^ line(1)), content.data(), line(1), g32.at(r),
            to_first.at(r));
    digests_[3]->add(to_first.at(r), first_received_.sums[r]);
    if (r < dropped_) continue;
    const std::size_t at = r - dropped_;
    combine(static_cast<std::uint8_t>(1 ^ line(3)), g21.at(q), line(3), g12.at(at),
            from_first.at(at));
    digests_[1]->add(from_first.at(at), third_first_.sums[at]);
  }
  note(2, tile, to_first.all());
  note(3, tile, from_first.all());
}

void Shuffle::audit(std::uint32_t tile) {
  const Bytes scale =
      lagrange_at(orders_.server_of(3), Bytes{orders_.server_of(1), orders_.server_of(2)});
  Bytes row(width_), of_first, of_second;
  for (const unsigned role : {1u, 2u}) {
    RowSum sum(width_);
    const std::uint8_t factor = gf::mul(weight(3, 1), scale[role - 1]);
    for (std::size_t s = 0; s < rows_; ++s) {
      combine(factor, role_[role].at(s), 0, role_[role].at(s), row.data());
      sum.add(weights_[s], row.data());
    }
    (role == 1 ? of_first : of_second) = sum.bytes();
  }
  shuffle_stream(*orders_.shuffle.audit_mask, shuffle_streams::kAudit, attempt_, tile)
      .add_to(of_second);
  note(4, tile, of_second);
  gf::multiply_add(1, of_second, of_first);
  digests_[2]->add_words(of_first, audit_.sums[0]);
}

}  // namespace

HonestRun run_honestly(const VolumeParams& params, const EvictionOrders& orders,
                       const ShuffleAttempt& attempt, const PathShares& shares) {
  return Shuffle(params, orders, attempt, shares).run();
}

}  // namespace s3oram
