// The block device of an open volume, which may have come from other servers, or another scheme,
// while it is used: blocks that have not moved yet lie in another volume, the source.
//
// Where a block is. The volume has every block that it maps; all others are at the source. Nothing
// else is recorded, so a migration goes on after any crash from the maps of the two engines:
//
//   - A block begins to be in the volume when a write there is acknowledged: a program's, or the
//     copy of what the source has. Until that is committed, a crash leaves the block at the source,
//     with the content that it had before.
//   - It stays there: later writes go to the volume, and the source is not asked for it again.
//   - The source is only read. It keeps what it had when the migration began.
//
// The participant is the volume's: contents and the rows that rely on them commit together there,
// as without a migration. A block that is discarded before it was copied stays mapped at the source
// after a crash; nobody owns it, so it is discarded again (BlockDevice::mapped).
//
// A read of a block at the source copies it too, so that the source's servers are asked for a block
// once, whatever programs do. (If many such copies are under way, it is only read.)
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
  std::uint64_t unreadable = 0;   // of these, those that the source could not read
  std::optional<Duration> takes;  // what is left, estimated; std::nullopt while nothing is known
  std::string hindrance;          // why the last copy failed; empty if it did not
};

/// The BlockDevice's methods: any thread. The others: on the executor.
/// It is wide because where a block is, which copies are in flight and who is paused have to change
/// together, in one step of the executor.
class MigratingDevice final : public QueuedDevice {
 public:
  /// Requests wait until serve() is called.
  MigratingDevice(Executor executor, Clock& clock, std::uint32_t block_size);

  /// From now on requests are served by this engine, which is open.
  void serve(VolumeEngine& volume);
  /// From now on requests are served by both engines, which are open. `rate` bounds the copies, not
  /// what programs do: bytes a second, 0 for no bound.
  void serve(VolumeEngine& volume, VolumeEngine& source, std::uint64_t rate);
  /// Copies blocks from now on, whenever there is a source. Before, only those move that are used.
  void begin_copying();
  /// Begins no more copies.
  void stop_copying();
  void set_rate(std::uint64_t rate);
  /// Waits until nobody uses the source, at which no block is left. It is not used again.
  Task<void> await_source_unused();
  /// Forgets the source, which nobody uses.
  void forget_source() { use(volume_, nullptr); }

  // The engines are exchanged: pause(), commit_paused(), let_go(), serve().

  /// Lets requests wait from now on, and waits until nobody uses the engines. Errors: unreachable
  /// (no use of them has ended for `patience`; then requests go on).
  Task<Status> pause(Duration patience);
  /// Commits all that was acknowledged before the pause. Errors: of the commit, or the engine
  /// cannot go on. Without an error the engine holds nothing alone.
  Task<Status> commit_paused();
  /// Lets requests go on with the engines that they had.
  void resume() { go_on(); }
  /// Forgets the engines. Requests wait until serve().
  void let_go();
  /// Fails requests that wait, and those to come, and waits until every coroutine has ended. The
  /// engines have been closed.
  Task<void> close();

  /// Of the migration; std::nullopt if there is none.
  std::optional<MigrationProgress> progress() const;

  std::uint32_t block_size() const override { return block_size_; }
  void commit(std::function<void(Status)> done) override;
  void set_participant(CommitParticipant* participant) override;
  std::vector<BlockId> mapped() override;
  Room room() override;
  void refresh_room() override;
  void look_for_room() override;

 private:
  using Request = DeviceRequest;
  class InUse;

  void use(VolumeEngine* volume, VolumeEngine* source);
  /// Requests wait no longer. Blocks that were discarded meanwhile go first: their numbers may be
  /// in use again.
  void go_on();
  void start_copiers();
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

  mutable std::mutex mutex_;  // of the next four; the engines change on the executor only
  VolumeEngine* volume_ = nullptr;
  VolumeEngine* source_ = nullptr;  // of a migration
  Room last_room_;                  // while there is no engine
  CommitParticipant* participant_ = nullptr;
  std::atomic<std::uint64_t> left_ = 0;  // at_source_.size()
  std::atomic<std::uint64_t> kept_ = 0;  // discarded_.size()

  bool held_ = true;  // requests wait
  bool closed_ = false;
  std::size_t in_use_ = 0, source_in_use_ = 0;  // uses of the engines under way
  Event changed_;                               // of these three, or a copier has ended

  BlockSet at_source_;
  std::vector<BlockId> mapped_;  // by either, until mapped() is called
  bool given_mapped_ = false;
  std::vector<BlockId> discarded_;  // while requests wait

  bool wants_copies_ = false;  // between begin_copying() and stop_copying()
  bool copying_ = false;       // now
  std::size_t copiers_ = 0;    // coroutines that copy
  std::size_t copies_of_reads_ = 0;
  std::uint64_t rate_ = 0;
  Duration next_copy_{};                    // is not begun before
  BlockId cursor_ = 0;                      // the next to copy, if it is at the source
  std::map<BlockId, Duration> unreadable_;  // and when each is read again
  Duration copying_since_{};
  std::uint64_t copied_ = 0;  // since then
  std::string hindrance_;
};

}  // namespace s3oram
