// Accesses: each uses a turn, asks for one point of each bucket on a path, and writes to the log.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/ring_engine.h"
#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {
namespace {

constexpr unsigned kAsksAgain = 2;   // the same question, byte for byte, if an answer is wrong
constexpr unsigned kReshuffles = 2;  // reshuffles that one access causes because rows are lost

/// Returns whether the write of turn `logged` has to be logged again by now.
bool is_due(Turn logged, Turn now, const Params& params) {
  return logged + params.log_slots <= now + params.log_again_within();
}
bool is_maintenance(Turn turn) { return turn % kMaintenanceEvery == kMaintenanceEvery - 1; }

}  // namespace

void RingEngine::forget(BlockId block) {
  ring_.mark_readable(block);
  if (ring_.places.get(block).kind != Place::Kind::unmapped) {
    ring_.set_place(block, {});
    capacity_.count();
    ring_.changed.notify_all();
  }
}

// ---- turns

/// Returns the block that this turn logs again: the oldest one of the top, if its slot in the log
/// will be reused soon, or if this is a maintenance turn. Never returns the block that waits for
/// the turn, because that access itself logs it. Returns std::nullopt if the turn is free.
std::optional<BlockId> RingEngine::to_log_again(Turn turn, BlockId wanted) const {
  const bool maintains = is_maintenance(turn);
  for (const auto& [logged, block] : ring_.places.top()) {
    if (!maintains && !is_due(logged, turn, ring_.params)) break;
    if (block != wanted && !in_flight_.contains(block) && !ring_.not_cached.contains(block) &&
        !ring_.is_given_up(block))
      return block;
  }
  if (maintains) return kNoBlock;
  return std::nullopt;
}

/// Reserves a turn. Only one access to a block has a turn at a time: a second one would have to ask
/// after its turn, which would show that both want the same block.
Task<Result<Turn>> RingEngine::reserve_turn(BlockId block) {
  for (;;) {
    while (!ring_.dead &&
           (!opened_ || ring_.next_turn >= ring_.params.end_turn(rewriter_.evictions_done()) ||
            in_flight_.contains(block)))
      co_await ring_.changed.wait();
    if (ring_.dead) co_return fail(*ring_.dead);
    const Turn turn = ring_.next_turn++;
    const auto must_be_logged = [&](BlockId each) {
      return is_due(ring_.places.get(each).turn, turn, ring_.params);
    };
    if (is_maintenance(turn) || std::ranges::any_of(ring_.not_cached, must_be_logged))
      refill_.begin();
    const auto again = rule_holds(Rule::log_again) ? to_log_again(turn, block) : std::nullopt;
    if (!again) {
      in_flight_.insert(block);
      co_return turn;
    }
    if (*again != kNoBlock) in_flight_.insert(*again);
    Request own{.block = *again, .content = {}, .read = {}, .written = {}};
    start(access_alone(turn, std::move(own), Path::random));
  }
}

/// Runs an access to a block that is already marked as in flight.
Task<void> RingEngine::access_alone(Turn turn, Request request, Path path) {
  const BlockId block = request.block;
  co_await access_at(turn, std::move(request), path);
  in_flight_.erase(block);
  ring_.changed.notify_all();
}

// A write also asks before it writes, so that it looks the same as a read.
Task<void> RingEngine::access(Request request) {
  const auto failed = [&request](Error error) {
    if (request.read) std::exchange(request.read, {})(fail(error));
    if (request.written) std::exchange(request.written, {})(fail(std::move(error)));
  };
  const BlockId block = request.block;
  if (!request.content && ring_.is_given_up(block)) {
    failed({Errc::corrupt, fmt::format("block {} cannot be read", block)});
    co_return;
  }
  const bool is_new = request.content && ring_.places.get(block).kind == Place::Kind::unmapped;
  const Error no_room{Errc::disk_full, "there is no room for more blocks"};
  if (is_new && !capacity_.has_room(1)) {
    failed(no_room);
    co_return;
  }
  if (is_new) capacity_.begin_new_block();
  auto turn = co_await reserve_turn(block);
  // The eviction that it waited for may have found no room. A reserved turn is used nevertheless.
  if (turn && is_new && !capacity_.has_room(0)) {
    failed(no_room);
    request.content.reset();
  }
  if (turn)
    co_await access_alone(*turn, std::move(request), Path::of_block);
  else
    failed(turn.error());
  if (is_new) capacity_.end_new_block();
  capacity_.count();
}

Task<void> RingEngine::access_at(Turn turn, Request request, Path path) {
  auto query = co_await intend(turn, request.block, path);
  if (query) {
    co_await access_path(turn, std::move(*query), std::move(request));
    co_return;
  }
  if (request.read) request.read(fail(query.error()));
  if (request.written) request.written(fail(query.error()));
}

Task<void> RingEngine::access_path(Turn turn, Query query, Request request) {
  ++accesses_;
  ring_.metrics.accesses.add();
  const BlockId block = request.block;
  const Place before = ring_.places.get(block);
  const Leaf shown = query.record.leaf;
  const Duration begun = ring_.now();
  auto found = co_await retrieve(turn, std::move(query));
  ring_.metrics.retrieval_seconds.observe(ring_.now() - begun);
  if (ring_.dead) {
    if (request.read) request.read(fail(*ring_.dead));
    if (request.written) request.written(fail(*ring_.dead));
    co_return;
  }
  if (!found) did_not_open(block, before, shown);
  const bool had_content = found && found->has_value();
  const auto content_read = [&]() -> Result<Bytes> {
    if (!found) return fail(found.error());
    return had_content ? (*found)->content : Bytes(ring_.params.block_size);
  };
  if (request.read) start(deliver(std::move(request.read), content_read()));
  std::optional<Bytes> content = std::move(request.content);
  // A read preserves the mark of a block that belongs to a backup.
  Label label{.block = block, .version = 0, .leaf = {}, .backup = request.backup};
  if (!content && had_content) {
    label.backup = (*found)->label.backup;
    content = std::move((*found)->content);
  }
  // For a block that was never written, or could not be opened, the slot stays empty.
  if (!content) label = {};
  label.leaf = next_leaf(before, shown);
  if (!content) content.emplace(ring_.params.block_size);
  const Status status =
      co_await log_writer_.write(turn, label, before.version, *content, request.written);
  if (status) ring_.metrics.access_seconds.observe(ring_.now() - begun);
  if (!status && request.written) request.written(fail(status.error()));
}

/// Makes sure that a block that is still where it was not found is not asked for along that path
/// again.
void RingEngine::did_not_open(BlockId block, const Place& before, Leaf shown) {
  ring_.metrics.failed_reads.add();
  if (ring_.places.get(block) != before) return;
  Place place = before;
  if (before.kind == Place::Kind::tree)
    place = {.kind = Place::Kind::lost, .version = before.version};
  if (before.kind == Place::Kind::top) place.leaf = next_leaf(before, shown);
  ring_.set_place(block, place);
  if (before.kind == Place::Kind::top)
    ring_.not_cached.insert(block);
  else
    ring_.mark_unreadable(block);
}

/// Delivers the content once the messages that the caller sends now are under way, because the
/// server must not see how long readers take, or whether one got anything.
Task<void> RingEngine::deliver(std::function<void(Result<Bytes>)> read, Result<Bytes> content) {
  co_await asio::post(ring_.environment.executor, asio::use_awaitable);
  read(std::move(content));
}

// ---- what the access asks for

/// Touches a bucket, and returns what to ask of it. `wanted` is the place of the block that is
/// looked for, on this path.
Ask RingEngine::ask_for(BucketIndex bucket, const std::optional<Place>& wanted) {
  HeldBucket& held = ring_.held.at(bucket);
  const Points points = ring_.codec.points(bucket, held.stamp);
  const bool is_here = wanted && wanted->bucket() == bucket;
  const unsigned dummy = std::min(held.touches, ring_.params.dummies() - 1);
  const Point point =
      is_here ? points.of_slot(wanted->slot) : points.of_dummy(ring_.params.bucket_size, dummy);
  if (rule_holds(Rule::fresh_points)) ++held.touches;
  held.touches = std::min(held.touches, ring_.params.dummies());
  ring_.pending.buckets[bucket] = held;
  return {bucket, held.stamp, point};
}

/// Keeps the points already chosen in versions that the server still holds, and chooses new points
/// in the others.
void RingEngine::choose_asks(Query& query) {
  std::vector<Ask> before = std::move(query.record.asks);
  query.record.asks.clear();
  query.wanted.reset();
  const Leaf leaf = query.record.leaf;
  const Place place = ring_.places.get(query.record.block);
  std::optional<Place> wanted;
  if (place.kind == Place::Kind::tree && place.leaf == leaf) wanted = place;
  for (unsigned level = ring_.params.top_levels; level <= ring_.tree.height; ++level) {
    BucketIndex bucket = bucket_on_path(leaf, level);
    if (!rule_holds(Rule::empty_level) && !ring_.held.contains(bucket) &&
        !query.record.asks.empty())
      bucket = query.record.asks.back().bucket;  // a new leaf would stand for the old one
    const auto held = ring_.held.find(bucket);
    if (held == ring_.held.end()) continue;
    if (wanted && wanted->bucket() == bucket) query.wanted = query.record.asks.size();
    const auto asked = std::ranges::find_if(before, [&](const Ask& ask) {
      return ask.bucket == bucket && ask.stamp == held->second.stamp;
    });
    query.record.asks.push_back(asked != before.end() ? *asked : ask_for(bucket, wanted));
  }
}

/// Makes sure that the access finds its block if it lies in the top now, even if an eviction takes
/// it away meanwhile: its slot in the cache is kept until it has been read.
void RingEngine::hold_cached(Query& query) {
  const Place place = ring_.places.get(query.record.block);
  if (place.kind != Place::Kind::top) return;
  query.cached = place;
  ring_.cache.hold(place.cache_slot);
}

/// Returns the block's next leaf. A leaf that the server has seen is not used again. A leaf that it
/// has not seen is kept, because a block's new leaf must not depend on how long the block lay in
/// the top.
Leaf RingEngine::next_leaf(const Place& place, Leaf shown) {
  return place.has_leaf() && place.leaf != shown ? place.leaf
                                                 : random_leaf(ring_.environment.random);
}

// Asks along the block's own path, whether the block has left the top or not. It leaves the top
// when its path is evicted, which everyone sees, so any other rule would bias the paths. The
// client's own accesses choose their blocks by age, and thus by leaf, so they show a random path
// instead. Nothing is asked before this is durable (Rule::access_records).
Task<Result<RingEngine::Query>> RingEngine::intend(Turn turn, BlockId block, Path path) {
  const Place place = ring_.places.get(block);
  const Leaf leaf = place.has_leaf() && path == Path::of_block
                        ? place.leaf
                        : random_leaf(ring_.environment.random);
  S3O_CO_TRY(co_await rewriter_.await_path(leaf));
  Query query{{.block = block, .leaf = leaf, .asks = {}}, {}, {}};
  choose_asks(query);
  hold_cached(query);
  ring_.pending.records[turn] = query.record;
  if (rule_holds(Rule::access_records)) S3O_CO_TRY(co_await committer_.commit_until_done());
  co_return query;
}

/// Chooses new points after buckets of the path were rewritten.
Task<Status> RingEngine::renew(Turn turn, Query& query) {
  S3O_CO_TRY(co_await rewriter_.await_path(query.record.leaf));
  choose_asks(query);
  ring_.pending.records[turn] = query.record;
  co_return co_await committer_.commit_until_done();
}

/// Returns a verdict on each value: it is what was stored at its point, its rows are lost, or it
/// was altered.
Task<std::vector<RingEngine::Verdict>> RingEngine::verdicts(const std::vector<Ask>& asks,
                                                            const RetrieveAnswer& answer) {
  co_return co_await offload(ring_.environment.pool, [&] {
    std::vector<Verdict> each(asks.size(), Verdict::altered);
    for (std::size_t i = 0; answer.values.size() == asks.size() && i < asks.size(); ++i) {
      const ByteSpan value = answer.values[i];
      const bool fits =
          ring_.codec.fits(asks[i].bucket, asks[i].stamp, asks[i].point, value) ||
          (!rule_holds(Rule::verified_answers) && value.size() == ring_.params.row_size);
      if (fits) each[i] = Verdict::fits;
      if (value.empty()) each[i] = Verdict::lost;
    }
    return each;
  });
}

/// Returns all values, once each of them is right. What it does about a value that is not depends
/// only on the verdict, never on which value is wanted:
///   - altered: the same question is sent again, and then the volume stops. The record is kept, so
///     the question is sent again after the next start.
///   - rows are lost: that bucket is first rewritten with what is left of it, and then the same
///     turn asks along the same path.
Task<Result<Payload>> RingEngine::values_of(Turn turn, Query& query) {
  for (unsigned altered = 0, reshuffles = 0;;) {
    const std::vector<Ask> asks = query.record.asks;
    const RetrieveRequest request{ring_.session.epoch, turn, asks};
    auto answer = co_await ring_.servers.ask(kServer, RetrieveRequest::kType, encode(request));
    if (ring_.dead) co_return fail(*ring_.dead);
    if (!answer && answer.error().code == Errc::former_view) {
      S3O_CO_TRY(co_await renew(turn, query));
      if (asks == query.record.asks) ring_.die(answer.error());
      continue;
    }
    if (!answer) {
      ring_.die(answer.error());
      co_return fail(*ring_.dead);
    }
    const RetrieveAnswer values = decode<RetrieveAnswer>(answer->body()).value_or(RetrieveAnswer{});
    const auto each = co_await verdicts(asks, values);
    if (ring_.dead) co_return fail(*ring_.dead);
    if (std::ranges::count(each, Verdict::altered) > 0) {
      if (told_of_answers_.pass(ring_.now()))
        spdlog::error(
            "server {} sent an answer that is not what was stored: it is damaged or altered{}",
            kServer, told_of_answers_.more());
      if (altered++ == kAsksAgain)
        ring_.die(
            {Errc::corrupt,
             fmt::format("server {} has answered {} times with data that was not stored there: its "
                         "memory is damaged, or it lies; no data is given up; have that server "
                         "checked, then mount the vault again",
                         kServer, altered)});
      if (ring_.dead) co_return fail(*ring_.dead);
      co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
      continue;
    }
    if (std::ranges::count(each, Verdict::lost) == 0) co_return std::move(*answer);
    if (reshuffles++ == kReshuffles)
      ring_.die(
          {Errc::corrupt, fmt::format("server {} loses rows that it has just stored", kServer)});
    for (std::size_t i = 0; i < asks.size(); ++i)
      if (each[i] == Verdict::lost && ring_.held.at(asks[i].bucket).stamp == asks[i].stamp)
        rewriter_.reshuffle(asks[i].bucket);
    S3O_CO_TRY(co_await renew(turn, query));
  }
}

/// Reads a slot of the top's cache: that of the block if it lies there, otherwise a random one. The
/// server must not learn from the time taken which of the two it was.
Task<void> RingEngine::read_cache(BlockId block, std::optional<Place> place, CacheRead& to) {
  if (place)
    to.found.emplace(co_await top_.read_held(block, *place));
  else
    co_await top_.read_any();
  to.ended = true;
  to.end.notify_all();
}

/// Returns the block; std::nullopt if it does not exist, or is not where it was looked for. Errors:
/// corrupt.
Task<Result<std::optional<OpenedBlock>>> RingEngine::retrieve(Turn turn, Query query) {
  const BlockId block = query.record.block;
  const std::uint64_t version = ring_.places.get(block).version;
  // Runs while the answers are in transit.
  CacheRead cached;
  start(read_cache(block, query.cached, cached));
  const auto answer = co_await values_of(turn, query);
  while (!cached.ended) co_await cached.end.wait();
  if (!answer) co_return fail(answer.error());
  // An unwanted value takes equally long, because the server sees how long after its answer the
  // log's write follows.
  const auto values = decode<RetrieveAnswer>(answer->body());
  const ByteSpan sealed = query.wanted ? values->values[*query.wanted].first(ring_.params.slot_size)
                                       : ByteSpan(ring_.blank);
  auto found = opened_block(ring_.sealer, sealed, block, version);
  if (cached.found && !*cached.found) co_return fail(cached.found->error());
  if (cached.found) co_return std::optional<OpenedBlock>(std::move(**cached.found));
  if (ring_.places.get(block).kind == Place::Kind::lost)
    co_return fail(Errc::corrupt, "block {} is lost: the server's rows were damaged", block);
  if (!query.wanted) co_return std::nullopt;
  if (!found) co_return fail(found.error());
  co_return std::optional<OpenedBlock>(std::move(*found));
}

}  // namespace s3oram::ring
