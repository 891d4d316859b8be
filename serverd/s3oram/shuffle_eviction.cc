// Plays one role in a shuffle (shuffle_eviction.h).
#include "serverd/s3oram/shuffle_eviction.h"

#include <array>

#include "oramcore/field/gf256.h"
#include "oramcore/protocol/shuffle_streams.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr std::size_t kSteps = 4;  // the steps in which messages are sent
constexpr const auto& kHops = kShuffleHops;
constexpr const ShuffleHop &kFirstToSecond = kHops[0], &kSecondToThird = kHops[1],
                           &kThirdToFirst = kHops[2], &kFirstToThird = kHops[3], &kAudit = kHops[4];

/// A line with f(0) = content and f(mask's point) = mask has f(x) = A(x) * content + B(x) * mask,
/// with A(x) = 1 + x / mask's point and B(x) = x / mask's point.
struct Line {
  std::uint8_t content, mask;
};
Line line_at(Party x, Party point_of_mask) {
  const std::uint8_t part = gf::mul(x, gf::inverse(point_of_mask));
  return {static_cast<std::uint8_t>(1 ^ part), part};
}

/// Sets out = sum of coefficients[i] * rows[i].
template <std::size_t n>
void combine(const std::array<std::uint8_t, n>& coefficients,
             const std::array<const std::uint8_t*, n>& rows, MutableByteSpan out) {
  std::ranges::fill(out, std::uint8_t{0});
  gf::inner_product(coefficients, rows, out);
}

unsigned role_of(Party server, Party first_server) { return (server + 3u - first_server) % 3 + 1; }

/// Checks that each role is told what it must know, and no more.
bool complete(const CheckedShuffleOrders& orders, Party server) {
  if (orders.first_server < 1 || orders.first_server > 3) return false;
  const unsigned role = role_of(server, orders.first_server);
  const bool one = role == 1, two = role == 2, three = role == 3;
  const bool checked = orders.checked();
  return orders.first.has_value() == (one || two) && orders.second.empty() == one &&
         orders.third.has_value() == (three || one) &&
         orders.mask_first.has_value() == (one || three) &&
         orders.mask_second.has_value() == (two || one) &&
         orders.line_of_1.has_value() == (one || two) &&
         orders.line_of_3.has_value() == (three || two) &&
         orders.check_1.has_value() == (checked && !one) &&
         orders.check_2.has_value() == (checked && !two) &&
         orders.check_3.has_value() == (checked && !three) &&
         orders.audit_mask.has_value() == (checked && two);
}

Permutation from_seed(const std::optional<Seed>& seed, std::string_view purpose,
                      std::size_t slots) {
  if (!seed) return {};
  Prg prg(*seed, as_bytes(purpose));
  return inverse(random_permutation(slots, prg));
}

}  // namespace

class ShuffleEviction::Columns {
 public:
  /// Leaves the content uninitialised.
  Columns(std::size_t rows, std::size_t width)
      : width_(width),
        own_(std::make_unique_for_overwrite<std::uint8_t[]>(rows * width)),
        all_(own_.get(), rows * width) {}
  MutableByteSpan row(std::size_t at) { return all_.subspan(at * width_, width_); }
  const std::uint8_t* at(std::size_t row) const { return all_.data() + row * width_; }
  MutableByteSpan all() { return all_; }

 private:
  std::size_t width_;
  std::unique_ptr<std::uint8_t[]> own_;
  MutableByteSpan all_;
};

/// The lists of a report, in their order in it, as sums that are not reduced yet.
class ShuffleEviction::Tally {
 public:
  explicit Tally(const ShuffleEviction& eviction) {
    const auto size = [this](HopList&, std::size_t rows) { lists_.emplace_back(rows); };
    eviction.visit_report(size);
  }
  /// Adds the digest of `row` to number `at` of list `list`.
  void add(std::size_t list, std::size_t at, const HopDigest& digest, const std::uint8_t* row) {
    digest.add(row, lists_[list][at]);
  }
  void add_words(std::size_t list, const HopDigest& digest, ByteSpan words) {
    digest.add_words(words, lists_[list][0]);
  }
  void add(const Tally& other) {
    for (std::size_t list = 0; list < lists_.size(); ++list)
      for (std::size_t at = 0; at < lists_[list].size(); ++at)
        for (std::size_t word = 0; word < 4; ++word)
          lists_[list][at].words[word] ^= other.lists_[list][at].words[word];
  }
  gf128::Element digest(std::size_t list, std::size_t at) const {
    return gf128::reduce(lists_[list][at]);
  }

 private:
  std::vector<std::vector<gf128::Sum>> lists_;
};

Result<std::shared_ptr<Eviction>> ShuffleEviction::make(EvictionInput input,
                                                        const EvictionHost& host) {
  auto orders = decode_any_shuffle_orders(input.orders);
  if (!orders || !complete(*orders, input.volume.server))
    return fail(Errc::bad_request, "not the orders of server {}", input.volume.server);
  const auto slots =
      PathSlots::evicted(input.volume.params, input.id.eviction, input.height).count();
  const Permutation second(orders->second.begin(), orders->second.end());
  if (!second.empty() && (second.size() != slots || !is_permutation(second)))
    return fail(Errc::bad_request, "not a permutation of the path's slots");
  return std::shared_ptr<Eviction>(
      std::make_shared<ShuffleEviction>(std::move(input), host, std::move(*orders)));
}

ShuffleEviction::ShuffleEviction(EvictionInput input, const EvictionHost& host,
                                 SignedShuffleOrders orders)
    : Eviction(std::move(input), host,
               PathSlots::evicted(input.volume.params, input.id.eviction, input.height).count(),
               kSteps),
      orders_(std::move(orders)),
      role_(role_of(self(), orders_.first_server)),
      slots_(PathSlots::evicted(params(), input_.id.eviction, input_.height).count()),
      dropped_(params().evict_every),
      zeros_(tile_limit()) {
  kept_ = slots_ - dropped_;
  first_from_ = from_seed(orders_.first, "pi 1", slots_);
  third_from_ = from_seed(orders_.third, "pi 3", slots_);
  second_from_ = inverse(Permutation(orders_.second.begin(), orders_.second.end()));
  if (!checked()) return;
  tally_ = std::make_unique<Tally>(*this);
  if (role_ != 3) weights_ = share_weights(*orders_.check_3, {input_.epoch, input_.id}, slots_);
}

ShuffleEviction::~ShuffleEviction() = default;

Party ShuffleEviction::server_of(unsigned role) const {
  return static_cast<Party>((orders_.first_server + role - 2) % 3 + 1);
}

/// Returns the sum of this role's shares of the path, each times its weight. It is scaled so that
/// the sums of roles 1 and 2 add up to that of L(3,1) times the shares of role 3.
RowSum ShuffleEviction::audited(std::uint32_t tile) const {
  const Bytes pair{server_of(1), server_of(2)};
  const std::uint8_t scale = gf::mul(weight(3, 1), lagrange_at(server_of(3), pair)[role_ - 1]);
  Bytes scaled(tile_width(tile));
  RowSum sum(scaled.size());
  for (std::size_t s = 0; s < slots_; ++s) {
    combine<1>({scale}, {row(s, tile)}, scaled);
    sum.add(weights_[s], scaled.data());
  }
  return sum;
}

/// Returns L(role, other), the weight of the share of `role` beside that of `other`.
std::uint8_t ShuffleEviction::weight(unsigned role, unsigned other) const {
  return lagrange_at_zero(Bytes{server_of(role), server_of(other)})[0];
}

template <class Visit>
void ShuffleEviction::visit_report(Visit each) const {
  FirstReport first;
  SecondReport second;
  ThirdReport third;
  if (role_ == 1) first.visit(slots_, kept_, each);
  if (role_ == 2) second.visit(slots_, kept_, each);
  if (role_ == 3) third.visit(slots_, kept_, each);
}

Bytes ShuffleEviction::report() const {
  Bytes bytes;
  if (!checked()) return bytes;
  std::size_t list = 0;
  visit_report([&](HopList&, std::size_t rows) {
    for (std::size_t at = 0; at < rows; ++at) {
      const auto digest = gf128::to_bytes(tally_->digest(list, at));
      bytes.insert(bytes.end(), digest.begin(), digest.end());
    }
    ++list;
  });
  std::vector<HopReceipt> receipts;
  for (const auto& [of, receipt] : receipts_) receipts.push_back(receipt);
  const Bytes packed = pack(receipts);
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  return bytes;
}

void ShuffleEviction::pass_on(const ShuffleHop& hop, std::uint32_t tile, ByteSpan content) {
  if (!is_signed()) return send(server_of(hop.to), hop.step, tile, content);
  const HopSignature signature = sign_hop(*orders_.sign, hop_hash(hop, tile, content));
  Bytes message(content.begin(), content.end());
  message.insert(message.end(), signature.begin(), signature.end());
  send(server_of(hop.to), hop.step, tile, message);
}

Task<Result<ByteSpan>> ShuffleEviction::take(const ShuffleHop& hop, std::uint32_t tile,
                                             std::size_t size) {
  const Party from = server_of(hop.from);
  if (!is_signed()) co_return co_await await(from, hop.step, tile, size);
  HopReceipt receipt;
  S3O_CO_ASSIGN(const auto message,
                co_await await(from, hop.step, tile, size + receipt.signature.size()));
  std::ranges::copy(message.last(receipt.signature.size()), receipt.signature.begin());
  const bool right = co_await offload(host_.pool, [&] {
    receipt.hash = hop_hash(hop, tile, message.first(size));
    return s3oram::is_signed(orders_.verify(hop.from), receipt.hash, receipt.signature);
  });
  if (!right)
    co_return fail(Errc::servers_disagree, "server {} does not sign what it passes on", from);
  receipts_[{&hop - kHops.data(), tile}] = receipt;
  co_return message.first(size);
}

const std::uint8_t* ShuffleEviction::row(std::size_t slot, std::uint32_t tile) const {
  if (slot < dropped_)
    return slot < writes_.rows.size() ? writes_.rows[slot] + tile_begin(tile) : zeros_.data();
  const std::size_t z = params().bucket_size;
  const PathBucket& bucket = path_[(slot - dropped_) / z];
  slot = (slot - dropped_) % z;
  return slot < bucket.slots ? bucket.bucket_version->slot(slot) + tile_begin(tile) : zeros_.data();
}

std::uint8_t* ShuffleEviction::result(std::size_t kept, std::uint32_t tile) {
  const std::size_t z = params().bucket_size;
  return path_[kept / z].bucket_version->slot(kept % z) + tile_begin(tile);
}

Prg ShuffleEviction::stream(const std::optional<Seed>& seed, std::string_view purpose,
                            std::uint32_t tile) const {
  return shuffle_stream(*seed, purpose, {input_.epoch, input_.id}, tile);
}

ShuffleEviction::Columns ShuffleEviction::masks(const std::optional<Seed>& seed,
                                                std::string_view purpose, std::size_t rows,
                                                std::uint32_t tile) const {
  Columns drawn(rows, tile_width(tile));
  stream(seed, purpose, tile).fill(drawn.all());
  return drawn;
}

void ShuffleEviction::add_result(std::uint32_t tile, ByteSpan shares) {
  const std::size_t width = tile_width(tile);
  for (std::size_t i = 0; i < kept_; ++i)
    gf::multiply_add(1, shares.subspan(i * width, width), MutableByteSpan(result(i, tile), width));
}

Task<Status> ShuffleEviction::evict_tile(std::uint32_t tile) {
  return role_ == 1 ? first_role(tile) : role_ == 2 ? second_role(tile) : third_role(tile);
}

/// The digests that one role makes of one tile's columns. They are made while other tiles are under
/// way, and added to the Tally when the tile is done.
class ShuffleEviction::TileCheck {
 public:
  TileCheck(const ShuffleEviction& eviction, std::uint32_t tile)
      : scaled_(eviction.tile_width(tile)), tally_(eviction) {
    const std::optional<Seed>* const keys[] = {&eviction.orders_.check_1, &eviction.orders_.check_2,
                                               &eviction.orders_.check_3};
    for (std::size_t i = 0; i < 3; ++i) {
      if (!*keys[i]) continue;
      Prg coefficients = eviction.stream(*keys[i], shuffle_streams::kDigest, tile);
      digests_[i] = std::make_unique<HopDigest>(coefficients, scaled_.size());
    }
  }
  /// Adds the digest of `row` under key `key` (1 to 3).
  void add(std::size_t list, std::size_t at, unsigned key, const std::uint8_t* row) {
    tally_.add(list, at, *digests_[key - 1], row);
  }
  /// Adds the digest of a RowSum to the list, which contains nothing else.
  void add_words(std::size_t list, unsigned key, ByteSpan words) {
    tally_.add_words(list, *digests_[key - 1], words);
  }
  /// Adds the digest of a combination of rows.
  template <std::size_t n>
  void add(std::size_t list, std::size_t at, unsigned key,
           const std::array<std::uint8_t, n>& coefficients,
           const std::array<const std::uint8_t*, n>& rows) {
    combine<n>(coefficients, rows, scaled_);
    add(list, at, key, scaled_.data());
  }
  const Tally& tally() const { return tally_; }

 private:
  Bytes scaled_;
  std::unique_ptr<HopDigest> digests_[3];
  Tally tally_;
};

Task<Status> ShuffleEviction::first_role(std::uint32_t tile) {
  enum { own, from_third, audit };  // FirstReport
  const std::size_t width = tile_width(tile);
  const std::uint8_t share = weight(1, 2), with_third = weight(1, 3);
  const Line mine_at = line_at(server_of(1), server_of(2)),
             other_at = line_at(server_of(3), server_of(2));
  std::optional<TileCheck> check;
  if (checked()) check.emplace(*this, tile);
  Columns to_second(slots_, width), to_third(kept_, width);
  co_await offload(host_.pool, [&] {
    for (std::size_t i = 0; i < slots_; ++i)
      combine<1>({share}, {row(first_from_[i], tile)}, to_second.row(i));
    stream(orders_.mask_first, shuffle_streams::kFirstMask, tile).add_to(to_second.all());
  });
  pass_on(kFirstToSecond, tile, to_second.all());
  Bytes of_third;
  co_await offload(host_.pool, [&] {
    if (check) {  // before the new content replaces the old
      for (std::size_t i = 0; i < slots_; ++i)
        check->add<1>(own, i, 2, {with_third}, {row(i, tile)});
      of_third = audited(tile).bytes();
    }
    const Columns mine = masks(orders_.mask_second, shuffle_streams::kSecondMask, slots_, tile);
    const Columns second = masks(orders_.line_of_1, shuffle_streams::kLineOf1, kept_, tile);
    for (std::size_t i = 0; i < kept_; ++i) {
      const std::uint8_t* content = mine.at(third_from_[dropped_ + i]);
      combine<2>({mine_at.content, mine_at.mask}, {content, second.at(i)},
                 {result(i, tile), width});
      combine<2>({other_at.content, other_at.mask}, {content, second.at(i)}, to_third.row(i));
    }
  });
  pass_on(kFirstToThird, tile, to_third.all());
  S3O_CO_ASSIGN(auto shares, co_await take(kThirdToFirst, tile, passed_on() * width));
  co_await offload(host_.pool, [&] {
    for (std::size_t i = 0; check && i < slots_; ++i)
      check->add(from_third, i, 3, shares.data() + i * width);
    add_result(tile, shares.last(kept_ * width));
  });
  forget_hop(kThirdToFirst, tile);
  if (!check) co_return Status{};
  S3O_CO_ASSIGN(const auto rest, co_await take(kAudit, tile, of_third.size()));
  gf::multiply_add(1, rest, of_third);
  check->add_words(audit, 2, of_third);
  forget_hop(kAudit, tile);
  tally_->add(check->tally());
  co_return Status{};
}

Task<Status> ShuffleEviction::second_role(std::uint32_t tile) {
  enum { from_first, sent };  // SecondReport
  const std::size_t width = tile_width(tile);
  const std::uint8_t share = weight(2, 1);
  const auto beside_third = static_cast<std::uint8_t>(share ^ weight(2, 3));
  const Line first_at = line_at(server_of(1), server_of(2));
  std::optional<TileCheck> check;
  if (checked()) check.emplace(*this, tile);
  S3O_CO_ASSIGN(auto received, co_await take(kFirstToSecond, tile, slots_ * width));
  Columns to_third(slots_, width);
  Bytes of_third;
  co_await offload(host_.pool, [&] {
    for (std::size_t i = 0; i < slots_; ++i) {
      const std::size_t from = second_from_[i];
      const std::uint8_t* first = received.data() + from * width;
      const std::size_t slot = first_from_[from];
      combine<2>({share, 1}, {row(slot, tile), first}, to_third.row(i));
      // b2 is L(2,1) times the share, plus the received row; for the check, L(2,3) times the share
      // is added.
      if (check) check->add<2>(from_first, slot, 1, {beside_third, 1}, {row(slot, tile), first});
    }
    stream(orders_.mask_second, shuffle_streams::kSecondMask, tile).add_to(to_third.all());
    if (!check) return;
    for (std::size_t i = 0; i < slots_; ++i)
      check->add<1>(sent, i, 3, {first_at.content}, {to_third.at(i)});
    of_third = audited(tile).bytes();
    stream(orders_.audit_mask, shuffle_streams::kAudit, tile).add_to(of_third);
  });
  pass_on(kSecondToThird, tile, to_third.all());
  if (check) pass_on(kAudit, tile, of_third);
  forget_hop(kFirstToSecond, tile);
  co_await offload(host_.pool, [&] {
    const Columns of_1 = masks(orders_.line_of_1, shuffle_streams::kLineOf1, kept_, tile);
    const Columns of_3 = masks(orders_.line_of_3, shuffle_streams::kLineOf3, passed_on(), tile);
    for (std::size_t i = 0; i < kept_; ++i)
      combine<2>({1, 1}, {of_1.at(i), of_3.at(passed_on() - kept_ + i)}, {result(i, tile), width});
  });
  if (check) tally_->add(check->tally());
  co_return Status{};
}

Task<Status> ShuffleEviction::third_role(std::uint32_t tile) {
  enum { own, from_first, from_second, own_again };  // ThirdReport
  const std::size_t width = tile_width(tile);
  const Line mine_at = line_at(server_of(3), server_of(2)),
             other_at = line_at(server_of(1), server_of(2));
  std::optional<TileCheck> check;
  if (checked()) check.emplace(*this, tile);
  S3O_CO_ASSIGN(auto received, co_await take(kSecondToThird, tile, slots_ * width));
  Columns to_first(passed_on(), width);
  co_await offload(host_.pool, [&] {
    const Columns mine = masks(orders_.mask_first, shuffle_streams::kFirstMask, slots_, tile);
    const Columns mask = masks(orders_.line_of_3, shuffle_streams::kLineOf3, passed_on(), tile);
    if (check) {  // before the new content replaces the old
      const std::uint8_t with_second = weight(3, 2), with_first = weight(3, 1);
      for (std::size_t i = 0; i < slots_; ++i) {
        check->add<1>(own, i, 1, {with_second}, {row(i, tile)});
        check->add<1>(own_again, i, 2, {with_first}, {row(i, tile)});
        check->add<2>(from_second, second_from_[i], 2, {1, 1},
                      {received.data() + i * width, mine.at(second_from_[i])});
      }
    }
    const std::size_t first = slots_ - passed_on();  // the first place that is passed on
    for (std::size_t place = first; place < slots_; ++place) {
      const std::size_t from = third_from_[place];
      const std::uint8_t* a = mine.at(second_from_[from]);
      const std::uint8_t* b = received.data() + from * width;
      const std::uint8_t* g = mask.at(place - first);
      combine<3>({other_at.content, other_at.content, other_at.mask}, {a, b, g},
                 to_first.row(place - first));
      if (place >= dropped_)
        combine<3>({mine_at.content, mine_at.content, mine_at.mask}, {a, b, g},
                   {result(place - dropped_, tile), width});
    }
  });
  pass_on(kThirdToFirst, tile, to_first.all());
  forget_hop(kSecondToThird, tile);
  S3O_CO_ASSIGN(auto shares, co_await take(kFirstToThird, tile, kept_ * width));
  co_await offload(host_.pool, [&] {
    if (check)
      for (std::size_t i = 0; i < kept_; ++i)
        check->add(from_first, i, 1, shares.data() + i * width);
    add_result(tile, shares);
  });
  forget_hop(kFirstToThird, tile);
  if (check) tally_->add(check->tally());
  co_return Status{};
}

}  // namespace s3oram
