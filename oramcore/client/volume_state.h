// The state of an open volume that accesses, evictions, healing and commits share: where each block
// lies, which tree version is read, what the next commit holds, and the objects through which all
// of them reach the servers. Each part of the engine holds a reference to it and owns only what it
// alone needs.
//
// All members are public, and there are about 20 of them, because the parts are coroutines of one
// executor that work on one state. Members that must change together are changed by a method here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "oramcore/client/client_scheme.h"
#include "oramcore/client/client_state.h"
#include "oramcore/client/engine_metrics.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

/// The ids of requests in which servers send data to each other. A server forgets all ids before
/// the oldest that is under way.
class RequestIds {
 public:
  std::uint64_t begin() { return *under_way_.insert(under_way_.end(), next_++); }
  std::uint64_t oldest() const { return *under_way_.begin(); }
  void end(std::uint64_t id) { under_way_.erase(id); }

 private:
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> under_way_;
};

/// The tree versions that servers hold and retrievals read.
struct ReadVersions {
  struct Version {
    std::uint64_t tree_version = 0;
    unsigned height = 1;
  };
  Version read;                                    // tree's version, or the previous one
  std::unordered_map<BlockId, Position> former;    // positions before it, of moved blocks
  std::map<std::uint64_t, std::size_t> under_way;  // retrievals, by tree version
  std::uint64_t released = 0;                      // servers hold no version before this one
};

/// Counts replacements of shares with which servers may already have computed.
struct Contents {
  std::uint64_t changed = 0;  // how often; counted when all servers have the new shares
  unsigned zeroing = 0;       // slots that are being replaced by zeros
};

/// What the parts of an engine share, and the changes that must be made together.
///
/// It is wide because each part keeps in it what the next commit must hold and other parts read;
/// what one part alone needs belongs to that part.
///
/// One executor; not thread-safe.
class VolumeState {
 public:
  /// `start` runs a coroutine; the engine waits for its end when it closes.
  VolumeState(const ClientEnvironment& environment, const VolumeId& volume,
              const VolumeParams& params, std::unique_ptr<ClientScheme> scheme,
              std::function<void(Task<void>)> start);

  Duration now() const { return environment.clock.now(); }
  /// Makes the volume fail for good, and ends all waiting. Only the first call has an effect.
  void die(Error reason);

  // ---- blocks

  bool is_given_up(BlockId block) const;
  void mark_unreadable(BlockId block);
  /// Marks the block in a slot as unreadable, because the slot is about to be given up.
  void mark_unreadable(SlotAddress at);
  void mark_readable(BlockId block);
  void set_position(BlockId block, const Position& position);
  /// Returns whether the block had a position.
  bool forget(BlockId block);
  /// Moves a block to the stash, from the next commit on. Without `content` the stash holds no
  /// content for it; whether the block counts as unreadable does not change.
  void keep_in_stash(BlockId block, const OpenedBlock* content);
  /// Returns the path to ask for: the block's own, or a random one if it is not in the tree.
  Leaf leaf_of(BlockId block);
  /// Returns whether a retrieval of that path finds the block.
  bool is_found_by(Leaf leaf, BlockId block) const;
  bool is_newest(BlockId block, const Label& label) const;
  /// Returns whether `label` may be in that slot: it must be the label of the slot's resident; if
  /// the slot has none, any label may be.
  bool is_resident(const Label& label, SlotAddress at) const;
  /// Returns whether the tree has such a slot.
  bool has_slot(SlotAddress at) const;
  /// Returns where the block lies in the tree version that is read. When the tree has grown, a
  /// block at a leaf has kept its slot.
  Position position_read(BlockId block) const;

  // ---- servers

  std::set<Party> servers_in_step() const;
  /// Asks a server, and asks again whenever it was restarted, for about as long as `patience`.
  Task<Result<Payload>> ask_again(Party server, MessageType type, Bytes message,
                                  Duration patience = Duration::max());
  /// Returns, for each root slot of tree version `from` and later, the access whose write all
  /// servers have, in the form of OpenRequest.
  std::vector<std::uint64_t> acknowledged_root(std::uint64_t from) const;
  void note_rewritten(BucketIndex bucket);
  void forget_rewritten();

  const ClientEnvironment environment;
  const VolumeParams params;
  const std::unique_ptr<ClientScheme> scheme;
  Servers servers;
  InStep in_step;
  EngineMetrics metrics;
  const std::function<void(Task<void>)> start;
  std::optional<Error> dead;  // why the volume cannot go on

  TreeState tree;
  ReadVersions versions;
  PositionMap positions;
  std::map<BlockId, Bytes> stash;  // sealed
  Session session;
  std::vector<AccessRecord> access_records;  // by root slot
  // Blocks whose last read failed, and whether it failed since the volume was opened. In that case
  // they are not read again before they are written.
  std::map<BlockId, bool> unreadable;
  // Buckets in which a slot was given up while a server that may hold it was left out. Such a
  // server holds other bytes under the same stamp, so these buckets are compared when it comes
  // back.
  std::set<BucketIndex> rewritten;
  UnfinishedRepairs repairs;
  Refreshes refreshes;
  StateChanges pending;  // what the next commit holds

  RequestIds request_ids;
  Contents contents;
  Event changed;  // a root write was acknowledged, a tree version changed, or the volume died
};

}  // namespace s3oram
