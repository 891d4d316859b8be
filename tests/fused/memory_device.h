// A block device in memory that commits into a SQLite file, has a thread of its own, and misbehaves
// on demand. After a crash it holds what it committed. It also watches its user: violations()
// counts breaches of BlockDevice's contract and of the rules of reuse.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "oramcore/db/sqlite.h"
#include "oramcore/oram/block_device.h"

namespace s3oram {

class MemoryDevice final : public BlockDevice {
 public:
  MemoryDevice(const std::string& path, std::uint32_t block_size);
  ~MemoryDevice() override { stop(); }
  /// Acts as a crash does: whatever is not committed is gone, and no more callbacks come. Users may
  /// still ask, but get no answer.
  void stop();

  std::uint32_t block_size() const override { return block_size_; }
  void read(BlockId block, std::function<void(Result<Bytes>)> done) override;
  void write(BlockId block, Bytes content, std::function<void(Status)> done) override;
  void write_backup(BlockId block, Bytes content, std::function<void(Status)> done) override;
  void discard(BlockId block) override;
  void commit(std::function<void(Status)> done) override;
  void set_participant(CommitParticipant* participant) override { participant_ = participant; }
  void look_for_room() override { looked_for_room_ = true; }
  std::uint64_t steps() const override { return steps_; }
  std::vector<BlockId> mapped() override;

  /// Returns the blocks that servers would hold.
  std::map<BlockId, Bytes> acknowledged() const;

  struct Counts {
    std::uint64_t reads = 0, writes = 0, discards = 0, commits = 0;
    std::uint64_t accesses() const { return reads + writes; }
  };
  Counts counts();
  unsigned violations();

  /// While held, the device accepts writes (or reads) and does not answer them.
  void hold_writes(bool hold);
  void hold_reads(bool hold);
  /// Answers the write that has been held longest, if there is one.
  void release_write();
  void fail_writes(bool fail);
  void fail_reads(bool fail);
  /// While full, the device accepts no more blocks than it holds now.
  void fill_up(bool full);
  /// Reports that an access that has not ended got ahead.
  void step() { ++steps_; }
  bool take_looked_for_room() { return looked_for_room_.exchange(false); }
  void fail_commits(bool fail);
  /// Waits until `count` writes (or reads) are held. Returns false after ten seconds.
  bool wait_held_writes(std::size_t count);
  bool wait_held_reads(std::size_t count);

 private:
  using Work = std::function<void()>;

  void post(Work work);
  void run();
  void set_hold(bool& held, std::deque<Work>& works, bool hold);
  bool wait_held(const std::deque<Work>& works, std::size_t count);
  void do_commit(const std::function<void(Status)>& done);
  Status write_changes(const std::map<BlockId, std::optional<Bytes>>& changes,
                       const std::function<Status(Database&)>& participate);

  const std::uint32_t block_size_;
  CommitParticipant* participant_ = nullptr;
  Database database_;

  std::atomic<bool> looked_for_room_ = false;
  std::atomic<std::uint64_t> steps_ = 0;
  std::map<BlockId, std::optional<Bytes>> uncommitted_;  // acknowledged; the device's thread only

  mutable std::mutex mutex_;  // guards the members below; never held while calling back
  std::condition_variable changed_;
  std::map<BlockId, Bytes> newest_, acknowledged_;
  std::deque<Work> queue_, held_writes_, held_reads_;
  std::set<BlockId> writing_, discarded_;  // writes in flight; discards not committed
  Counts counts_;
  unsigned violations_ = 0;
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
  bool hold_writes_ = false, hold_reads_ = false;
  bool fail_writes_ = false, fail_reads_ = false, fail_commits_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace s3oram
