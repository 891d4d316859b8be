// Evictions and early reshuffles: fetches buckets, places their blocks again, and has new versions
// prepared; then decides, commits and releases, as described in docs/durability.md
// (Rule::decide_first).
//
// Consecutive evictions touch disjoint buckets, so several are fetched and stored concurrently.
// They are decided in order.
#pragma once

#include <optional>
#include <set>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/capacity.h"
#include "oramcore/schemes/ring/client/bucket_fetcher.h"
#include "oramcore/schemes/ring/client/ring_committer.h"
#include "oramcore/schemes/ring/client/ring_preparer.h"
#include "oramcore/schemes/ring/client/top_sync.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class Rewriter {
 public:
  Rewriter(OpenRing& ring, RingCommitter& committer, Capacity& capacity, TopBlocks& top,
           TopSync& top_sync, const Seed& sealing_key)
      : ring_(ring),
        committer_(committer),
        capacity_(capacity),
        top_sync_(top_sync),
        fetcher_(ring, top),
        preparer_(ring, sealing_key) {}

  /// Takes over the numbers of OpenRing::tree. Call it before anything else.
  void begin_session();
  /// Lets evictions begin; until then, only early reshuffles do.
  void allow_evictions() { may_evict_ = true; }
  /// Begins the rewrites that are due and whose buckets no other rewrite uses.
  void begin_due();

  /// Waits until the path leads only through buckets of which the server can be asked: none of them
  /// is about to be replaced or has no dummy left. Errors: the volume died.
  Task<Status> await_path(Leaf leaf);
  /// Schedules a rewrite of the bucket. No access asks it for anything before that.
  void reshuffle(BucketIndex bucket) { to_reshuffle_.insert(bucket); }
  /// Returns whether a rewrite uses the buckets of this one's group.
  bool is_rewriting(BucketIndex bucket) const {
    return busy_.contains(ring_.params.group_of(bucket));
  }

  bool under_way() const { return !busy_.empty(); }
  Duration under_way_for() const { return begun_ ? ring_.now() - *begun_ : Duration{}; }
  std::uint64_t evictions_done() const { return evictions_done_; }  // of the volume
  std::uint64_t count() const { return evictions_; }                // since it was opened
  /// Returns why rewrites do not get on, if the server's rows are not what was stored.
  const std::optional<Error>& stopped() const { return stopped_; }
  /// Returns the attempt that was sent to the server and is not yet durably decided.
  const std::optional<EvictionId>& attempt() const { return preparer_.attempt(); }

 private:
  void begin(Rewrite rewrite);
  Task<void> rewrite(Rewrite rewrite);
  Task<Status> rewrite_once(const Rewrite& rewrite);
  void decide(const Rewrite& rewrite, const EvictionId& id, const EvictionPlan& plan,
              const Moved& moved, unsigned next_height);
  Task<Status> install(const Rewrite& rewrite, const EvictionId& id);
  bool must_wait(Leaf leaf);

  OpenRing& ring_;
  RingCommitter& committer_;
  Capacity& capacity_;
  TopSync& top_sync_;
  BucketFetcher fetcher_;
  RingPreparer preparer_;
  bool may_evict_ = false;
  std::uint64_t next_rewrite_ = 0, next_eviction_ = 0;  // numbers of those that begin next
  std::uint64_t installed_ = 0;                         // rewrites that the server has committed
  std::uint64_t evictions_done_ = 0, evictions_ = 0;
  std::set<Leaf> busy_;                 // groups whose buckets are being rewritten
  std::set<Leaf> flipping_;             // those decided, but not yet committed
  std::set<BucketIndex> to_reshuffle_;  // nothing is asked of these before they are rewritten
  std::optional<Duration> begun_;       // the oldest eviction under way
  std::optional<Error> stopped_;
  LogLimit told_;
};

}  // namespace s3oram::ring
