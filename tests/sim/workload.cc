// Makes random accesses, and compares what they find with the ledger.
#include "tests/sim/workload.h"

namespace s3oram::test {

Workload::Workload(SimWorld& world, BlockId blocks, std::uint64_t seed)
    : world_(world), blocks_(blocks), random_(seed), ledger_(world.params().block_size) {}

void Workload::fail_with(std::string what) {
  if (failure_.empty()) failure_ = std::move(what);
}

void Workload::begin_one() {
  const BlockId block = random_() % blocks_;
  ++begun_;
  if (const auto at = unknown_.find(block); at != unknown_.end()) {
    if (!std::exchange(at->second, true)) read(block);
    return;
  }
  switch (random_() % 16) {
    case 0:
      if (!discards_) return write(block);
      ledger_.wrote(block, Bytes(world_.params().block_size));
      world_.volume_engine().discard(block);
      break;
    case 1:
    case 2:
      commit();
      break;
    case 3:
    case 4:
    case 5:
      read(block);
      break;
    default:
      write(block);
  }
}

void Workload::write(BlockId block) {
  auto content = pattern(block, ++generation_, world_.params().block_size);
  const auto number = ledger_.wrote(block, content);
  world_.volume_engine().write(
      block, std::move(content), in_this_life<Status>([this, block, number](const Status& status) {
        if (status)
          ledger_.acknowledged(block, number);
        else if (status.error().code == Errc::disk_full)
          ledger_.refused(block, number);
        else if (!excuses || !excuses(status.error()))
          fail_with(fmt::format("write of block {}: {}", block, status.error().message));
      }));
}

void Workload::read(BlockId block) {
  world_.volume_engine().read(
      block, in_this_life<Result<Bytes>>(
                 [this, block, last = ledger_.last_write()](const Result<Bytes>& content) {
                   found(block, last, content);
                 }));
}

void Workload::found(BlockId block, std::uint64_t last_write, const Result<Bytes>& content) {
  if (!content && excuses && excuses(content.error())) {
    if (const auto at = unknown_.find(block); at != unknown_.end()) at->second = false;
  } else if (!content) {
    fail_with(fmt::format("read of block {}: {}", block, content.error().message));
  } else if (unknown_.erase(block) > 0) {
    if (!ledger_.may_be(block, *content))
      fail_with(fmt::format("block {} holds something else after a crash", block));
    ledger_.is(block, *content);
  } else if (*content != ledger_.newest(block, last_write)) {
    fail_with(fmt::format("block {} does not hold what was written to it", block));
  }
}

void Workload::commit() {
  // A commit may fail on a bad disk; a later one then covers what it should have covered.
  world_.volume_engine().commit(
      in_this_life<Status>([this, covers = ledger_.snapshot()](const Status& status) {
        if (status) ledger_.committed(covers);
      }));
}

void Workload::client_died(bool lost) {
  ++life_;
  under_way_ = 0;
  if (lost)
    ledger_.lost();
  else
    ledger_.crashed();
  for (BlockId block = 0; block < blocks_; ++block) unknown_[block] = false;
}

void Workload::check_all() {
  for (BlockId block = 0; block < blocks_; ++block) {
    const auto last = ledger_.last_write();
    found(block, last, world_.read(block));
  }
}

}  // namespace s3oram::test
