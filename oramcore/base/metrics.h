// Metrics for Prometheus: counters, gauges and histograms by name and labels, and their text in its
// exposition format 0.0.4.
//
// A user of metrics creates its instruments once, keeps the references, and updates them from any
// thread without locks. Names end in their unit (_seconds, _bytes), those of counters in _total. A
// value or a label must not say more than a local reader may know (docs/leakage.md): no file names,
// no keys, no places of blocks.
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

/// A value that only grows. Any thread.
class Counter {
 public:
  void add(std::uint64_t more = 1) { value_.fetch_add(more, std::memory_order_relaxed); }
  /// Sets it to a value that is counted elsewhere.
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

/// A value that goes up and down. Any thread.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

/// Counts durations in buckets. Any thread; in a text made at the same time, one of the lines may
/// lack the newest observation.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(std::chrono::nanoseconds took);

  struct Snapshot {
    std::vector<std::uint64_t> below;  // cumulative: one for each bound, and the total
    double sum = 0;                    // seconds
  };
  Snapshot snapshot() const;
  const std::vector<double>& bounds() const { return bounds_; }

 private:
  const std::vector<double> bounds_;  // seconds, ascending
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<std::uint64_t> sum_ = 0;  // ns
};

/// Any thread. Instruments live as long as the Metrics.
class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// Returns the instrument with this name and these labels; creates it if it does not exist. All
  /// instruments with one name have the same kind, which is asserted, and the help of the first
  /// one.
  Counter& counter(std::string_view name, std::string_view help, Labels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, Labels labels = {});
  /// Returns a histogram of seconds, with bounds from 1 ms to a minute.
  Histogram& histogram(std::string_view name, std::string_view help, Labels labels = {});

  /// Returns the text of all metrics, with families in the order of their names.
  std::string text() const;

 private:
  enum class Kind { counter, gauge, histogram };
  struct Family {
    Kind kind{};
    std::string help;
    // The instruments, by the text of their labels.
    std::map<std::string, std::unique_ptr<Counter>> counters;
    std::map<std::string, std::unique_ptr<Gauge>> gauges;
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
  };
  Family& family(std::string_view name, std::string_view help, Kind kind);

  mutable std::mutex mutex_;  // guards the map, not what the instruments hold
  std::map<std::string, Family, std::less<>> families_;
};

/// Returns a default for callers that are given no Metrics; nobody reads it.
Metrics& unread_metrics();

}  // namespace s3oram
