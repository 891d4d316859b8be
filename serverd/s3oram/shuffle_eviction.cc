#include "serverd/s3oram/shuffle_eviction.h"

#include <array>

#include "oramcore/field/gf256.h"

namespace s3oram {
namespace {

constexpr std::size_t kPhases = 3;

/// Additive shares of what servers 1 and 2 hold shares of: their Lagrange coefficients at 0.
const Bytes& weights() {
  static const Bytes lagrange = lagrange_at_zero(Bytes{1, 2});
  return lagrange;
}

/// A line with f(0) = a and f(2) = g has f(x) = (1 + x/2) a + (x/2) g.
struct Line {
  std::uint8_t content, mask;
};
Line line_at(Party x) {
  const std::uint8_t part = gf::mul(x, gf::inverse(2));
  return {static_cast<std::uint8_t>(1 ^ part), part};
}

/// out = sum of coefficients[i] * rows[i].
template <std::size_t n>
void combine(const std::array<std::uint8_t, n>& coefficients,
             const std::array<const std::uint8_t*, n>& rows, MutableByteSpan out) {
  std::fill(out.begin(), out.end(), 0);
  gf::inner_product(coefficients, rows, out);
}

/// What each server must be told.
bool complete(const ShuffleOrders& orders, Party server) {
  const bool one = server == 1, two = server == 2, three = server == 3;
  return orders.first.has_value() == (one || two) && orders.second.empty() == one &&
         orders.third.has_value() == (three || one) &&
         orders.mask_first.has_value() == (one || three) &&
         orders.mask_second.has_value() == (two || one) &&
         orders.line_of_1.has_value() == (one || two) &&
         orders.line_of_3.has_value() == (three || two);
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
  /// Not initialised.
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

Result<std::shared_ptr<Eviction>> ShuffleEviction::make(EvictionInput input,
                                                        const EvictionHost& host) {
  auto orders = decode<ShuffleOrders>(input.orders);
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
                                 ShuffleOrders orders)
    : Eviction(std::move(input), host,
               PathSlots::evicted(input.volume.params, input.id.eviction, input.height).count(),
               kPhases),
      orders_(std::move(orders)),
      slots_(PathSlots::evicted(params(), input_.id.eviction, input_.height).count()),
      dropped_(params().evict_every),
      zeros_(tile_limit()) {
  kept_ = slots_ - dropped_;
  first_from_ = from_seed(orders_.first, "pi 1", slots_);
  third_from_ = from_seed(orders_.third, "pi 3", slots_);
  second_from_ = inverse(Permutation(orders_.second.begin(), orders_.second.end()));
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
  Writer context;
  context(as_bytes(purpose), input_.epoch, input_.id.eviction, input_.id.attempt, tile);
  return Prg(*seed, context.take());
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
  return self() == 1 ? first_server(tile) : self() == 2 ? second_server(tile) : third_server(tile);
}

Task<Status> ShuffleEviction::first_server(std::uint32_t tile) {
  const std::size_t width = tile_width(tile);
  Columns to_second(slots_, width), to_third(kept_, width);
  co_await offload(host_.pool, [&] {
    for (std::size_t i = 0; i < slots_; ++i)
      combine<1>({weights()[0]}, {row(first_from_[i], tile)}, to_second.row(i));
    stream(orders_.mask_first, "phase 0", tile).add_to(to_second.all());
  });
  send(2, 0, tile, to_second.all());
  co_await offload(host_.pool, [&] {
    const Columns mine = masks(orders_.mask_second, "phase 1", slots_, tile);
    const Columns second = masks(orders_.line_of_1, "line of 1", kept_, tile);
    const Line own = line_at(1), other = line_at(3);
    for (std::size_t i = 0; i < kept_; ++i) {
      const std::uint8_t* content = mine.at(third_from_[dropped_ + i]);
      combine<2>({own.content, own.mask}, {content, second.at(i)}, {result(i, tile), width});
      combine<2>({other.content, other.mask}, {content, second.at(i)}, to_third.row(i));
    }
  });
  send(3, 2, tile, to_third.all());
  S3O_CO_ASSIGN(auto shares, co_await await(3, 2, tile, kept_ * width));
  co_await offload(host_.pool, [&] { add_result(tile, shares); });
  forget(3, 2, tile);
  co_return Status{};
}

Task<Status> ShuffleEviction::second_server(std::uint32_t tile) {
  const std::size_t width = tile_width(tile);
  S3O_CO_ASSIGN(auto received, co_await await(1, 0, tile, slots_ * width));
  Columns to_third(slots_, width);
  co_await offload(host_.pool, [&] {
    for (std::size_t i = 0; i < slots_; ++i) {
      const std::size_t from = second_from_[i];
      const std::uint8_t* first = received.data() + from * width;
      combine<2>({weights()[1], 1}, {row(first_from_[from], tile), first}, to_third.row(i));
    }
    stream(orders_.mask_second, "phase 1", tile).add_to(to_third.all());
  });
  send(3, 1, tile, to_third.all());
  forget(1, 0, tile);
  co_await offload(host_.pool, [&] {
    const Columns of_1 = masks(orders_.line_of_1, "line of 1", kept_, tile);
    const Columns of_3 = masks(orders_.line_of_3, "line of 3", kept_, tile);
    for (std::size_t i = 0; i < kept_; ++i)
      combine<2>({1, 1}, {of_1.at(i), of_3.at(i)}, {result(i, tile), width});
  });
  co_return Status{};
}

Task<Status> ShuffleEviction::third_server(std::uint32_t tile) {
  const std::size_t width = tile_width(tile);
  S3O_CO_ASSIGN(auto received, co_await await(2, 1, tile, slots_ * width));
  Columns to_first(kept_, width);
  co_await offload(host_.pool, [&] {
    const Columns mine = masks(orders_.mask_first, "phase 0", slots_, tile);
    const Columns mask = masks(orders_.line_of_3, "line of 3", kept_, tile);
    const Line own = line_at(3), other = line_at(1);
    for (std::size_t i = 0; i < kept_; ++i) {
      const std::size_t from = third_from_[dropped_ + i];
      const std::uint8_t* a = mine.at(second_from_[from]);
      const std::uint8_t* b = received.data() + from * width;
      combine<3>({own.content, own.content, own.mask}, {a, b, mask.at(i)},
                 {result(i, tile), width});
      combine<3>({other.content, other.content, other.mask}, {a, b, mask.at(i)}, to_first.row(i));
    }
  });
  send(1, 2, tile, to_first.all());
  forget(2, 1, tile);
  S3O_CO_ASSIGN(auto shares, co_await await(1, 2, tile, kept_ * width));
  co_await offload(host_.pool, [&] { add_result(tile, shares); });
  forget(1, 2, tile);
  co_return Status{};
}

}  // namespace s3oram
