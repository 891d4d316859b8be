// The queues of a block device, one for each block in use.
#include "oramcore/oram/queued_device.h"

namespace s3oram {

void QueuedDevice::read(BlockId block, std::function<void(Result<Bytes>)> done) {
  asio::post(executor_, [this, block, done = std::move(done)]() mutable {
    enqueue({.block = block, .content = {}, .read = std::move(done), .written = {}});
  });
}

void QueuedDevice::write(BlockId block, Bytes content, std::function<void(Status)> done) {
  asio::post(executor_, [this, block, content = std::move(content),
                         done = std::move(done)]() mutable {
    enqueue(
        {.block = block, .content = std::move(content), .read = {}, .written = std::move(done)});
  });
}

void QueuedDevice::write_backup(BlockId block, Bytes content, std::function<void(Status)> done) {
  asio::post(executor_,
             [this, block, content = std::move(content), done = std::move(done)]() mutable {
               enqueue({.block = block,
                        .backup = true,
                        .content = std::move(content),
                        .read = {},
                        .written = std::move(done)});
             });
}

void QueuedDevice::discard(BlockId block) {
  ++discarding_;
  asio::post(executor_, [this, block] {
    enqueue({.block = block, .discard = true, .content = {}, .read = {}, .written = {}});
  });
}

void QueuedDevice::enqueue(DeviceRequest request) {
  const BlockId block = request.block;
  const auto [queue, first] = queues_.try_emplace(block);
  if (first && request.discard) {
    queues_.erase(queue);
    forget_now(block);
    return;
  }
  queue->second.push_back(std::move(request));
  if (first) start(serve(block));
}

Task<void> QueuedDevice::serve(BlockId block) {
  auto& queue = queues_[block];
  while (!queue.empty()) {
    DeviceRequest request = std::move(queue.front());
    queue.pop_front();
    if (request.discard)
      forget_now(block);
    else
      co_await access(std::move(request));
  }
  queues_.erase(block);
}

void QueuedDevice::forget_now(BlockId block) {
  forget(block);
  --discarding_;
}

void QueuedDevice::start(Task<void> task) {
  ++running_;
  spawn(executor_, [](QueuedDevice& device, Task<void> started) -> Task<void> {
    co_await std::move(started);
    if (--device.running_ == 0) device.idle_.notify_all();
  }(*this, std::move(task)));
}

Task<void> QueuedDevice::ended() {
  while (running_ > 0) co_await idle_.wait();
}

}  // namespace s3oram
