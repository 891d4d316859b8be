#include "serverd/eviction.h"

#include <algorithm>
#include <numeric>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr std::size_t kTileBytes = 1 << 18;  // of a product: Z rows of a tile
constexpr std::size_t kTileAlign = 64;
constexpr std::size_t kTilesAtOnce = 3;

}  // namespace

Eviction::Eviction(EvictionInput input, Executor executor, Executor pool, Rpc& peers,
                   Random& random)
    : input_(std::move(input)),
      executor_(std::move(executor)),
      pool_(std::move(pool)),
      peers_(peers),
      random_(random) {
  const VolumeParams& params = input_.volume.params;
  Bytes points(params.scheme.quorum());
  std::iota(points.begin(), points.end(), std::uint8_t{1});
  lagrange_ = lagrange_at_zero(points);
  const std::size_t fitting = kTileBytes / params.bucket_size / kTileAlign * kTileAlign;
  tile_width_ = std::min<std::size_t>(params.slot_size(), std::max(fitting, kTileAlign));
  tiles_ = static_cast<std::uint32_t>((params.slot_size() + tile_width_ - 1) / tile_width_);
  for (unsigned step = 0; step <= input_.height; ++step)
    results_.push_back(std::make_shared<Frame>(params.bucket_size, params.slot_size()));
}

std::size_t Eviction::tile_width(std::uint32_t tile) const {
  return std::min<std::size_t>(tile_width_, input_.volume.params.slot_size() - tile_begin(tile));
}

// Step s < H pushes path level s into s + 1; step H pushes level H - 1 into the leaf's sibling.
BucketRows Eviction::source(std::size_t step) const {
  const std::size_t level = std::min<std::size_t>(step, input_.height - 1);
  if (level == 0) return on_path_[0];
  return {results_[level - 1], input_.volume.params.bucket_size};
}

const BucketRows& Eviction::target(std::size_t step) const {
  return step < input_.height ? on_path_[step + 1] : leaf_sibling_;
}

Task<Result<std::vector<std::shared_ptr<Frame>>>> Eviction::run() {
  auto self = shared_from_this();
  std::size_t working = std::min<std::size_t>(kTilesAtOnce, tiles_);
  for (std::size_t i = 0, workers = working; i < workers; ++i) {
    spawn(executor_, [](std::shared_ptr<Eviction> eviction, std::size_t& left) -> Task<void> {
      co_await eviction->work_off_tiles();
      --left;
      eviction->changed_.notify_all();
    }(self, working));
  }
  // The others must have our subshares before we call ourselves done; and nothing may be left
  // running.
  while (working > 0 || (unanswered_ > 0 && !failure_)) co_await changed_.wait();
  inbox_.clear();
  if (failure_) co_return fail(*failure_);
  co_return std::move(results_);
}

Task<void> Eviction::work_off_tiles() {
  while (next_tile_ < tiles_ && !failure_) {
    auto status = co_await evict_tile(next_tile_++);
    if (!status) cancel(status.error());
  }
}

Task<Status> Eviction::evict_tile(std::uint32_t tile) {
  for (std::size_t at = 0; at <= input_.height; ++at) S3O_CO_TRY(co_await step(at, tile));
  co_return Status{};
}

Task<Status> Eviction::step(std::size_t at, std::uint32_t tile) {
  const Scheme& scheme = input_.volume.params.scheme;
  const Party own = input_.volume.server;
  std::vector<Bytes> mine;
  if (multiplies()) {
    mine = co_await offload(pool_, [&, seed = random_.seed()] { return multiply(at, tile, seed); });
    for (Party to = 1; to <= scheme.servers; ++to) {
      if (to == own) continue;
      const SubshareRequest request{.epoch = input_.epoch,
                                    .id = input_.id,
                                    .step = static_cast<std::uint16_t>(at),
                                    .tile = tile,
                                    .share = mine[to - 1]};
      ++unanswered_;
      spawn(executor_,
            [](std::shared_ptr<Eviction> eviction, Party peer, Bytes message) -> Task<void> {
              auto answer =
                  co_await eviction->peers_.call(peer, SubshareRequest::kType, std::move(message));
              if (!answer) eviction->cancel(answer.error());
              --eviction->unanswered_;
              eviction->changed_.notify_all();
            }(shared_from_this(), to, encode(request)));
    }
  }
  std::vector<View> shares(scheme.quorum());
  for (Party from = 1; from <= shares.size(); ++from) {
    if (from == own) {
      shares[from - 1] = mine[own - 1];
      continue;
    }
    for (;;) {
      if (failure_) co_return fail(*failure_);
      const auto found = inbox_.find({at, tile, from});
      if (found != inbox_.end()) {
        shares[from - 1] = found->second.share;
        break;
      }
      co_await changed_.wait();
    }
    if (shares[from - 1].size() != input_.volume.params.bucket_size * tile_width(tile))
      co_return fail(Errc::corrupt, "server {} sent a subshare of a wrong size", from);
  }
  co_await offload(pool_, [&] { combine(at, tile, shares); });
  for (Party from = 1; from <= shares.size(); ++from) inbox_.erase({at, tile, from});
  co_return Status{};
}

// Protocol 1, steps 2 and 3, for the Z columns of matrix `at`: our product, shared anew.
std::vector<Bytes> Eviction::multiply(std::size_t at, std::uint32_t tile, const Seed& seed) const {
  const std::size_t z = input_.volume.params.bucket_size;
  const std::size_t width = tile_width(tile);
  const View matrix = input_.matrices.subspan(at * 2 * z * z, 2 * z * z);
  Bytes product(z * width);
  std::vector<std::uint8_t*> outs(z);
  for (std::size_t k = 0; k < z; ++k) outs[k] = product.data() + k * width;
  const auto add = [&](const BucketRows& bucket, View part) {
    std::vector<const std::uint8_t*> rows(bucket.slots);
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = bucket.frame->slot(i) + tile_begin(tile);
    gf::matrix_product(part.first(rows.size() * z), rows, outs, width);
  };
  add(source(at), matrix.first(z * z));
  add(target(at), matrix.last(z * z));

  Writer context;
  context(as_view("smp"), input_.epoch, input_.id.eviction, input_.id.attempt, at, tile);
  Prg prg(seed, context.take());
  return create_shares(input_.volume.params.scheme, product, prg);
}

// Protocol 1, step 6.
void Eviction::combine(std::size_t at, std::uint32_t tile, const std::vector<View>& shares) {
  const std::size_t width = tile_width(tile);
  for (std::size_t k = 0; k < input_.volume.params.bucket_size; ++k) {
    const MutView out(results_[at]->slot(k) + tile_begin(tile), width);
    std::fill(out.begin(), out.end(), 0);
    for (std::size_t i = 0; i < shares.size(); ++i)
      gf::multiply_add(lagrange_[i], shares[i].subspan(k * width, width), out);
  }
}

void Eviction::receive(Party from, const SubshareRequest& subshare, Payload owner) {
  if (subshare.step > input_.height || subshare.tile >= tiles_ ||
      from > input_.volume.params.scheme.quorum())
    return;
  const View share = subshare.share;  // stays valid: moving a vector keeps its bytes in place
  inbox_.try_emplace({subshare.step, subshare.tile, from}, Subshare{std::move(owner), share});
  changed_.notify_all();
}

void Eviction::cancel(Error reason) {
  if (!failure_) failure_ = std::move(reason);
  changed_.notify_all();
}

}  // namespace s3oram
