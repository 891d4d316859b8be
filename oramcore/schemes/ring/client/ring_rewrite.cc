// Evictions and early reshuffles: fetches buckets, places their blocks again, seals these again at
// new secret points, and stores them beside the old versions; then prepares, decides, commits and
// releases, as described in docs/durability.md (Rule::decide_first).
//
// Consecutive evictions touch disjoint buckets, so several are fetched and stored concurrently.
// They are decided in order.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/ring_engine.h"
#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {
namespace {

constexpr std::size_t kAtATime = 2;    // one downloads its rows while the other uploads
constexpr unsigned kFetchesAgain = 2;  // further fetches of rows that the server reports as lost
constexpr unsigned kAttempts = 3;      // attempts before status reports that evictions have stopped

}  // namespace

struct RingEngine::Rewrite {
  std::uint64_t number = 0;
  bool is_eviction = false;
  Leaf leaf = 0;                 // names the path
  unsigned first = 0, last = 0;  // its levels; only one for a reshuffle
};

/// The content of the buckets of a rewrite, and the blocks of the top that go into them.
struct RingEngine::Moved {
  EvictionPath path;
  std::map<BlockId, OpenedBlock> blocks;
  std::vector<Candidate> lost;
};

/// Begins the rewrites that are due and whose buckets no other rewrite uses. Reshuffles come first,
/// because accesses wait for them.
void RingEngine::begin_rewrites() {
  const std::size_t at_a_time = rule_holds(Rule::parallel_evictions) ? kAtATime : 1;
  while (!ring_.dead && rewriting_ < at_a_time) {
    const auto reshuffle = std::ranges::find_if(to_reshuffle_, [this](BucketIndex bucket) {
      return !busy_.contains(ring_.params.group_of(bucket));
    });
    if (reshuffle != to_reshuffle_.end()) {
      const BucketIndex bucket = *reshuffle;  // stays in the set until install() has ended
      const unsigned level = level_of(bucket);
      begin_rewrite({.number = next_rewrite_++, .leaf = bucket, .first = level, .last = level});
      continue;
    }
    if (!may_evict_ || !opened_ ||
        next_eviction_ >= ring_.params.evictions_until(ring_.tree.written) ||
        busy_.contains(ring_.params.group_of(next_eviction_)))
      return;
    const Leaf leaf = next_eviction_++;
    if (!eviction_begun_) eviction_begun_ = ring_.now();
    begin_rewrite({.number = next_rewrite_++,
                   .is_eviction = true,
                   .leaf = leaf,
                   .first = ring_.params.top_levels,
                   .last = ring_.tree.height});
  }
}

void RingEngine::begin_rewrite(Rewrite begun) {
  ++rewriting_;
  busy_.insert(ring_.params.group_of(begun.leaf));
  start(rewrite(begun));
}

Task<void> RingEngine::rewrite(Rewrite begun) {
  for (unsigned attempts = 1; !ring_.dead; ++attempts) {
    const Status done = co_await rewrite_once(begun);
    if (done) evictions_stopped_.reset();
    if (done || ring_.dead) break;
    const Errc code = done.error().code;
    if (code == Errc::fenced || code == Errc::stale_vault || code == Errc::bad_request)
      ring_.die(done.error());
    if (code == Errc::corrupt && attempts >= kAttempts) evictions_stopped_ = done.error();
    ring_.metrics.eviction_retries.add();
    if (told_of_rewrite_.pass(ring_.now()))
      spdlog::warn("eviction {} is tried again: {}{}", begun.number, done.error().message,
                   told_of_rewrite_.more());
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
  }
  busy_.erase(ring_.params.group_of(begun.leaf));
  if (--rewriting_ == 0) eviction_begun_.reset();
  ring_.changed.notify_all();
  begin_rewrites();
}

/// Returns the id of a new attempt. The first half of its number is the stamp of the bucket
/// versions that it makes, from which their points and masks are drawn, so that half must not
/// repeat. It consists of the rewrite's number and a counter that starts at a random value each
/// time the volume is opened.
EvictionId RingEngine::new_attempt(const Rewrite& rewrite) {
  EvictionId id{rewrite.number, {}};
  ring_.environment.random.fill(id.attempt);
  const std::uint64_t stamp = rewrite.number << 32 | next_attempt_++;
  std::memcpy(id.attempt.data(), &stamp, sizeof stamp);
  return id;
}

/// Makes one attempt, with a fresh stamp and fresh points, nonces and fillers.
Task<Status> RingEngine::rewrite_once(const Rewrite& rewrite) {
  const EvictionId id = new_attempt(rewrite);
  S3O_CO_ASSIGN(Moved moved, co_await fetch(rewrite));
  const EvictionPlan plan = plan_eviction(moved.path);
  for (const Candidate& each : plan.left)
    if (ring_.places.get(each.block).kind == Place::Kind::tree)
      ring_.die({Errc::failed, fmt::format("eviction {} has no room for block {} of the server",
                                           rewrite.number, each.block)});
  if (ring_.dead) co_return fail(*ring_.dead);
  Status status = co_await store(rewrite, id, plan, moved);
  while (!ring_.dead && installed_ != rewrite.number) co_await ring_.changed.wait();
  if (ring_.dead) co_return fail(*ring_.dead);
  unsigned next_height = ring_.tree.height;
  // Accesses that may come before the next decision.
  const std::uint64_t coming = (ring_.params.most_evictions_due() + 1) * ring_.params.evict_every;
  if (status && rewrite.is_eviction && capacity_.wants_to_grow(coming) &&
      co_await capacity_.reserve(ring_.tree.height + 1))
    ++next_height;
  if (status) status = co_await prepare(rewrite, id, next_height);
  if (ring_.dead) co_return fail(*ring_.dead);
  if (!status) {
    S3O_CO_TRY(co_await ring_.servers.ask_all(Bytes(1, kServer), DiscardRequest::kType,
                                              encode(DiscardRequest{ring_.session.epoch, id})));
    attempt_.reset();
    co_return status;
  }
  // Blocks that leave the top are in buckets from here on. Those that stay are in the log; once
  // they are durable here too, a power cut costs less of it.
  co_await top_sync_.sync();
  if (ring_.dead) co_return fail(*ring_.dead);
  decide(rewrite, id, plan, moved, next_height);
  co_return co_await install(rewrite, id);
}

// ---- reading the old buckets

Task<Result<RingEngine::Moved>> RingEngine::fetch(const Rewrite& rewrite) {
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
Task<Status> RingEngine::fetch_top(const Rewrite& rewrite, Moved& to) {
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
Task<Status> RingEngine::fetch_bucket(BucketIndex bucket, std::size_t index, Moved& to) {
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

bool RingEngine::is(const Slots& slots, std::uint16_t slot, const Candidate& block) {
  return slots[slot] && slots[slot]->label.block == block.block &&
         slots[slot]->label.version == block.version;
}

/// Returns all slots of a bucket version, opened. Errors: damaged_vault (the server repeatedly
/// reports that its rows are lost), corrupt (they are not what was stored; the server may recover
/// from that, so nothing is given up).
Task<Result<RingEngine::Slots>> RingEngine::read_bucket(BucketIndex bucket, VersionStamp stamp) {
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
Result<RingEngine::Slots> RingEngine::opened_slots(BucketIndex bucket, VersionStamp stamp,
                                                   ByteSpan rows) const {
  S3O_ASSIGN(const auto sealed, ring_.codec.decode(bucket, stamp, rows));
  Slots slots;
  for (const Bytes& each : sealed) slots.push_back(opened_block(ring_.sealer, each));
  return slots;
}

Task<Result<Bytes>> RingEngine::fetch_rows(BucketIndex bucket, VersionStamp stamp) {
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

// ---- writing the new buckets

Task<Status> RingEngine::store(const Rewrite& rewrite, const EvictionId& id,
                               const EvictionPlan& plan, Moved& moved) {
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level) {
    const BucketIndex bucket = bucket_on_path(rewrite.leaf, level);
    std::vector<OpenedBlock> contents;
    for (const Candidate& each : plan.buckets[level - rewrite.first]) {
      OpenedBlock& block = contents.emplace_back(std::move(moved.blocks.at(each.block)));
      block.label.leaf = each.leaf;
    }
    // Empty blocks fill the bucket, sealed like others. So sealing takes the same time whatever the
    // bucket holds, and a client that has lost everything else can see whether the whole bucket is
    // readable.
    while (contents.size() < ring_.params.bucket_size)
      contents.push_back({Label{}, Bytes(ring_.params.block_size)});
    const Seed seed = ring_.environment.random.seed();
    Bytes rows = co_await offload(ring_.environment.pool, [&] {
      Prg random(seed, as_bytes("ring bucket"));
      OpaqueSealer sealer(sealing_key_, random);
      std::vector<Bytes> sealed;
      for (const OpenedBlock& each : contents)
        sealed.push_back(sealed_block(sealer, each.label, each.content));
      return ring_.codec.encode(bucket, stamp_of(id.attempt), sealed);
    });
    if (ring_.dead) co_return fail(*ring_.dead);
    S3O_CO_TRY(co_await store_bucket(bucket, id, std::move(rows)));
  }
  co_return Status{};
}

Task<Status> RingEngine::store_bucket(BucketIndex bucket, const EvictionId& id, Bytes rows) {
  const std::size_t at_once = rows_in_message(ring_.params) * std::size_t{ring_.params.row_size};
  std::vector<Task<Result<Payload>>> asking;
  for (std::size_t at = 0; at < rows.size(); at += at_once) {
    const StoreRowsRequest request{
        .epoch = ring_.session.epoch,
        .id = id,
        .bucket = bucket,
        .first = static_cast<std::uint16_t>(at / ring_.params.row_size),
        .rows = ByteSpan(rows).subspan(at, std::min(at_once, rows.size() - at))};
    asking.push_back(ring_.servers.ask_once(kServer, StoreRowsRequest::kType, encode(request)));
  }
  const auto answers = co_await all(std::move(asking));
  for (const auto& answer : answers) {
    if (answer) continue;
    if (answer.error().code == Errc::bad_request || answer.error().code == Errc::fenced)
      ring_.die(answer.error());
    co_return fail(answer.error());
  }
  co_return Status{};
}

Task<Status> RingEngine::prepare(const Rewrite& rewrite, const EvictionId& id,
                                 unsigned next_height) {
  PrepareRequest request{.epoch = ring_.session.epoch,
                         .id = id,
                         .next_height = static_cast<std::uint8_t>(next_height),
                         .buckets = {}};
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level)
    request.buckets.push_back(bucket_on_path(rewrite.leaf, level));
  attempt_ = id;
  auto answer = co_await ring_.servers.ask_once(kServer, PrepareRequest::kType, encode(request));
  if (answer) co_return Status{};
  const Errc code = answer.error().code;
  if (code == Errc::fenced || code == Errc::stale_vault || code == Errc::bad_request)
    ring_.die(answer.error());
  co_return fail(answer.error());
}

/// Makes the new tree version count from here on; the next commit makes it durable. Blocks that
/// were accessed meanwhile keep their newer places.
void RingEngine::decide(const Rewrite& rewrite, const EvictionId& id, const EvictionPlan& plan,
                        const Moved& moved, unsigned next_height) {
  const auto is_still = [this](const Candidate& each) {
    return ring_.places.candidate(each.block) == each;
  };
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level) {
    const auto& bucket = plan.buckets[level - rewrite.first];
    for (std::size_t slot = 0; slot < bucket.size(); ++slot) {
      if (!is_still(bucket[slot])) continue;
      ring_.mark_readable(bucket[slot].block);  // it has opened, and has a new point
      ring_.set_place(bucket[slot].block, {.kind = Place::Kind::tree,
                                           .leaf = bucket[slot].leaf,
                                           .version = bucket[slot].version,
                                           .level = static_cast<std::uint8_t>(level),
                                           .slot = static_cast<std::uint16_t>(slot)});
    }
    ring_.pending.buckets[bucket_on_path(rewrite.leaf, level)] = {stamp_of(id.attempt), 0};
  }
  for (const Candidate& each : moved.lost) {
    if (!is_still(each)) continue;
    ring_.set_place(each.block, {.kind = Place::Kind::lost, .version = each.version});
    ring_.mark_unreadable(each.block);
  }
  flipping_.insert(ring_.params.group_of(rewrite.leaf));
  ring_.tree.tree_version = rewrite.number + 1;
  ring_.tree.height = next_height;
  ring_.tree.evictions += rewrite.is_eviction;
  ring_.tree.last_decided = id;
}

Task<Status> RingEngine::install(const Rewrite& rewrite, const EvictionId& id) {
  if (rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await committer_.commit_until_done());
  attempt_.reset();
  auto committed = co_await ring_.servers.ask_all(Bytes(1, kServer), MessageType::commit,
                                                  encode(CommitRequest{ring_.session.epoch, id}));
  if (!committed) ring_.die(committed.error());
  if (ring_.dead) co_return fail(*ring_.dead);
  if (!rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await committer_.commit_until_done());
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level) {
    ring_.held[bucket_on_path(rewrite.leaf, level)] = {stamp_of(id.attempt), 0};
    to_reshuffle_.erase(bucket_on_path(rewrite.leaf, level));
  }
  flipping_.erase(ring_.params.group_of(rewrite.leaf));
  installed_ = rewrite.number + 1;
  if (rewrite.is_eviction) {
    ++evictions_done_;
    ++evictions_;
    ring_.metrics.evictions.add();
    if (eviction_begun_) ring_.metrics.eviction_seconds.observe(ring_.now() - *eviction_begun_);
    eviction_begun_ = ring_.now();
  }
  capacity_.count();
  ring_.changed.notify_all();
  const Status released = co_await ring_.servers.ask_all(
      Bytes(1, kServer), MessageType::release, encode(ReleaseRequest{ring_.session.epoch, id}));
  if (!released) ring_.die(released.error());  // the rewrite is done: it is not tried again
  co_return Status{};
}

// ---- the scrub

Task<Result<Healed>> RingEngine::scrub(std::set<Party>, ScrubProgress progress) {
  Healed healed;
  std::vector<BucketIndex> buckets;
  for (const auto& [bucket, held] : ring_.held) buckets.push_back(bucket);
  std::uint64_t looked_at = 0;
  for (const BucketIndex bucket : buckets) {
    while (!ring_.dead && busy_.contains(ring_.params.group_of(bucket)))
      co_await ring_.changed.wait();
    if (ring_.dead) co_return fail(*ring_.dead);
    const CheckRequest request{ring_.session.epoch, bucket, ring_.held.at(bucket).stamp};
    auto answer = co_await ring_.servers.ask(kServer, CheckRequest::kType, encode(request));
    ++looked_at;
    if (!answer && answer.error().code == Errc::former_view) continue;  // rewritten by now
    if (!answer) co_return fail(answer.error());
    const auto checked = decode<CheckAnswer>(answer->body());
    if (!checked) co_return fail(Errc::corrupt, "server {} sent an invalid answer", kServer);
    if (checked->rebuilt > 0) healed.shares[kServer] += checked->rebuilt;
    healed.lost += checked->lost;
    ring_.metrics.healed_slots.add(checked->rebuilt);
    if (progress) progress(looked_at, buckets.size(), healed);
  }
  co_return healed;
}

}  // namespace s3oram::ring
