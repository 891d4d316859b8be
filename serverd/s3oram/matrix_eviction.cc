// Multiplies the buckets of a path by shared matrices.
#include "serverd/s3oram/matrix_eviction.h"

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

Result<std::shared_ptr<Eviction>> MatrixEviction::make(EvictionInput input,
                                                       const EvictionHost& host) {
  const std::size_t z = input.volume.params.bucket_size;
  if (input.orders.size() != (input.height + 1) * 2 * z * z)
    return fail(Errc::bad_request, "matrices of the wrong size");
  return std::shared_ptr<Eviction>(std::make_shared<MatrixEviction>(std::move(input), host));
}

MatrixEviction::MatrixEviction(EvictionInput input, const EvictionHost& host)
    : Eviction(std::move(input), host, input.volume.params.bucket_size, input.height + 1),
      level_0_(std::make_shared<BucketVersion>(params().bucket_size, params().slot_size())) {
  lagrange_ = lagrange_at_zero(quorum_points(params().scheme));
}

// Step s < H pushes path level s into s + 1; step H pushes level H - 1 into the leaf's sibling.
BucketRows MatrixEviction::source(std::size_t step) const {
  const std::size_t level = std::min<std::size_t>(step, input_.height - 1);
  return level == 0 ? writes_ : rows_of(path_[level - 1].bucket_version, params().bucket_size);
}

BucketBuffers MatrixEviction::take_results() {
  BucketBuffers results = Eviction::take_results();
  results.insert(results.begin(), std::move(level_0_));
  return results;
}

void MatrixEviction::keep_writes(std::uint32_t tile) {
  const auto& rows = writes_.rows;
  for (std::size_t slot = 0; slot < params().bucket_size; ++slot) {
    std::uint8_t* to = level_0_->slot(slot) + tile_begin(tile);
    if (slot < rows.size())
      std::copy_n(rows[slot] + tile_begin(tile), tile_width(tile), to);
    else
      std::fill_n(to, tile_width(tile), std::uint8_t{0});
  }
}

Task<Status> MatrixEviction::evict_tile(std::uint32_t tile) {
  co_await offload(host_.pool, [&] { keep_writes(tile); });
  for (std::size_t at = 0; at <= input_.height; ++at) S3O_CO_TRY(co_await step(at, tile));
  co_return Status{};
}

Task<Status> MatrixEviction::step(std::size_t at, std::uint32_t tile) {
  std::vector<Bytes> mine;
  if (reads_path()) {
    const auto random = randomness(at, tile);
    mine = co_await offload(host_.pool, [&] { return multiply(at, tile, *random); });
    for (Party to = 1; to <= params().scheme.servers; ++to)
      if (to != self()) send(to, at, tile, mine[to - 1]);
  }
  std::vector<ByteSpan> shares(params().scheme.quorum());
  for (Party from = 1; from <= shares.size(); ++from) {
    if (from == self()) {
      shares[from - 1] = mine[from - 1];
      continue;
    }
    S3O_CO_ASSIGN(auto share,
                  co_await await(from, at, tile, params().bucket_size * tile_width(tile)));
    shares[from - 1] = share;
  }
  co_await offload(host_.pool, [&] { combine(at, tile, shares); });
  for (Party from = 1; from <= shares.size(); ++from) forget(from, at, tile);
  co_return Status{};
}

std::unique_ptr<Random> MatrixEviction::randomness(std::size_t at, std::uint32_t tile) {
  if (params().privacy == Privacy::information_theoretic)
    return std::make_unique<DrawnRandom>(
        host_.random, params().scheme.threshold * params().bucket_size * tile_width(tile));
  Writer context;
  context(as_bytes("smp"), input_.epoch, input_.id.eviction, input_.id.attempt, at, tile);
  return std::make_unique<Prg>(host_.random.seed(), context.take());
}

// Protocol 1, steps 2 and 3, for the Z columns of matrix `at`: computes this server's product and
// reshares it.
std::vector<Bytes> MatrixEviction::multiply(std::size_t at, std::uint32_t tile,
                                            Random& random) const {
  const std::size_t z = params().bucket_size;
  const std::size_t width = tile_width(tile);
  const ByteSpan matrix = input_.orders.subspan(at * 2 * z * z, 2 * z * z);
  Bytes product(z * width);
  std::vector<std::uint8_t*> outs(z);
  for (std::size_t k = 0; k < z; ++k) outs[k] = product.data() + k * width;
  const auto add = [&](const BucketRows& bucket, ByteSpan part) {
    std::vector<const std::uint8_t*> rows = bucket.rows;
    for (auto& row : rows) row += tile_begin(tile);
    gf::matrix_product(part.first(rows.size() * z), rows, outs, width);
  };
  add(source(at), matrix.first(z * z));
  add(target(at), matrix.last(z * z));

  return create_shares(params().scheme, product, random);
}

// Protocol 1, step 6: combines the subshares.
void MatrixEviction::combine(std::size_t at, std::uint32_t tile,
                             const std::vector<ByteSpan>& shares) {
  const std::size_t width = tile_width(tile);
  for (std::size_t k = 0; k < params().bucket_size; ++k) {
    const MutableByteSpan out(path_[at].bucket_version->slot(k) + tile_begin(tile), width);
    std::ranges::fill(out, std::uint8_t{0});
    for (std::size_t i = 0; i < shares.size(); ++i)
      gf::multiply_add(lagrange_[i], shares[i].subspan(k * width, width), out);
  }
}

}  // namespace s3oram
