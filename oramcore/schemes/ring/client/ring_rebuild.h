// Rebuilds the client's state when vault.db and top.cache are lost, from what the server holds:
// the whole log, and of every bucket version the labels of its slots. Of each block the newest
// version counts; where a bucket and the log have the same one, the bucket's.
//
// The server's maps of asked points say which dummies are used up. A bucket in which the only copy
// of a block lies at a point that was asked for (an access was cut short there) counts as used up:
// it is rewritten before anything is asked of it. A client that does not believe the maps has every
// bucket count as used up.
//
// The log has what each turn wrote, but for the last turns, which may not have ended: a slot that
// is damaged, or holds an older turn, is a write that is lost, and the block that it wrote may have
// an older version somewhere. It does if an access asked for the point where that lies: such blocks
// are named.
//
// An earlier state that can still be read, and was the last one used, learns of the session, and
// decides whether a rewrite that the server has prepared counts: until the new state is stored it
// can be used as before.
#pragma once

#include "oramcore/schemes/ring/client/ring_engine.h"

namespace s3oram::ring {

/// What a vault.db has that is there still.
struct FormerRing {
  RingState state;
  RingState::Loaded loaded;  // from it
};

class RingRebuild {
 public:
  /// Whether to believe the server's maps.
  enum class Asked { as_server_says, everything };
  /// `cache` is top.cache, which is written over.
  RingRebuild(const ClientEnvironment& environment, const VolumeId& volume,
              const VolumeParams& params, const Seed& sealing_key, File& cache,
              std::optional<FormerRing> former = {}, Asked asked = Asked::as_server_says);

  struct Rebuilt {
    RingState::Loaded state;       // for RingState::put_all()
    std::vector<BlockId> backup;   // blocks that were written as parts of a backup, ascending
    std::uint64_t damaged = 0;     // buckets, and writes of the log, whose content is lost
    std::set<BlockId> suspect;     // of which there was a newer version in a write that is lost
    bool former_was_last = false;  // nobody has used the volume since the earlier state
  };
  /// Shuts any other client of the volume out. `progress` is called with buckets read, of how many.
  /// Errors: unreachable, wrong_volume, corrupt ...
  Task<Result<Rebuilt>> run(
      Duration patience,
      std::function<void(std::uint64_t looked_at, std::uint64_t of)> progress = {});
  /// Ends run() soon.
  void stop() { servers_.stop(); }

 private:
  struct Found {
    Place place;
    bool backup = false;
  };
  /// What a slot of the log holds; of none, it was never written.
  struct LoggedTurn {
    std::optional<Turn> turn;
    bool is_lost = false;
  };
  Task<Result<SurveyAnswer>> survey(Duration patience);
  /// Whether the earlier state is the last that anybody used.
  bool is_last(const RingState::Loaded& former, const SurveyAnswer& stands) const;
  Task<Status> open_session(SurveyAnswer& stands, Duration patience);
  Task<Status> settle(OpenAnswer answer, SurveyAnswer& stands, Duration patience);
  bool may_have(Turn turns, const SurveyAnswer& stands) const;
  Task<Status> read_log(const SurveyAnswer& stands);
  Status take_logged(const LoggedBlock& logged);
  std::optional<Turn> newest_turn_of(std::uint32_t slot) const;
  void count_lost_writes();
  Task<Status> end_turns();
  bool was_asked(const Place& place) const;
  Task<Result<std::vector<HeldVersion>>> layout(unsigned height);
  Task<Status> read_bucket(const HeldVersion& version);
  Task<Result<Bytes>> fetch_heads(const HeldVersion& version);
  Place* newest(const Label& label, Place::Kind where);
  void count_touches(const HeldVersion& version);
  Task<Result<Rebuilt>> finished(const SurveyAnswer& stands);

  ClientEnvironment environment_;
  const VolumeId volume_;
  const Params params_;
  OpaqueSealer sealer_;
  const BucketCodec codec_;
  File& cache_;
  std::optional<FormerRing> former_;
  Servers servers_;
  Session session_;
  std::map<BlockId, Found> blocks_;
  std::map<BucketIndex, HeldBucket> held_;
  std::map<BucketIndex, AskedPoints> asked_;
  const Asked believed_;
  std::vector<LoggedTurn> log_;  // by slots
  std::uint64_t lost_writes_ = 0;
  TopCache slots_{nullptr, params_.slot_size};  // which of top.cache are used
  std::uint64_t newest_ = 0;                    // version of a block
  Turn turns_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace s3oram::ring
