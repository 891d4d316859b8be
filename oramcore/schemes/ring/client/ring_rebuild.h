// Rebuilds the client's state when vault.db and top.cache are lost, from what the server holds: the
// entire log, and the labels of the slots in every bucket version. The newest version of each block
// counts; if a bucket and the log have the same version, the bucket's copy counts.
//
// The server's maps of asked points say which dummies are used up. If an access was cut short, the
// only copy of a block may lie at a point that was asked for. Its bucket then counts as used up: it
// is rewritten before anything is asked of it. If the client does not trust the maps, every bucket
// counts as used up.
//
// The log holds the write of each turn, except perhaps for the last turns, which may not have
// ended. If a slot is damaged, or holds an older turn, its write is lost, and the block that it
// wrote may have an older version elsewhere. This is the case for a block of the tree if an access
// asked for the point where it lies; such blocks are named.
//
// If an earlier state can still be read and was the last one used, the new session is recorded in
// it, and it decides whether a rewrite that the server has prepared counts. It can be used as
// before until the new state is stored.
#pragma once

#include "oramcore/schemes/ring/client/ring_engine.h"

namespace s3oram::ring {

/// The content of an existing vault.db.
struct FormerRing {
  RingState state;
  RingState::Loaded loaded;  // loaded from `state`
};

class RingRebuild {
 public:
  /// Says which points count as asked for: those in the server's maps, or all of them.
  enum class Asked { as_server_says, everything };
  /// `cache` is top.cache, which is overwritten.
  RingRebuild(const ClientEnvironment& environment, const VolumeId& volume,
              const VolumeParams& params, const Seed& sealing_key, File& cache,
              std::optional<FormerRing> former = {}, Asked asked = Asked::as_server_says);

  struct Rebuilt {
    RingState::Loaded state;       // what RingState::put_all() takes
    std::vector<BlockId> backup;   // blocks that were written as parts of a backup, ascending
    std::uint64_t damaged = 0;     // buckets and writes of the log whose content is lost
    std::set<BlockId> suspect;     // blocks with a newer version in a write that is lost
    bool former_was_last = false;  // nobody has used the volume since the earlier state
  };
  /// Shuts out any other client of the volume. Calls `progress` with the number of buckets read and
  /// their total. Errors: unreachable, wrong_volume, corrupt ...
  Task<Result<Rebuilt>> run(
      Duration patience,
      std::function<void(std::uint64_t looked_at, std::uint64_t of)> progress = {});
  /// Makes run() end soon.
  void stop() { servers_.stop(); }

 private:
  struct Found {
    Place place;
    bool backup = false;
  };
  /// The content of a slot of the log. Without a turn, the slot was never written.
  struct LoggedTurn {
    std::optional<Turn> turn;
    bool is_lost = false;
  };
  Task<Result<SurveyAnswer>> survey(Duration patience);
  /// Returns whether the earlier state is the last that any client has used.
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
  std::vector<LoggedTurn> log_;  // by slot
  std::uint64_t lost_writes_ = 0;
  TopCache slots_{nullptr, params_.slot_size};  // which slots of top.cache are in use
  std::uint64_t newest_ = 0;                    // the newest version of any block
  Turn turns_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace s3oram::ring
