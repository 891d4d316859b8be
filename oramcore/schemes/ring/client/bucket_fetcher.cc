// Reads of all buckets of a rewrite, and of the top, at the same time.
#include "oramcore/schemes/ring/client/bucket_fetcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {
namespace {

constexpr unsigned kFetchesAgain = 2;  // further fetches of rows that the server reports as lost

}  // namespace

Task<Result<Moved>> BucketFetcher::fetch(const Rewrite& rewrite) {
  Moved moved;
  moved.path.leaf = rewrite.leaf;
  moved.path.top_levels = rewrite.first;
  moved.path.height = rewrite.last;
  moved.path.bucket_size = ring_.params.bucket_size;
  moved.path.residents.resize(rewrite.last - rewrite.first + 1);
  // Reads everything concurrently, because the server must not learn from the time between two
  // reads what lies in a bucket.
  std::vector<Task<Status>> reading;
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level)
    reading.push_back(
        fetch_bucket(bucket_on_path(rewrite.leaf, level), level - rewrite.first, moved));
  if (rewrite.is_eviction) reading.push_back(fetch_top(rewrite, moved));
  const auto read = co_await all(std::move(reading));
  for (const Status& each : read)
    if (!each) co_return fail(each.error());
  // A block that was accessed meanwhile lies in the top, perhaps in this same group.
  const auto is_over = [this](const Candidate& each) {
    return ring_.places.candidate(each.block) != each;
  };
  for (auto& bucket : moved.path.residents) std::erase_if(bucket, is_over);
  std::erase_if(moved.path.top, is_over);
  std::erase_if(moved.lost, is_over);
  co_return moved;
}

/// Reads a fixed number of slots from the cache, whatever they hold. The number of blocks of the
/// top whose leaves are in one group depends on what was accessed, and the server sees when the
/// rows arrive.
Task<Status> BucketFetcher::fetch_top(const Rewrite& rewrite, Moved& to) {
  const unsigned at_least = ring_.params.cache_reads();
  unsigned reads = 0;
  std::vector<BlockId> top;
  for (const auto& [turn, block] : ring_.places.top())
    if (ring_.params.group_of(ring_.places.get(block).leaf) ==
            ring_.params.group_of(rewrite.leaf) &&
        !ring_.is_given_up(block))
      top.push_back(block);
  for (const BlockId block : top) {
    const Place place = ring_.places.get(block);
    if (place.kind != Place::Kind::top ||
        ring_.params.group_of(place.leaf) != ring_.params.group_of(rewrite.leaf))
      continue;
    auto found = co_await top_.read(block, place);
    ++reads;
    if (ring_.dead) co_return fail(*ring_.dead);
    if (ring_.places.get(block) != place) continue;  // accessed meanwhile
    if (!found) ring_.not_cached.insert(block);
    if (!found) continue;  // it stays in the top
    to.path.top.push_back({block, place.version, place.leaf});
    to.blocks[block] = std::move(*found);
  }
  for (; (reads == 0 || reads % at_least != 0) && !ring_.dead; ++reads) co_await top_.read_any();
  co_return Status{};
}

/// Reads a bucket. If the server has lost its rows, the blocks in them are lost: they are named,
/// and the bucket is rewritten without them.
Task<Status> BucketFetcher::fetch_bucket(BucketIndex bucket, std::size_t index, Moved& to) {
  const auto held = ring_.held.find(bucket);
  if (held == ring_.held.end()) co_return Status{};
  std::vector<Candidate> candidates;
  std::vector<std::uint16_t> slots;
  for (const BlockId block : ring_.places.in_bucket(bucket)) {
    candidates.push_back(ring_.places.candidate(block));
    slots.push_back(ring_.places.get(block).slot);
  }
  auto found = co_await read_bucket(bucket, held->second.stamp);
  if (ring_.dead) co_return fail(*ring_.dead);
  const bool is_lost = !found && found.error().code == Errc::damaged_vault;
  if (!found && !is_lost) co_return fail(found.error());
  if (is_lost)
    spdlog::error("bucket {}: {}: its {} blocks are lost", bucket, found.error().message,
                  candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& each = candidates[i];
    if (is_lost || !is(*found, slots[i], each)) {
      to.lost.push_back(each);
      continue;
    }
    to.blocks[each.block] = std::move(*(*found)[slots[i]]);
    to.path.residents[index].push_back(each);
  }
  co_return Status{};
}

bool BucketFetcher::is(const Slots& slots, std::uint16_t slot, const Candidate& block) {
  return slots[slot] && slots[slot]->label.block == block.block &&
         slots[slot]->label.version == block.version;
}

/// Returns all slots of a bucket version, opened. Errors: damaged_vault (the server repeatedly
/// reports that its rows are lost), corrupt (they are not what was stored; the server may recover
/// from that, so nothing is given up).
Task<Result<BucketFetcher::Slots>> BucketFetcher::read_bucket(BucketIndex bucket,
                                                              VersionStamp stamp) {
  for (unsigned again = 0;; ++again) {
    const auto rows = co_await fetch_rows(bucket, stamp);
    if (ring_.dead) co_return fail(*ring_.dead);
    if (rows)
      co_return co_await offload(ring_.environment.pool,
                                 [&] { return opened_slots(bucket, stamp, *rows); });
    if (rows.error().code != Errc::corrupt) co_return fail(rows.error());
    if (again == kFetchesAgain) co_return fail(Errc::damaged_vault, "{}", rows.error().message);
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
  }
}

/// Opens slots without a block too, because the time taken must not show how many hold one.
Result<BucketFetcher::Slots> BucketFetcher::opened_slots(BucketIndex bucket, VersionStamp stamp,
                                                         ByteSpan rows) const {
  S3O_ASSIGN(const auto sealed, ring_.codec.decode(bucket, stamp, rows));
  Slots slots;
  for (const Bytes& each : sealed) slots.push_back(opened_block(ring_.sealer, each));
  return slots;
}

Task<Result<Bytes>> BucketFetcher::fetch_rows(BucketIndex bucket, VersionStamp stamp) {
  const std::uint16_t at_once = rows_in_message(ring_.params);
  std::vector<Task<Result<Payload>>> asking;
  for (unsigned first = 0; first < ring_.params.bucket_size; first += at_once) {
    const FetchRowsRequest request{.epoch = ring_.session.epoch,
                                   .bucket = bucket,
                                   .stamp = stamp,
                                   .first = static_cast<std::uint16_t>(first),
                                   .count = static_cast<std::uint16_t>(std::min<unsigned>(
                                       at_once, ring_.params.bucket_size - first)),
                                   .width = 0};
    asking.push_back(ring_.servers.ask(kServer, FetchRowsRequest::kType, encode(request)));
  }
  const auto answers = co_await all(std::move(asking));
  Bytes rows;
  rows.reserve(ring_.params.bucket_size * std::size_t{ring_.params.row_size});
  for (const auto& answer : answers) {
    if (!answer && answer.error().code == Errc::former_view) ring_.die(answer.error());
    if (!answer) co_return fail(answer.error());
    const auto part = decode<FetchRowsAnswer>(answer->body());
    if (!part) co_return fail(Errc::failed, "server {} sent an invalid answer", kServer);
    rows.insert(rows.end(), part->rows.begin(), part->rows.end());
  }
  co_return rows;
}

}  // namespace s3oram::ring
