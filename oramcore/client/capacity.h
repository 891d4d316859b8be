// Room for blocks. A tree grows only once every server has reserved the room for it. While a server
// has none, no more blocks are taken than a tree of the present height holds (Rule::reserve_space).
#pragma once

#include <atomic>
#include <optional>

#include "oramcore/client/servers.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/oram/geometry.h"

namespace s3oram {

/// The tree that needs the room, and what its engine does for it.
class GrowingTree {
 public:
  virtual unsigned height() const = 0;
  virtual std::uint64_t blocks() const = 0;  // that are mapped
  virtual std::uint64_t epoch() const = 0;   // of the session
  virtual bool has_ballast() const = 0;      // a reserve of vault.db's disk
  virtual Task<Status> take_ballast() = 0;   // if it can
  virtual bool is_dead() const = 0;
  virtual void die(Error reason) = 0;
  /// The servers that take part in evictions; empty: all.
  virtual Bytes takers() const { return {}; }
  /// Runs a coroutine that the engine waits for when it closes.
  virtual void start_for_room(Task<void> task) = 0;

 protected:
  ~GrowingTree() = default;
};

/// On the engine's executor, but for room().
class Capacity {
 public:
  Capacity(GrowingTree& tree, Servers& servers, Clock& clock, unsigned evict_every)
      : tree_(tree), servers_(servers), clock_(clock), evict_every_(evict_every) {}

  /// Returns whether `coming` accesses, before the next decision, could overfill the tree.
  bool wants_to_grow(std::uint64_t coming) const;
  /// Asks all servers that take part to reserve room for a tree of this height. Returns whether
  /// they all did.
  Task<bool> reserve(unsigned height);
  /// Has one server reserve it. Errors: of the server.
  Task<Status> reserve_at(Party server, unsigned height);
  /// Returns whether `more` blocks that are not yet mapped may be written. If not, asks the servers
  /// for room, for later writes.
  bool has_room(std::uint64_t more);
  /// Asks the servers whether there is room again, though not often.
  void ask();
  /// Asks the servers for their room, though at most every ten seconds.
  void keep_known();
  /// To be called when the tree or its blocks have changed.
  void count();
  /// Call these when a write of a block that is not mapped yet begins, and when it ends.
  void begin_new_block() { ++new_blocks_; }
  void end_new_block() { --new_blocks_; }

  /// Asks no server, because every write of new data calls it. `discarding` blocks will be
  /// forgotten. Any thread.
  Room room(std::uint64_t discarding) const;

 private:
  Bytes takers() const;
  Task<void> ask_now();
  Task<void> ask_highest();

  GrowingTree& tree_;
  Servers& servers_;
  Clock& clock_;
  const unsigned evict_every_;
  std::uint64_t new_blocks_ = 0;  // writes in flight of blocks not yet mapped
  bool growth_refused_ = false;
  std::optional<Duration> room_asked_, height_asked_;  // when the servers were last asked
  unsigned highest_ = kMaxHeight;                      // tree that the servers have room for
  std::atomic<std::uint64_t> fitting_ = 0;             // blocks in the tree of the present height
  std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<std::uint64_t> more_room_ = 0;
  std::atomic<bool> can_grow_ = true;
};

}  // namespace s3oram
