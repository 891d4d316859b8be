// Tracks the room for blocks. A tree grows only once every server has reserved room for it. While a
// server has no room, the volume takes no more blocks than a tree of its current height holds
// (Rule::reserve_space).
#pragma once

#include <atomic>
#include <optional>
#include <set>

#include "oramcore/client/servers.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/oram/geometry.h"

namespace s3oram {

/// The tree that needs room, and what its engine does for it.
class GrowingTree {
 public:
  virtual unsigned height() const = 0;
  virtual std::uint64_t blocks() const = 0;  // number of mapped blocks
  virtual std::uint64_t epoch() const = 0;   // epoch of the session
  virtual bool has_ballast() const = 0;      // a reserve of vault.db's disk
  virtual Task<Status> take_ballast() = 0;   // restores it, if there is room
  virtual bool is_dead() const = 0;
  virtual void die(Error reason) = 0;
  /// Returns the servers that take part in evictions; empty if all of them do.
  virtual Bytes takers() const { return {}; }
  /// Returns those of them that are in step; empty if all servers are.
  virtual Bytes members() const { return {}; }
  /// Drops a server that only follows (in_step.h). Returns false if it does more than that.
  virtual bool drop(Party server) {
    static_cast<void>(server);
    return false;
  }
  /// Runs a coroutine; the engine waits for its end when it closes.
  virtual void start_for_room(Task<void> task) = 0;

 protected:
  ~GrowingTree() = default;
};

/// Methods run on the engine's executor, except for room().
class Capacity {
 public:
  Capacity(GrowingTree& tree, Servers& servers, Clock& clock, unsigned evict_every)
      : tree_(tree), servers_(servers), clock_(clock), evict_every_(evict_every) {}

  /// Returns whether `coming` accesses, before the next decision, could overfill the tree.
  bool wants_to_grow(std::uint64_t coming) const;
  /// Asks all servers that take part to reserve room for a tree of this height. Returns whether
  /// they all did. A server that follows and has no room is dropped, because it must not take away
  /// the room that those in step have.
  Task<bool> reserve(unsigned height);
  /// Makes one server reserve the room. Errors: those of the server.
  Task<Status> reserve_at(Party server, unsigned height);
  /// Returns whether `more` blocks that are not mapped yet may be written. If not, asks the servers
  /// for room, so that later writes may succeed.
  bool has_room(std::uint64_t more);
  /// Asks the servers whether there is room again, but limits how often.
  void ask();
  /// Asks the servers how much room they have, and whether their disks are full, at most once every
  /// ten seconds.
  void keep_known();
  /// Updates the counts; call it when the tree or its blocks have changed.
  void count();
  /// Call these when a write to a block that is not mapped yet begins, and when it ends.
  void begin_new_block() { ++new_blocks_; }
  void end_new_block() { --new_blocks_; }

  /// Returns the room left, for `discarding` blocks about to be forgotten. Asks no server, because
  /// it is called for every write of new data. Any thread.
  Room room(std::uint64_t discarding) const;
  /// Returns whether the disk of this server, by its last answer, has no room for a larger tree.
  bool lacks_room(Party server) const { return without_room_.contains(server); }
  /// Returns whether the disk of this server, by its last answer, is so full that the server uses
  /// the room that it kept back.
  bool uses_reserve(Party server) const { return using_reserve_.contains(server); }
  /// Returns whether this has happened to the disk of vault.db, so that there is no room.
  bool vault_lacks_room() const { return !tree_.has_ballast(); }

 private:
  Bytes all_or(Bytes some) const;
  void note_room(Party server, bool there_is);
  Task<void> ask_now();
  Task<void> ask_highest();
  Task<void> ask_for_reserves();

  GrowingTree& tree_;
  Servers& servers_;
  Clock& clock_;
  const unsigned evict_every_;
  std::uint64_t new_blocks_ = 0;  // writes in flight to blocks not yet mapped
  bool growth_refused_ = false;
  std::set<Party> without_room_, using_reserve_;
  std::optional<Duration> room_asked_, height_asked_;  // when the servers were last asked
  unsigned highest_ = kMaxHeight;                      // a tree of this height fits on all servers
  std::atomic<std::uint64_t> fitting_ = 0;             // blocks in the tree of the current height
  std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<std::uint64_t> more_room_ = 0;
  std::atomic<bool> can_grow_ = true;
};

}  // namespace s3oram
