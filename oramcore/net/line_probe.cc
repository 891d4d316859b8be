// Sends until the time is over, and computes the rate at which the bytes arrived.
#include "oramcore/net/line_probe.h"

#include <algorithm>
#include <limits>

namespace s3oram {
namespace {

constexpr std::size_t kFew = 256;               // bytes of a message that measures a round trip
constexpr std::size_t kFirstWindow = 16 << 10;  // bytes in flight at first
constexpr std::size_t kMostWindow = 8 << 20;
constexpr std::size_t kLeastMessage = 4 << 10;
constexpr std::size_t kMessages = 8;                        // messages in a window
constexpr Duration kQueue = std::chrono::milliseconds(30);  // a queue that is long enough
constexpr int kProbedTrips = 16;  // enough to fill a long line, and some more
// Limits of the part of the time in which the lines are not full yet.
constexpr double kLeastRamp = 0.4, kMostRamp = 0.75;
constexpr std::size_t kEnough = 8;  // arrivals that suffice for a rate
constexpr double kMostRate = 1e12;

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

/// The slope of the straight line that best fits the points. A burst at either end has little
/// effect.
class Slope {
 public:
  /// `more` is the growth of y since the previous point.
  void add(double x, double more) {
    y_ += more;
    ++points_;
    const double from_mean = x - mean_x_;
    mean_x_ += from_mean / static_cast<double>(points_);
    mean_y_ += (y_ - mean_y_) / static_cast<double>(points_);
    xx_ += from_mean * (x - mean_x_);
    xy_ += from_mean * (y_ - mean_y_);
  }
  std::size_t points() const { return points_; }
  double value() const { return xx_ > 0 ? xy_ / xx_ : std::numeric_limits<double>::infinity(); }

 private:
  std::size_t points_ = 0;
  double y_ = 0, mean_x_ = 0, mean_y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace

Task<LineRate> LineProbe::run(Bytes parties, Limits limits) {
  begun_ = clock_.now();
  for (const Party party : parties) lines_.push_back({.party = party, .window = kFirstWindow});
  for (Line& line : lines_) start(line, kFew);
  while (under_way_ > 0) {
    co_await arrived_.wait();
    if (clock_.now() < end(limits))
      for (Line& line : lines_) fill(line, limits);
  }
  co_return result(end(limits));
}

Duration LineProbe::round_trip() const {
  Duration longest{};
  for (const Line& line : lines_)
    if (line.round_trip != Duration::max()) longest = std::max(longest, line.round_trip);
  return longest;
}

Duration LineProbe::end(const Limits& limits) const {
  return begun_ + std::max(limits.time, std::min(limits.most_time, kProbedTrips * round_trip()));
}

void LineProbe::fill(Line& line, const Limits& limits) {
  if (line.round_trip == Duration::max()) return;
  const std::size_t message =
      std::clamp(line.window / kMessages, std::min(kLeastMessage, limits.message), limits.message);
  while (!line.broken && line.under_way + message <= line.window && sent_ + message <= limits.bytes)
    start(line, message);
}

void LineProbe::start(Line& line, std::size_t bytes) {
  line.under_way += bytes;
  under_way_ += bytes;
  sent_ += bytes;
  spawn(executor_, carry(line, bytes));
}

Task<void> LineProbe::carry(Line& line, std::size_t bytes) {
  const Duration sent_at = clock_.now();
  const bool arrived = co_await carry_(line.party, bytes);
  const Duration now = clock_.now(), took = now - sent_at;
  line.under_way -= bytes;
  under_way_ -= bytes;
  arrived_.notify_all();
  if (!arrived) {
    line.broken = true;
    co_return;
  }
  arrivals_.push_back({now, bytes});
  line.round_trip = std::min(line.round_trip, took);
  if (bytes > kFew && line.window < kMostWindow && took <= 2 * line.round_trip + kQueue) {
    line.window = std::min(line.window + bytes, kMostWindow);
    grown_ = now;
  }
}

LineRate LineProbe::result(Duration end) const {
  LineRate rate{.bytes_per_second = 0, .round_trip = round_trip()};
  if (arrivals_.empty()) return rate;
  const Duration last = std::min(end, arrivals_.back().at);
  const double all = seconds(last - begun_);
  const double full = std::clamp(seconds(grown_ - begun_), kLeastRamp * all, kMostRamp * all);
  Slope slope;
  for (const Arrival& arrival : arrivals_) {
    // After the end the lines run empty, so later arrivals would lower the rate.
    const bool late = arrival.at > end && slope.points() >= kEnough;
    if (arrival.bytes > kFew && seconds(arrival.at - begun_) >= full && !late)
      slope.add(seconds(arrival.at - begun_), static_cast<double>(arrival.bytes));
  }
  if (slope.points() > 1) rate.bytes_per_second = std::min(slope.value(), kMostRate);
  return rate;
}

}  // namespace s3oram
