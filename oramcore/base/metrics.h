// What a program counts and measures, for Prometheus: counters, gauges and histograms by name and
// labels, and their text in its exposition format 0.0.4.
//
// Whoever counts makes its instruments once, keeps the references, and updates them without locks
// from any thread. Names end in their unit (_seconds, _bytes), counters in _total. A value or a
// label must never say more than docs/leakage.md lets a local reader know: no names of files, no
// keys, no places of blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace s3oram {

/// Only grows. Any thread.
class Counter {
 public:
  void add(std::uint64_t more = 1) { value_.fetch_add(more, std::memory_order_relaxed); }
  /// To a value that something else counts.
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

/// Goes up and down. Any thread.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

/// How often something took how long. Any thread; a text that is made meanwhile may lack the
/// newest observation in one of its lines.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(std::chrono::nanoseconds took);

  struct Snapshot {
    std::vector<std::uint64_t> below;  // for each bound, and for none: cumulative
    double sum = 0;                    // seconds
  };
  Snapshot snapshot() const;
  const std::vector<double>& bounds() const { return bounds_; }

 private:
  const std::vector<double> bounds_;  // seconds, ascending
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<std::uint64_t> sum_ = 0;  // ns
};

/// Any thread. Instruments live as long as this.
class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// The instrument of this name and these labels, made if it is not there. All of one name are of
  /// one kind, which is asserted, and share the first one's help.
  Counter& counter(std::string_view name, std::string_view help, Labels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, Labels labels = {});
  /// Of seconds, from 1 ms to a minute.
  Histogram& histogram(std::string_view name, std::string_view help, Labels labels = {});

  /// Everything, families in the order of their names.
  std::string text() const;

 private:
  enum class Kind { counter, gauge, histogram };
  struct Family {
    Kind kind{};
    std::string help;
    // By labels as they are written.
    std::map<std::string, std::unique_ptr<Counter>> counters;
    std::map<std::string, std::unique_ptr<Gauge>> gauges;
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
  };
  Family& family(std::string_view name, std::string_view help, Kind kind);

  mutable std::mutex mutex_;  // guards the map, not what the instruments hold
  std::map<std::string, Family, std::less<>> families_;
};

/// For whoever is given no other: nobody reads it.
Metrics& unread_metrics();

}  // namespace s3oram
