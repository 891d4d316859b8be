// A block device that does one thing at a time with each block, in the order of the requests.
// Engines are such devices; they differ in what an access does.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "oramcore/base/async.h"
#include "oramcore/oram/block_device.h"

namespace s3oram {

/// A request for one block.
struct DeviceRequest {
  BlockId block = 0;
  bool discard = false;
  bool backup = false;           // the block is part of a backup
  std::optional<Bytes> content;  // what to write; unset unless it is a write
  std::function<void(Result<Bytes>)> read;
  std::function<void(Status)> written;
};

/// The public methods may be called on any thread, the others on the executor.
class QueuedDevice : public BlockDevice {
 public:
  void read(BlockId block, std::function<void(Result<Bytes>)> done) override;
  void write(BlockId block, Bytes content, std::function<void(Status)> done) override;
  void write_backup(BlockId block, Bytes content, std::function<void(Status)> done) override;
  void discard(BlockId block) override;

 protected:
  explicit QueuedDevice(Executor executor) : executor_(std::move(executor)) {}

  /// Serves a read or a write. The block's next request waits until it returns.
  virtual Task<void> access(DeviceRequest request) = 0;
  /// Forgets the block's content.
  virtual void forget(BlockId block) = 0;

  void enqueue(DeviceRequest request);
  /// Takes a block that is not in use; requests for it wait for serve().
  void claim(BlockId block) { queues_.try_emplace(block); }
  /// Serves the requests that wait for a claimed block, and releases it.
  Task<void> serve(BlockId block);
  bool in_use(BlockId block) const { return queues_.contains(block); }
  std::size_t blocks_in_use() const { return queues_.size(); }
  /// Returns how many blocks are still to be forgotten. Any thread.
  std::uint64_t discarding() const { return discarding_; }

  /// Starts a coroutine; ended() waits for it.
  void start(Task<void> task);
  /// Runs a caller's coroutine; ended() waits for it.
  template <class T>
  Task<T> run(Task<T> task) {
    ++running_;
    T result = co_await std::move(task);
    if (--running_ == 0) idle_.notify_all();
    co_return result;
  }
  /// Waits until every coroutine that was started has ended.
  Task<void> ended();
  bool idle() const { return running_ == 0; }

 private:
  void forget_now(BlockId block);

  Executor executor_;
  std::map<BlockId, std::deque<DeviceRequest>> queues_;  // blocks with an access in flight
  std::atomic<std::uint64_t> discarding_ = 0;
  std::size_t running_ = 0;  // coroutines
  Event idle_;
};

}  // namespace s3oram
