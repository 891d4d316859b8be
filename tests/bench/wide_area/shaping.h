// Models a link: it has a rate, and bytes are on their way for a while.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace s3oram::wide_area {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// One direction of an access line, first come, first served, shared by everything that goes over
/// it.
class Line {
 public:
  /// With a rate of 0, bytes take no time.
  explicit Line(double megabits_per_second) : bytes_per_second_(megabits_per_second * 1e6 / 8) {}

  /// Returns when the last of `bytes` that come now will have left.
  Clock::time_point pass(std::size_t bytes) {
    free_ = std::max(free_, Clock::now());
    if (bytes_per_second_ > 0)
      free_ += std::chrono::duration_cast<Clock::duration>(
          Seconds(static_cast<double>(bytes) / bytes_per_second_));
    return free_;
  }
  /// Returns when everything that has come so far will have left.
  Clock::time_point free() const { return free_; }

  /// Returns how many bytes to take at a time: about a millisecond's worth, so that connections
  /// share the line fairly.
  std::size_t piece() const {
    if (bytes_per_second_ <= 0) return kLargestPiece;
    return std::clamp(static_cast<std::size_t>(bytes_per_second_ / 1000), kPacket, kLargestPiece);
  }

  static constexpr std::size_t kLargestPiece = std::size_t{256} << 10;

 private:
  static constexpr std::size_t kPacket = 1460;
  double bytes_per_second_;
  Clock::time_point free_{};
};

enum class Kind { user, servers };

/// Measures how long anything was on its way on links of each kind.
class Occupancy {
 public:
  struct Times {
    double user = 0, servers = 0, both = 0, neither = 0;  // seconds; the four exclude each other
  };

  void enter(Kind kind) { change(kind, +1); }
  void leave(Kind kind) { change(kind, -1); }
  Times times() {
    change(Kind::user, 0);
    return times_;
  }
  bool on_way(Kind kind) const { return on_way_[static_cast<std::size_t>(kind)] > 0; }

 private:
  void change(Kind kind, int by) {
    const auto now = Clock::now();
    const double past = Seconds(now - since_).count();
    since_ = now;
    const bool user = on_way_[0] > 0;
    const bool servers = on_way_[1] > 0;
    (user && servers ? times_.both
     : user          ? times_.user
     : servers       ? times_.servers
                     : times_.neither) += past;
    on_way_[static_cast<std::size_t>(kind)] += by;
  }

  std::array<int, 2> on_way_{};
  Times times_;
  Clock::time_point since_ = Clock::now();
};

}  // namespace s3oram::wide_area
