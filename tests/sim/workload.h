// Random operations on the client's engine, and a ledger that knows what they may find. Anything
// that must not happen is recorded as a failure.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>

#include "tests/sim/ledger.h"
#include "tests/sim/sim_world.h"

namespace s3oram::test {

class Workload {
 public:
  Workload(SimWorld& world, BlockId blocks, std::uint64_t seed);

  /// Begins an operation. The client must be open.
  void begin_one();
  /// The client has died. Accesses under way are forgotten. Every block is then read once before
  /// anything else is done with it.
  /// If `lost`, the client's disk is lost too.
  void client_died(bool lost = false);
  /// A discarded block may come back when the client's disk is lost.
  void discard_nothing() { discards_ = false; }
  /// Reads every block. The client must be open, and nothing under way.
  void check_all();
  /// Returns whether an operation may have failed with this error; it is then as if it had not been
  /// tried. If empty, none may, except for lack of room.
  std::function<bool(const Error&)> excuses;

  std::size_t begun() const { return begun_; }
  std::size_t under_way() const { return under_way_; }
  /// Returns the first thing that went wrong; empty if nothing did.
  const std::string& failure() const { return failure_; }
  void fail_with(std::string what);

 private:
  void read(BlockId block);
  void write(BlockId block);
  void commit();
  /// Calls `then(result)` if the client that was asked still lives.
  template <class T, class Then>
  std::function<void(T)> in_this_life(Then then) {
    ++under_way_;
    return [this, then, mine = life_](T result) {
      if (mine != life_) return;
      --under_way_;
      then(std::move(result));
    };
  }
  void found(BlockId block, std::uint64_t last_write, const Result<Bytes>& content);

  SimWorld& world_;
  const BlockId blocks_;
  std::mt19937_64 random_;
  Ledger ledger_;
  std::map<BlockId, bool> unknown_;  // blocks not read since a crash; true if being read
  std::uint64_t generation_ = 0, life_ = 0;
  std::size_t begun_ = 0, under_way_ = 0;
  bool discards_ = true;
  std::string failure_;
};

}  // namespace s3oram::test
