// Begins rewrites, plans and decides them, and installs what was prepared.
#include "oramcore/schemes/ring/client/rewriter.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram::ring {
namespace {

constexpr std::size_t kAtATime = 2;  // one downloads its rows while the other uploads
constexpr unsigned kAttempts = 3;    // attempts before status reports that evictions have stopped

}  // namespace

void Rewriter::begin_session() {
  next_rewrite_ = installed_ = ring_.tree.tree_version;
  preparer_.begin_session();
  next_eviction_ = evictions_done_ = ring_.tree.evictions;
}

/// Reshuffles come first, because accesses wait for them.
void Rewriter::begin_due() {
  const std::size_t at_a_time = rule_holds(Rule::parallel_evictions) ? kAtATime : 1;
  while (!ring_.dead && busy_.size() < at_a_time) {
    const auto reshuffle = std::ranges::find_if(
        to_reshuffle_, [this](BucketIndex bucket) { return !is_rewriting(bucket); });
    if (reshuffle != to_reshuffle_.end()) {
      const BucketIndex bucket = *reshuffle;  // stays in the set until install() has ended
      const unsigned level = level_of(bucket);
      begin({.number = next_rewrite_++, .leaf = bucket, .first = level, .last = level});
      continue;
    }
    if (!may_evict_ || next_eviction_ >= ring_.params.evictions_until(ring_.tree.written) ||
        busy_.contains(ring_.params.group_of(next_eviction_)))
      return;
    const Leaf leaf = next_eviction_++;
    if (!begun_) begun_ = ring_.now();
    begin({.number = next_rewrite_++,
           .is_eviction = true,
           .leaf = leaf,
           .first = ring_.params.top_levels,
           .last = ring_.tree.height});
  }
}

void Rewriter::begin(Rewrite begun) {
  busy_.insert(ring_.params.group_of(begun.leaf));
  ring_.start(rewrite(begun));
}

Task<void> Rewriter::rewrite(Rewrite begun) {
  for (unsigned attempts = 1; !ring_.dead; ++attempts) {
    const Status done = co_await rewrite_once(begun);
    if (done) stopped_.reset();
    if (done || ring_.dead) break;
    const Errc code = done.error().code;
    if (code == Errc::fenced || code == Errc::stale_vault || code == Errc::bad_request)
      ring_.die(done.error());
    // (The server's trouble is in status already.)
    const bool is_told = code != Errc::corrupt && ring_.servers.trouble(kServer);
    if (attempts >= kAttempts && !is_told) stopped_ = done.error();
    ring_.metrics.eviction_retries.add();
    if (told_.pass(ring_.now()))
      spdlog::warn("eviction {} is tried again: {}{}", begun.number, done.error().message,
                   told_.more());
    co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
  }
  busy_.erase(ring_.params.group_of(begun.leaf));
  if (busy_.empty()) begun_.reset();
  ring_.changed.notify_all();
  begin_due();
}

/// Makes one attempt, with a fresh stamp and fresh points, nonces and fillers.
Task<Status> Rewriter::rewrite_once(const Rewrite& rewrite) {
  const EvictionId id = preparer_.new_attempt(rewrite);
  S3O_CO_ASSIGN(Moved moved, co_await fetcher_.fetch(rewrite));
  const EvictionPlan plan = plan_eviction(moved.path);
  for (const Candidate& each : plan.left)
    if (ring_.places.get(each.block).kind == Place::Kind::tree)
      ring_.die({Errc::failed, fmt::format("eviction {} has no room for block {} of the server",
                                           rewrite.number, each.block)});
  if (ring_.dead) co_return fail(*ring_.dead);
  Status status = co_await preparer_.store(rewrite, id, plan, moved);
  while (!ring_.dead && installed_ != rewrite.number) co_await ring_.changed.wait();
  if (ring_.dead) co_return fail(*ring_.dead);
  unsigned next_height = ring_.tree.height;
  // Accesses that may come before the next decision.
  const std::uint64_t coming = (ring_.params.most_evictions_due() + 1) * ring_.params.evict_every;
  if (status && rewrite.is_eviction && capacity_.wants_to_grow(coming) &&
      co_await capacity_.reserve(ring_.tree.height + 1))
    ++next_height;
  if (status) status = co_await preparer_.prepare(rewrite, id, next_height);
  if (ring_.dead) co_return fail(*ring_.dead);
  if (!status) {
    S3O_CO_TRY(co_await preparer_.discard(id));
    co_return status;
  }
  // Blocks that leave the top are in buckets from here on. Those that stay are in the log; once
  // they are durable here too, a power cut costs less of it.
  co_await top_sync_.sync();
  if (ring_.dead) co_return fail(*ring_.dead);
  decide(rewrite, id, plan, moved, next_height);
  co_return co_await install(rewrite, id);
}

/// Makes the new tree version count from here on; the next commit makes it durable. Blocks that
/// were accessed meanwhile keep their newer places.
void Rewriter::decide(const Rewrite& rewrite, const EvictionId& id, const EvictionPlan& plan,
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

Task<Status> Rewriter::install(const Rewrite& rewrite, const EvictionId& id) {
  if (rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await committer_.commit_until_done());
  preparer_.decided();
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
    if (begun_) ring_.metrics.eviction_seconds.observe(ring_.now() - *begun_);
    begun_ = ring_.now();
  }
  capacity_.count();
  ring_.changed.notify_all();
  const Status released = co_await ring_.servers.ask_all(
      Bytes(1, kServer), MessageType::release, encode(ReleaseRequest{ring_.session.epoch, id}));
  if (!released) ring_.die(released.error());  // the rewrite is done: it is not tried again
  co_return Status{};
}

Task<Status> Rewriter::await_path(Leaf leaf) {
  while (!ring_.dead && must_wait(leaf)) co_await ring_.changed.wait();
  if (ring_.dead) co_return fail(*ring_.dead);
  co_return Status{};
}

/// Returns whether the path leads through buckets that are about to be replaced, or have no dummy
/// left. The server sees which path it is in any case, and the answer follows from public counters.
bool Rewriter::must_wait(Leaf leaf) {
  if (flipping_.contains(ring_.params.group_of(leaf))) return true;
  bool waits = false;
  for (unsigned level = ring_.params.top_levels; level <= ring_.tree.height; ++level) {
    const BucketIndex bucket = bucket_on_path(leaf, level);
    const auto held = ring_.held.find(bucket);
    if (held != ring_.held.end() && held->second.touches >= ring_.params.most_touches() &&
        rule_holds(Rule::early_reshuffle))
      to_reshuffle_.insert(bucket);
    waits |= to_reshuffle_.contains(bucket);
  }
  if (waits) begin_due();
  return waits;
}

}  // namespace s3oram::ring
