// Chooses what an access asks for, and makes that durable before anything is asked, so that the
// same is asked after a crash (Rule::access_records).
#pragma once

#include <optional>
#include <vector>

#include "oramcore/schemes/ring/client/rewriter.h"
#include "oramcore/schemes/ring/client/ring_committer.h"

namespace s3oram::ring {

/// The question of an access, and the number of the value that is its block.
struct Query {
  TurnRecord record;
  std::optional<std::size_t> wanted;
  Place place;               // the block's when the question was chosen; it may be discarded since
  bool holds_cache = false;  // the place is in the top, and held (TopCache::hold())
};

/// One executor; not thread-safe.
class AccessRecords {
 public:
  /// The path along which an access asks: that of its block's leaf, or a random one.
  enum class Path { of_block, random };

  AccessRecords(OpenRing& ring, RingCommitter& committer, Rewriter& rewriter)
      : ring_(ring), committer_(committer), rewriter_(rewriter) {}

  /// Chooses what a new access asks for, and commits the record. Errors: the volume died.
  Task<Result<Query>> begin(Turn turn, BlockId block, Path path);
  /// Takes up an access that a crash cut short: the same questions, except to buckets that were
  /// rewritten since. If only this turn can log another block of the top again, it does that
  /// instead. Errors: the volume died.
  Task<Result<Query>> take_up(Turn turn, TurnRecord record);
  /// Chooses new points after buckets of the path were rewritten, and commits the record. Errors:
  /// the volume died.
  Task<Status> renew(Turn turn, Query& query);

 private:
  Ask ask_for(BucketIndex bucket, const std::optional<Place>& wanted);
  void choose_asks(Query& query);
  void leave_turn_to_last(Turn turn, TurnRecord& record);
  void take_place(Query& query);

  OpenRing& ring_;
  RingCommitter& committer_;
  Rewriter& rewriter_;
};

}  // namespace s3oram::ring
