// The points that accesses ask for.
#include "oramcore/schemes/ring/client/access_records.h"

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram::ring {

// Asks along the block's own path, whether the block has left the top or not. It leaves the top
// when its path is evicted, which everyone sees, so any other rule would bias the paths. The
// client's own accesses choose their blocks by age, and thus by leaf, so they show a random path
// instead.
Task<Result<Query>> AccessRecords::begin(Turn turn, BlockId block, Path path) {
  const Place place = ring_.places.get(block);
  const Leaf leaf = place.has_leaf() && path == Path::of_block
                        ? place.leaf
                        : random_leaf(ring_.environment.random);
  S3O_CO_TRY(co_await rewriter_.await_path(leaf));
  Query query{.record = {.block = block, .leaf = leaf, .asks = {}}, .wanted = {}, .place = {}};
  choose_asks(query);
  take_place(query);
  ring_.pending.records[turn] = query.record;
  if (rule_holds(Rule::access_records)) S3O_CO_TRY(co_await committer_.commit_until_done());
  co_return query;
}

/// Lets the turn log the block whose last turn it is, for which it would wait for ever. The
/// recorded block gets another leaf if the server may have seen its own. A turn that asks for its
/// block in the tree is given out only once the other block has been logged or given up
/// (Turns::reserve()). So that one is given up again, until the next mount.
void AccessRecords::leave_turn_to_last(Turn turn, TurnRecord& record) {
  const auto last = ring_.last_logged_at(turn);
  if (!rule_holds(Rule::log_again) || !last || *last == record.block) return;
  Place place = ring_.places.get(record.block);
  const bool is_shown = place.has_leaf() && place.leaf == record.leaf;
  if (ring_.unreadable.contains(*last) || (is_shown && place.kind == Place::Kind::tree)) {
    ring_.mark_unreadable(*last);
    return;
  }
  if (is_shown) {
    place.leaf = random_leaf(ring_.environment.random);
    ring_.set_place(record.block, place);
  }
  record.block = *last;
}

Task<Result<Query>> AccessRecords::take_up(Turn turn, TurnRecord record) {
  leave_turn_to_last(turn, record);
  Query query{.record = std::move(record), .wanted = {}, .place = {}};
  S3O_CO_TRY(co_await renew(turn, query));
  take_place(query);
  co_return query;
}

Task<Status> AccessRecords::renew(Turn turn, Query& query) {
  S3O_CO_TRY(co_await rewriter_.await_path(query.record.leaf));
  choose_asks(query);
  ring_.pending.records[turn] = query.record;
  co_return co_await committer_.commit_until_done();
}

/// Touches a bucket, and returns what to ask of it. `wanted` is the place of the block that is
/// looked for, on this path.
Ask AccessRecords::ask_for(BucketIndex bucket, const std::optional<Place>& wanted) {
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
void AccessRecords::choose_asks(Query& query) {
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
void AccessRecords::take_place(Query& query) {
  query.place = ring_.places.get(query.record.block);
  query.holds_cache = query.place.kind == Place::Kind::top;
  if (query.holds_cache) ring_.cache.hold(query.place.cache_slot);
}

}  // namespace s3oram::ring
