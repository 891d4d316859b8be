// The state of an open ring that accesses, the log, rewrites and commits share: where each block
// lies, what the server holds of each bucket, what the next commit holds, and the objects through
// which all of them reach the server and top.cache. Each part of the engine holds a reference to it
// and owns only what it alone needs.
//
// All members are public, because the parts are coroutines of one executor that work on one state.
// Members that must change together are changed by a method here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "oramcore/client/engine_metrics.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/volume_engine.h"
#include "oramcore/oram/opaque_sealer.h"
#include "oramcore/schemes/ring/client/bucket_codec.h"
#include "oramcore/schemes/ring/client/ring_state.h"
#include "oramcore/schemes/ring/client/top_cache.h"

namespace s3oram::ring {

inline constexpr Party kServer = 1;

/// One executor; not thread-safe.
class OpenRing {
 public:
  /// `top` is the file top.cache. `start` runs a coroutine; the engine waits for its end when it
  /// closes.
  OpenRing(const ClientEnvironment& environment, const VolumeId& volume, const VolumeParams& params,
           const Seed& sealing_key, std::unique_ptr<File> top,
           std::function<void(Task<void>)> start);

  Duration now() const { return environment.clock.now(); }
  /// Makes the volume fail for good, and ends all waiting. Only the first call has an effect.
  void die(Error reason);

  bool is_given_up(BlockId block) const;
  /// Returns the block of the top that is in the slot of the log which this turn will use, unless
  /// it is given up. It must be logged again by this turn or by an earlier one.
  std::optional<BlockId> last_logged_at(Turn turn) const;
  void mark_unreadable(BlockId block);
  void mark_readable(BlockId block);
  /// Sets a block's place from the next commit on. If the block leaves its slot of top.cache, gives
  /// the slot back.
  void set_place(BlockId block, const Place& place);

  const ClientEnvironment environment;
  const VolumeParams volume;
  const Params params;
  OpaqueSealer sealer;
  const BucketCodec codec;
  const Bytes blank;  // a sealed block
  EngineMetrics metrics;
  TopCache cache;
  Servers servers;
  const std::function<void(Task<void>)> start;
  std::optional<Error> dead;  // why the volume cannot go on

  RingTree tree;
  RingChanges pending;  // what the next commit holds
  Places places;
  std::map<BucketIndex, HeldBucket> held;  // buckets as the server holds them
  Session session;
  Turn next_turn = 0;  // the next to reserve
  // Blocks whose last read failed, and whether it failed since the volume was opened. In that case
  // they are not read again before they are written.
  std::map<BlockId, bool> unreadable;
  std::set<BlockId> not_cached;  // blocks of the top whose slot in the cache did not open
  Event changed;                 // a turn was acknowledged, or a rewrite began or ended
};

}  // namespace s3oram::ring
