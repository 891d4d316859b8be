// Computes the tiles of an eviction, and exchanges subshares.
#include "serverd/oram/eviction.h"

#include <algorithm>

#include "oramcore/protocol/message_bounds.h"

namespace s3oram {
namespace {

constexpr std::size_t kSignature = 64;  // bytes after a subshare, if an evictor signs it
constexpr std::size_t kTilesInHaste = 4, kMostTilesAtOnce = 16;
constexpr Duration kAlone = std::chrono::milliseconds(100);     // without a retrieval: no accesses
constexpr Duration kBetween = std::chrono::milliseconds(5);     // the pause between two retrievals
constexpr Duration kTimeOfTile = std::chrono::milliseconds(8);  // on a line of 250 Mbit/s
constexpr Duration kLookAgain = std::chrono::milliseconds(1);

}  // namespace

std::size_t tiles_at_once(const EvictionPace& pace) {
  const std::uint64_t due = pace.accesses * pace.tiles;
  const std::uint64_t begun = std::uint64_t{pace.begun} * pace.evict_every;
  const auto for_distance =
      pace.quickest ? static_cast<std::size_t>(*pace.quickest / kTimeOfTile) : 0;
  const bool late = due > begun, early = 2 * due < begun;
  if (early && pace.quiet < kBetween && for_distance == 0) return 0;
  const std::size_t nearby = late || pace.quiet >= kAlone ? kTilesInHaste : pace.beside_accesses;
  return std::min(nearby + for_distance, kMostTilesAtOnce);
}

Eviction::Eviction(EvictionInput&& input, const EvictionHost& host, std::size_t rows,
                   std::size_t steps)
    : input_(std::move(input)), host_(host), steps_(steps) {
  tile_width_ = s3oram::tile_width(params(), rows);
  largest_share_ = rows * tile_width_ + kSignature;
  tiles_ = static_cast<std::uint32_t>((params().slot_size() + tile_width_ - 1) / tile_width_);
}

std::size_t Eviction::tile_width(std::uint32_t tile) const {
  return std::min<std::size_t>(tile_width_, params().slot_size() - tile_begin(tile));
}

Task<Result<BucketBuffers>> Eviction::run() {
  for (;;) {
    while (next_tile_ < tiles_ && at_once_ < most_at_once() && !failure_)
      spawn(host_.executor, [](std::shared_ptr<Eviction> self) -> Task<void> {
        co_await self->work_off_tile();
      }(shared_from_this()));
    // This server is done only when the others have its subshares and nothing is left running.
    const bool all_begun = next_tile_ == tiles_ || failure_;
    if (all_begun && at_once_ == 0 && (unanswered_ == 0 || failure_)) break;
    if (all_begun || at_once_ > 0)
      co_await changed_.wait();
    else
      co_await host_.clock.sleep(kLookAgain);  // the eviction is early: wait for accesses and time
  }
  inbox_.clear();
  if (failure_) co_return fail(*failure_);
  co_return take_results();
}

BucketBuffers Eviction::take_results() {
  BucketBuffers results;
  for (PathBucket& bucket : path_) results.push_back(std::move(bucket.bucket_version));
  return results;
}

std::size_t Eviction::most_at_once() const {
  const AccessLoad load = host_.load();
  const unsigned every = params().evict_every;
  const WriteNumber due = first_write_number(input_.id.eviction + 1, every);
  return tiles_at_once({next_tile_, tiles_, std::max(load.next_write_number, due) - due, every,
                        load.quiet, quickest_, tiles_beside_accesses()});
}

Task<void> Eviction::work_off_tile() {
  ++at_once_;
  const Duration begun = host_.clock.now();
  auto status = co_await evict_tile(next_tile_++);
  if (!status) cancel(status.error());
  const Duration taken = host_.clock.now() - begun;
  quickest_ = std::min(taken, quickest_.value_or(taken));
  --at_once_;
  changed_.notify_all();
}

void Eviction::send(Party to, std::size_t step, std::uint32_t tile, ByteSpan share) {
  const SubshareRequest request{.epoch = input_.epoch,
                                .id = input_.id,
                                .step = static_cast<std::uint16_t>(step),
                                .tile = tile,
                                .share = share};
  ++unanswered_;
  spawn(host_.executor,
        [](std::shared_ptr<Eviction> eviction, Party peer, Bytes message) -> Task<void> {
          auto answer =
              co_await eviction->host_.peers.call(peer, SubshareRequest::kType, std::move(message));
          if (!answer) eviction->refused(peer, answer.error());
          --eviction->unanswered_;
          eviction->changed_.notify_all();
        }(shared_from_this(), to, encode(request)));
}

Task<Result<ByteSpan>> Eviction::await(Party from, std::size_t step, std::uint32_t tile,
                                       std::size_t size) {
  for (;;) {
    if (failure_) co_return fail(*failure_);
    const auto found = inbox_.find({step, tile, from});
    if (found == inbox_.end()) {
      co_await changed_.wait();
      continue;
    }
    if (found->second.share.size() != size)
      co_return fail(Errc::corrupt, "server {} sent a subshare of the wrong size", from);
    co_return found->second.share;
  }
}

void Eviction::receive(Party from, const SubshareRequest& subshare, Payload owner) {
  if (subshare.step >= steps_ || subshare.tile >= tiles_ || from > params().scheme.servers) return;
  if (subshare.share.size() > largest_share_)  // bounds the memory of subshares that wait
    return cancel({Errc::corrupt, fmt::format("server {} sent too large a subshare", from)});
  const ByteSpan share = subshare.share;  // stays valid: moving a vector keeps its bytes in place
  inbox_.try_emplace({subshare.step, subshare.tile, from}, Subshare{std::move(owner), share});
  changed_.notify_all();
}

/// Ends the eviction if this server needs the peer that has refused a subshare. Otherwise only the
/// peer needs the subshare, and it reports the reason itself.
void Eviction::refused(Party peer, const Error& refusal) {
  if (!needs(peer)) return;
  cancel({Errc::corrupt, refusal.message});
}

void Eviction::cancel(Error reason) {
  if (!failure_) failure_ = std::move(reason);
  changed_.notify_all();
}

}  // namespace s3oram
