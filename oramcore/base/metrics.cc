// Instruments, and their text for Prometheus.
#include "oramcore/base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

namespace s3oram {
namespace {

const std::vector<double> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                      0.25,  0.5,    1,     2.5,  5,     10,   60};

/// Escapes backslashes and line ends, and in labels also quotation marks.
std::string escaped(std::string_view text, bool label) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (label && c == '"')) out += '\\';
    out += c;
  }
  return out;
}

std::string written(const Metrics::Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", name, escaped(value, true));
  return out;
}

std::string in_braces(const std::string& labels) {
  return labels.empty() ? "" : "{" + labels + "}";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void write_histogram(std::string& out, const std::string& name, const std::string& labels,
                     const Histogram& histogram) {
  const auto [below, sum] = histogram.snapshot();
  const std::string first = labels.empty() ? "" : labels + ",";
  for (std::size_t i = 0; i < below.size(); ++i) {
    const std::string bound =
        i < histogram.bounds().size() ? number(histogram.bounds()[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}le=\"{}\"}} {}\n", name, first, bound,
                   below[i]);
  }
  fmt::format_to(std::back_inserter(out), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name,
                 in_braces(labels), number(sum), below.back());
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(std::chrono::nanoseconds took) {
  const double seconds = std::chrono::duration<double>(took).count();
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), seconds) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(static_cast<std::uint64_t>(std::max<std::int64_t>(0, took.count())),
                 std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot result;
  std::uint64_t total = 0;
  for (const auto& count : counts_)
    result.below.push_back(total += count.load(std::memory_order_relaxed));
  result.sum = static_cast<double>(sum_.load(std::memory_order_relaxed)) / 1e9;
  return result;
}

Metrics::Family& Metrics::family(std::string_view name, std::string_view help, Kind kind) {
  const auto found = families_.find(name);
  if (found != families_.end()) {
    assert(found->second.kind == kind);
    return found->second;
  }
  Family& made = families_[std::string(name)];
  made.kind = kind;
  made.help = help;
  return made;
}

Counter& Metrics::counter(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(mutex_);
  auto& place = family(name, help, Kind::counter).counters[written(labels)];
  if (!place) place = std::make_unique<Counter>();
  return *place;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(mutex_);
  auto& place = family(name, help, Kind::gauge).gauges[written(labels)];
  if (!place) place = std::make_unique<Gauge>();
  return *place;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(mutex_);
  auto& place = family(name, help, Kind::histogram).histograms[written(labels)];
  if (!place) place = std::make_unique<Histogram>(kSeconds);
  return *place;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    const char* kind = family.kind == Kind::counter ? "counter"
                       : family.kind == Kind::gauge ? "gauge"
                                                    : "histogram";
    fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", name,
                   escaped(family.help, false), kind);
    for (const auto& [labels, counter] : family.counters)
      fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, in_braces(labels),
                     counter->value());
    for (const auto& [labels, gauge] : family.gauges)
      fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, in_braces(labels),
                     number(gauge->value()));
    for (const auto& [labels, histogram] : family.histograms)
      write_histogram(out, name, labels, *histogram);
  }
  return out;
}

Metrics& unread_metrics() {
  static Metrics metrics;
  return metrics;
}

}  // namespace s3oram
