// The block device of an open volume that may be migrating, while it is used, from other servers or
// another scheme. Blocks that have not moved yet lie in another volume, the source.
//
// The volume has every block that it maps, and all others are at the source. Nothing else is
// recorded about where a block is, so after any crash a migration continues from the maps of the
// two engines:
//
//   - A block enters the volume when a write to it there is acknowledged: a program's write, or
//     the copy from the source. Until that is committed, a crash leaves the block at the source,
//     with the content that it had before.
//   - It stays there: later writes go to the volume, and the source is not asked for it again.
//   - The source is only read. It keeps what it had when the migration began.
//
// The participant belongs to the volume: contents and the rows that rely on them commit together
// there, as without a migration. A block that is discarded before it was copied is mapped at the
// source again after a crash; no file owns it, so it is discarded again (BlockDevice::mapped).
//
// A read of a block at the source also copies it, so that the source's servers are asked for each
// block only once, whatever programs do. (If many such copies are under way, the block is only
// read.)
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "oramcore/client/block_set.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

struct MigrationProgress {
  std::uint64_t moved = 0;        // blocks in the volume
  std::uint64_t left = 0;         // blocks at the source
  std::uint64_t unreadable = 0;   // those of `left` that the source could not read
  std::optional<Duration> takes;  // estimated time for what is left; std::nullopt if unknown
  std::string hindrance;          // why the last copy failed; empty if it succeeded
  bool is_of_source = false;      // the hindrance: its servers are the source's
};

/// The methods of BlockDevice may be called on any thread, all others on the executor.
/// It is wide because the places of blocks, the copies in flight and the paused requests have to
/// change together, in one step of the executor.
class MigratingDevice final : public QueuedDevice {
 public:
  /// Requests wait until serve() is called.
  MigratingDevice(Executor executor, Clock& clock, std::uint32_t block_size);

  /// From now on, serves requests with this engine, which is open.
  void serve(VolumeEngine& volume);
  /// From now on, serves requests with both engines, which are open. `rate` bounds the copies, but
  /// not the requests of programs: bytes per second, 0 for no bound.
  void serve(VolumeEngine& volume, VolumeEngine& source, std::uint64_t rate);
  /// From now on, copies blocks whenever there is a source. Before this call, only blocks that are
  /// used move.
  void begin_copying();
  /// From now on, only blocks that are used move.
  void stop_copying();
  void set_rate(std::uint64_t rate);
  /// Waits until no block is left at the source and nothing uses the source. It is not used again.
  Task<void> await_source_unused();
  /// Forgets the source, which nothing uses.
  void forget_source() { use(volume_, nullptr); }

  // To exchange the engines, call pause(), commit_paused(), let_go() and serve(), in this order.

  /// Makes requests wait from now on, and waits until nothing uses the engines. Errors: unreachable
  /// (no use of them has ended for `patience`; requests then continue).
  Task<Status> pause(Duration patience);
  /// Commits everything that was acknowledged before the pause. Errors: those of the commit, or the
  /// reason why the engine cannot go on. Without an error, the engine holds nothing that is not
  /// durable.
  Task<Status> commit_paused();
  /// Lets requests continue with the same engines.
  void resume() { go_on(); }
  /// Forgets the engines. Requests wait until serve().
  void let_go();
  /// Fails all requests that wait or are still to come, and waits until every coroutine has ended.
  /// The engines must have been closed.
  Task<void> close();

  /// Returns the progress of the migration; std::nullopt if there is none.
  std::optional<MigrationProgress> progress() const;

  std::uint32_t block_size() const override { return block_size_; }
  void commit(std::function<void(Status)> done) override;
  void set_participant(CommitParticipant* participant) override;
  std::vector<BlockId> mapped() override;
  std::uint64_t steps() const override;
  Room room() override;
  void refresh_room() override;
  void look_for_room() override;

 private:
  using Request = DeviceRequest;
  class InUse;

  void use(VolumeEngine* volume, VolumeEngine* source);
  /// Lets requests continue. Blocks that were discarded during the pause are forgotten first,
  /// because their numbers may be in use again.
  void go_on();
  void start_copiers();
  /// Forgets how fast blocks have moved so far.
  void begin_average();
  Duration least_time_for(std::uint64_t blocks) const;
  Room room_now() const;

  Task<void> access(Request request) override;
  void forget(BlockId block) override;
  Task<void> read_and_copy(Request request);
  Task<Status> write_to_volume(Request request);
  Task<Result<Bytes>> read_from(VolumeEngine& engine, BlockId block,
                                std::function<void(Result<Bytes>)> read = {});
  void leave_source(BlockId block);
  Task<void> commit_and_tell(std::function<void(Status)> done);

  Task<void> copy_all();
  std::optional<BlockId> next_to_copy();
  Task<Status> copy(BlockId block);
  Task<Status> take_over(BlockId block, Bytes content);
  Task<void> await_turn();
  Task<void> sleep(Duration time);

  const Executor executor_;
  Clock& clock_;
  const std::uint32_t block_size_;

  mutable std::mutex mutex_;  // protects the next four; the engines change on the executor only
  VolumeEngine* volume_ = nullptr;
  VolumeEngine* source_ = nullptr;  // null if there is no migration
  Room last_room_;                  // what room() returns while there is no engine
  CommitParticipant* participant_ = nullptr;
  std::atomic<std::uint64_t> left_ = 0;  // at_source_.size()
  std::atomic<std::uint64_t> kept_ = 0;  // discarded_.size()

  bool held_ = true;  // requests wait
  bool closed_ = false;
  std::size_t in_use_ = 0, source_in_use_ = 0;  // uses of the engines under way
  Event changed_;                               // one of these three, or a copier has ended

  BlockSet at_source_;
  std::vector<BlockId> mapped_;  // blocks mapped by either engine; kept until mapped() is called
  bool given_mapped_ = false;
  std::vector<BlockId> discarded_;  // blocks discarded while requests wait

  bool wants_copies_ = false;  // true between begin_copying() and stop_copying()
  bool copying_ = false;       // now
  std::size_t copiers_ = 0;    // coroutines that copy
  std::size_t copies_of_reads_ = 0;
  std::uint64_t rate_ = 0;
  Duration next_copy_{};                    // the earliest time for the next copy
  BlockId cursor_ = 0;                      // the next block to copy, if it is at the source
  std::map<BlockId, Duration> unreadable_;  // unreadable blocks, and when each is read again
  Duration copying_since_{};
  std::uint64_t copied_ = 0;  // blocks that have moved since copying_since_
  std::string hindrance_;
  bool is_of_source_ = false;  // the hindrance
};

}  // namespace s3oram
