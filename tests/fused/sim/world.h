// The environment of a simulated file system: a block device, its database, and time, all advanced
// by one thread from one seed. Waiting runs the world's next events, and so does "meanwhile", in
// which other operations begin and end while the first one waits. They nest: the last to begin is
// the first to end. The power may fail within any step.
#pragma once

#include <functional>
#include <random>
#include <stdexcept>
#include <string>

#include "fused/cache/timing.h"
#include "oramcore/base/disk.h"
#include "oramcore/oram/block_device.h"

namespace s3oram::sim {

/// Thrown out of a step, through everything that waits, when the power fails.
struct Cut {};

/// A promise was broken; the message says which.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// Returns a number from 0 to n - 1.
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }

 private:
  std::mt19937_64 random_;
};

enum class Trouble { none, writes_fail, reads_fail, commits_fail, silent, full };

class World : public Timing {
 public:
  explicit World(std::uint64_t seed) : dice(seed) {}

  /// Cuts the power: everything that is not durable is gone, and no more callbacks come.
  virtual void power_off() = 0;
  /// Makes a new device on what is left. May throw Cut.
  virtual void power_on() = 0;
  virtual BlockDevice& device() = 0;
  virtual std::string database() const = 0;
  virtual Disk& disk() { return system_disk(); }  // the disk with the database
  /// Returns the blocks that hold content now.
  virtual std::size_t mapped() = 0;
  /// Throws if the file system broke the device's contract.
  virtual void check_use() = 0;
  virtual bool can(Trouble) const { return false; }
  /// Returns roughly how many steps an access takes.
  virtual std::uint64_t grain() const { return 1; }
  virtual void set_trouble(Trouble trouble) { trouble_ = trouble; }
  Trouble trouble() const { return trouble_; }

  std::uint64_t free_bytes() const {
    return trouble_ == Trouble::full ? 0 : std::uint64_t{1} << 40;
  }

  /// Advances by one event, or to `until` if that comes first.
  void pass(Time until) {
    if (cut_in > 0 && --cut_in == 0) throw Cut{};
    if (++steps_ > kMostSteps * grain()) throw Violation("the run does not end");
    if (meanwhile) meanwhile();
    run_event(until);
  }

  std::int64_t wall_clock() override {
    constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;
    return kBegin + now().time_since_epoch().count() + ++asked_;  // never the same twice
  }
  void wait(Lock& lock, std::condition_variable&, Time until) override {
    lock.unlock();
    pass(until);
    lock.lock();
  }

  Dice dice;
  std::uint64_t cut_in = 0;  // steps to go; never if 0
  std::function<void()> meanwhile;

 protected:
  virtual void run_event(Time until) = 0;
  Trouble trouble_ = Trouble::none;

 private:
  static constexpr std::uint64_t kMostSteps = 1'000'000;
  std::int64_t asked_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace s3oram::sim
