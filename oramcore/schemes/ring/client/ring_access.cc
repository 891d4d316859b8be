// Accesses: a turn, one point of each bucket of a path, and the log.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/ring_engine.h"

namespace s3oram::ring {
namespace {

constexpr unsigned kAsksAgain = 2;  // the same, byte for byte, when an answer does not fit

}  // namespace

bool RingEngine::is_given_up(BlockId block) const {
  const auto found = unreadable_.find(block);
  return found != unreadable_.end() && found->second;
}

void RingEngine::mark_unreadable(BlockId block) {
  unreadable_[block] = true;
  pending_.unreadable[block] = true;
}

void RingEngine::mark_readable(BlockId block) {
  if (unreadable_.erase(block) > 0) pending_.unreadable[block] = false;
}

void RingEngine::set_place(BlockId block, const Place& place) {
  const Place before = places_.get(block);
  if (before.kind == Place::Kind::top) give_back(before.cache_slot);
  places_.set(block, place);
  pending_.places[block] = place;
}

void RingEngine::forget(BlockId block) {
  mark_readable(block);
  if (places_.get(block).kind != Place::Kind::unmapped) {
    set_place(block, {});
    capacity_.count();
    changed_.notify_all();
  }
}

// ---- turns

/// The block that this turn logs again: the oldest of the top whose slot in the log will be used
/// again soon, or every so often the oldest; never the one that waits for the turn and is logged by
/// that itself. Nothing: this turn is for an access.
std::optional<BlockId> RingEngine::to_log_again(Turn turn, BlockId wanted) const {
  const Turn early = params_.log_slots / 4;
  const bool maintains = turn % kMaintenanceEvery == kMaintenanceEvery - 1;
  for (const auto& [logged, block] : places_.top()) {
    if (!maintains && logged + params_.log_slots > turn + early) break;
    if (block != wanted && !in_flight_.contains(block) && !is_given_up(block)) return block;
  }
  if (maintains) return kNoBlock;
  return std::nullopt;
}

/// Of one block one access at a time has a turn: a later one would have to ask after its turn,
/// which would show that the two want the same.
Task<Result<Turn>> RingEngine::reserve_turn(BlockId block) {
  for (;;) {
    while (!dead_ && (!opened_ || next_turn_ >= params_.end_turn(evictions_done_) ||
                      in_flight_.contains(block)))
      co_await changed_.wait();
    if (dead_) co_return fail(*dead_);
    const Turn turn = next_turn_++;
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

/// The block is in flight already.
Task<void> RingEngine::access_alone(Turn turn, Request request, Path path) {
  const BlockId block = request.block;
  co_await access_at(turn, std::move(request), path);
  in_flight_.erase(block);
  changed_.notify_all();
}

// A write asks too, before it writes: from outside they are the same.
Task<void> RingEngine::access(Request request) {
  const auto failed = [&request](Error error) {
    if (request.read) std::exchange(request.read, {})(fail(error));
    if (request.written) std::exchange(request.written, {})(fail(std::move(error)));
  };
  const BlockId block = request.block;
  if (!request.content && is_given_up(block)) {
    failed({Errc::corrupt, fmt::format("block {} cannot be read", block)});
    co_return;
  }
  const bool is_new = request.content && places_.get(block).kind == Place::Kind::unmapped;
  const Error no_room{Errc::disk_full, "there is no room for more blocks"};
  if (is_new && !capacity_.has_room(1)) {
    failed(no_room);
    co_return;
  }
  if (is_new) capacity_.begin_new_block();
  auto turn = co_await reserve_turn(block);
  // What it waited for may have found none. A reserved turn is used all the same.
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
  metrics_.accesses.add();
  const BlockId block = request.block;
  const Place before = places_.get(block);
  const Leaf shown = query.record.leaf;
  const Duration begun = environment_.clock.now();
  auto found = co_await retrieve(turn, std::move(query));
  metrics_.retrieval_seconds.observe(environment_.clock.now() - begun);
  if (!found && !dead_) {
    if (!request.content && before.kind != Place::Kind::unmapped) mark_unreadable(block);
    metrics_.failed_reads.add();
  }
  if (request.read && !found) request.read(fail(dead_ ? *dead_ : found.error()));
  if (dead_) {
    if (request.written) request.written(fail(*dead_));
    co_return;
  }
  const bool had_content = found && found->has_value();
  if (request.read && found)
    start(deliver(std::move(request.read),
                  had_content ? (*found)->content : Bytes(params_.block_size)));
  std::optional<Bytes> content = std::move(request.content);
  // A read leaves the block what it was: a part of a backup, or not.
  Label label{.block = block, .version = 0, .leaf = {}, .backup = request.backup};
  if (!content && had_content) {
    label.backup = (*found)->label.backup;
    content = std::move((*found)->content);
  }
  // What was never written, or could not be opened, leaves an empty slot behind.
  if (!content) label = {};
  label.leaf = next_leaf(before, shown);
  if (!content) content.emplace(params_.block_size);
  const Status status = co_await write_log(turn, label, before.version, *content, request.written);
  if (status) metrics_.access_seconds.observe(environment_.clock.now() - begun);
  if (!status && request.written) request.written(fail(status.error()));
}

/// Once what the caller sends now is on its way: the server must not see how long readers take.
Task<void> RingEngine::deliver(std::function<void(Result<Bytes>)> read, Bytes content) {
  co_await asio::post(environment_.executor, asio::use_awaitable);
  read(std::move(content));
}

// ---- what is asked

/// A path through buckets that are about to be other ones, or have no dummy left. Which path it is
/// the server sees in any case, and whether it is so follows from public counters.
bool RingEngine::must_wait(Leaf leaf) {
  if (flipping_.contains(group_of(leaf))) return true;
  bool waits = false;
  for (unsigned level = params_.top_levels; level <= tree_.height; ++level) {
    const BucketIndex bucket = bucket_on_path(leaf, level);
    const auto held = held_.find(bucket);
    if (held == held_.end() || held->second.touches < params_.most_touches()) continue;
    if (!rule_holds(Rule::early_reshuffle)) continue;
    to_reshuffle_.insert(bucket);
    waits = true;
  }
  if (waits) begin_rewrites();
  return waits;
}

/// Touches a bucket. `wanted` is the place of the block that is looked for, on this path.
Ask RingEngine::ask_for(BucketIndex bucket, const std::optional<Place>& wanted) {
  HeldBucket& held = held_.at(bucket);
  const Points points = codec_.points(bucket, held.stamp);
  const bool is_here = wanted && wanted->bucket() == bucket;
  const unsigned dummy = std::min(held.touches, params_.dummies() - 1);
  const Point point =
      is_here ? points.of_slot(wanted->slot) : points.of_dummy(params_.bucket_size, dummy);
  if (rule_holds(Rule::fresh_points)) ++held.touches;
  held.touches = std::min(held.touches, params_.dummies());
  pending_.buckets[bucket] = held;
  return {bucket, held.stamp, point};
}

/// Keeps what is asked of versions that the server still holds, and chooses new points of the
/// others.
void RingEngine::choose_asks(Query& query) {
  std::vector<Ask> before = std::move(query.record.asks);
  query.record.asks.clear();
  query.wanted.reset();
  const Leaf leaf = query.record.leaf;
  const Place place = places_.get(query.record.block);
  std::optional<Place> wanted;
  // What did not open is not asked for again in that version: its point was asked for.
  const bool failed = unreadable_.contains(query.record.block);
  if (place.kind == Place::Kind::tree && place.leaf == leaf && !failed) wanted = place;
  for (unsigned level = params_.top_levels; level <= tree_.height; ++level) {
    const BucketIndex bucket = bucket_on_path(leaf, level);
    const auto held = held_.find(bucket);
    if (held == held_.end()) continue;
    if (wanted && wanted->bucket() == bucket) query.wanted = query.record.asks.size();
    const auto asked = std::ranges::find_if(before, [&](const Ask& ask) {
      return ask.bucket == bucket && ask.stamp == held->second.stamp;
    });
    query.record.asks.push_back(asked != before.end() ? *asked : ask_for(bucket, wanted));
  }
}

/// What lies in the top now is what the access will find, even if an eviction takes the block from
/// there meanwhile: its slot in the cache stays until it is read.
void RingEngine::hold_cached(Query& query) {
  const Place place = places_.get(query.record.block);
  if (place.kind != Place::Kind::top) return;
  query.cached = place;
  ++cache_reads_[place.cache_slot];
}

/// A leaf that the server has seen is not used again. One that it has not seen stays: whether a
/// block got another one must not depend on how long it lay in the top.
Leaf RingEngine::next_leaf(const Place& place, Leaf shown) {
  return place.has_leaf() && place.leaf != shown ? place.leaf : random_leaf(environment_.random);
}

// A block's own path is asked, whether the block has left the top or not: it leaves it when its
// path is evicted, which everybody sees, so any other rule would bias the paths. The client's own
// accesses choose their blocks by age, and so by leaf: they show a path that has nothing to do with
// it. Nothing is asked before this is durable (Rule::access_records).
Task<Result<RingEngine::Query>> RingEngine::intend(Turn turn, BlockId block, Path path) {
  const Place place = places_.get(block);
  const Leaf leaf =
      place.has_leaf() && path == Path::of_block ? place.leaf : random_leaf(environment_.random);
  while (!dead_ && must_wait(leaf)) co_await changed_.wait();
  if (dead_) co_return fail(*dead_);
  Query query{{.block = block, .leaf = leaf, .asks = {}}, {}, {}};
  choose_asks(query);
  hold_cached(query);
  pending_.records[turn] = query.record;
  if (rule_holds(Rule::access_records)) S3O_CO_TRY(co_await commit_until_done());
  co_return query;
}

/// After buckets of the path were rewritten.
Task<Status> RingEngine::renew(Turn turn, Query& query) {
  while (!dead_ && must_wait(query.record.leaf)) co_await changed_.wait();
  if (dead_) co_return fail(*dead_);
  choose_asks(query);
  pending_.records[turn] = query.record;
  co_return co_await commit_until_done();
}

/// The value that is wanted, or any if none is. Every value is verified, and what does not fit is
/// treated alike, wanted or not: it is asked for again, and then done without. Errors: corrupt (the
/// wanted one does not fit).
Task<Result<Bytes>> RingEngine::values_of(Turn turn, Query& query) {
  for (unsigned failures = 0;;) {
    const std::vector<Ask> asks = query.record.asks;
    const RetrieveRequest request{session_.epoch, turn, asks};
    auto answer = co_await servers_.ask(kServer, RetrieveRequest::kType, encode(request));
    if (dead_) co_return fail(*dead_);
    if (!answer && answer.error().code == Errc::former_view) {
      S3O_CO_TRY(co_await renew(turn, query));
      if (asks == query.record.asks) die(answer.error());
      continue;
    }
    if (!answer) {
      die(answer.error());
      co_return fail(*dead_);
    }
    const auto values = decode<RetrieveAnswer>(answer->body());
    const bool whole = values && values->values.size() == asks.size();
    const auto fit = co_await offload(environment_.pool, [&] {
      std::vector<bool> each(asks.size(), whole);
      for (std::size_t i = 0; whole && i < asks.size(); ++i)
        each[i] = codec_.fits(asks[i].bucket, asks[i].stamp, asks[i].point, values->values[i]);
      return each;
    });
    if (dead_) co_return fail(*dead_);
    const bool all = std::ranges::all_of(fit, [](bool one) { return one; });
    if (!all && rule_holds(Rule::verified_answers)) {
      if (told_of_answers_.pass(environment_.clock.now()))
        spdlog::error("server {}: an answer is not what was stored: damaged, or altered{}", kServer,
                      told_of_answers_.more());
      if (failures++ < kAsksAgain) continue;
    }
    if (!query.wanted) co_return Bytes();
    if (!whole || (!fit[*query.wanted] && rule_holds(Rule::verified_answers)))
      co_return fail(Errc::corrupt, "the server's rows are damaged or altered");
    const ByteSpan value = values->values[*query.wanted];
    if (value.size() < params_.slot_size)
      co_return fail(Errc::corrupt, "the server's rows are damaged");
    co_return Bytes(value.begin(), value.begin() + params_.slot_size);
  }
}

/// Nothing for a block that is nowhere, or not where it was looked for. Errors: corrupt.
Task<Result<std::optional<OpenedBlock>>> RingEngine::retrieve(Turn turn, Query query) {
  const BlockId block = query.record.block;
  const Place place = places_.get(block);
  // What lies in the top is read while the dummies are on their way.
  std::optional<Result<OpenedBlock>> cached;
  Event read;
  if (query.cached)
    start([](RingEngine& engine, BlockId wanted, Place at, std::optional<Result<OpenedBlock>>& to,
             Event& done) -> Task<void> {
      to.emplace(co_await engine.read_held(wanted, at));
      done.notify_all();
    }(*this, block, *query.cached, cached, read));
  const bool in_top = query.cached.has_value();
  auto value = co_await values_of(turn, query);
  while (in_top && !cached) co_await read.wait();
  if (dead_) co_return fail(*dead_);
  // What is not wanted takes as long: the server sees when the log's write follows its answer.
  const bool is_wanted = query.wanted && value;
  auto found = opened(is_wanted ? ByteSpan(*value) : ByteSpan(blank_), block, place.version);
  if (in_top && !*cached) co_return fail((*cached).error());
  if (in_top) co_return std::optional<OpenedBlock>(std::move(**cached));
  if (place.kind == Place::Kind::lost)
    co_return fail(Errc::corrupt, "block {} is lost: the server's rows were damaged", block);
  if (!query.wanted && place.kind == Place::Kind::tree && unreadable_.contains(block))
    co_return fail(Errc::corrupt, "block {} could not be read before", block);
  if (!query.wanted) co_return std::nullopt;
  if (!value) co_return fail(Errc::corrupt, "block {}: {}", block, value.error().message);
  if (!found) co_return fail(found.error());
  co_return std::optional<OpenedBlock>(std::move(*found));
}

}  // namespace s3oram::ring
