// Makes many writes durable with one fdatasync: each caller waits for a sync that starts after its
// call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "oramcore/base/metrics.h"
#include "oramcore/base/rules.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// Used on one executor; not thread-safe. A failed sync is never retried, because what was written
/// before it may be lost even if a later sync succeeds. So every caller whose writes began before
/// the failure gets an error, and must write again.
class GroupSync {
 public:
  /// Measures in `took`, unless it is null, how long the disk takes. `first`, unless it is empty,
  /// makes durable what must be durable before any of the writes begins.
  GroupSync(Executor executor, Executor pool, BucketStore& store, Histogram* took = nullptr,
            std::function<Status()> first = {})
      : executor_(std::move(executor)),
        pool_(std::move(pool)),
        store_(store),
        took_(took),
        first_(std::move(first)) {}

  /// Runs `work`, which does short writes, together with those of other callers. Success means that
  /// these writes survive a power cut.
  Task<Status> write(std::function<Status()> work) {
    const auto write = std::make_shared<Write>(Write{std::move(work), {}});
    writes_.push_back(write);
    const std::uint64_t mine = ++asked_;
    if (!running_) spawn(executor_, run());
    while (done_ < mine) co_await finished_.wait();
    co_return std::move(write->outcome);
  }

  /// Waits until nothing is under way. (A caller that has learned of a failure does not wait for
  /// the sync that it asked for.)
  Task<void> ended() {
    while (running_) co_await finished_.wait();
  }

  /// Call it before the first of the writes that sync() is to make durable. Returns the argument
  /// for sync().
  std::uint64_t begin() const { return failures_; }

  /// Makes durable everything written since begin() returned `begun`.
  Task<Status> sync(std::uint64_t begun) {
    if (!rule_holds(Rule::durable_answers)) co_return Status{};
    const std::uint64_t mine = ++asked_;
    if (!running_) spawn(executor_, run());
    while (done_ < mine && failures_ == begun) co_await finished_.wait();
    if (failures_ != begun) co_return fail(*failure_);
    co_return Status{};
  }

 private:
  struct Write {
    std::function<Status()> work;
    Status outcome;
  };

  Task<void> run() {
    running_ = true;
    while (done_ < asked_) {
      const std::uint64_t covered = asked_;
      const auto writes = std::exchange(writes_, {});
      Status status = co_await offload(pool_, [&]() -> Status {
        const bool durable = rule_holds(Rule::durable_answers);
        if (first_ && durable) S3O_TRY(first_());
        for (const auto& write : writes) write->outcome = write->work();
        return durable ? timed_sync() : Status{};
      });
      if (!rule_holds(Rule::no_retry_of_failed_sync))
        while (!status) status = co_await offload(pool_, [this] { return store_.sync(); });
      done_ = covered;
      if (!status) {
        ++failures_;
        failure_ = status.error();
      }
      for (const auto& write : writes)
        if (write->outcome) write->outcome = status;
      finished_.notify_all();
    }
    running_ = false;
    finished_.notify_all();
  }

  Status timed_sync() {
    const auto begun = std::chrono::steady_clock::now();
    Status status = store_.sync();
    if (took_) took_->observe(std::chrono::steady_clock::now() - begun);
    return status;
  }

  Executor executor_;
  Executor pool_;
  BucketStore& store_;
  Histogram* const took_;
  const std::function<Status()> first_;
  std::uint64_t asked_ = 0, done_ = 0;
  std::uint64_t failures_ = 0;
  bool running_ = false;
  std::vector<std::shared_ptr<Write>> writes_;  // writes that wait for the next sync
  std::optional<Error> failure_;                // error of the last sync that failed
  Event finished_;
};

}  // namespace s3oram
