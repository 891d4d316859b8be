// Measures how many bytes a second lines carry: keeps them full for a moment, and counts what
// arrives once they are.
#pragma once

#include <deque>
#include <functional>

#include "oramcore/base/async.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/party.h"

namespace s3oram {

struct LineRate {
  double bytes_per_second = 0;  // over all lines together; 0: too little arrived to say
  Duration round_trip{};        // of a few bytes, on the line where they take longest
};

/// One executor; not thread-safe.
class LineProbe {
 public:
  /// Carries so many bytes over the line with `party`, in either direction. Returns true once they
  /// have arrived, and false if they will not: the line is not used any more then. Returns within a
  /// bounded time.
  using Carry = std::function<Task<bool>(Party party, std::size_t bytes)>;
  struct Limits {
    Duration time{};        // nothing is sent later,
    Duration most_time{};   // or after so many round trips as filling a line takes, if that is more
    std::size_t bytes = 0;  // of all lines together
    std::size_t message = 0;  // at a time
  };

  LineProbe(Executor executor, Clock& clock, Carry carry)
      : executor_(std::move(executor)), clock_(clock), carry_(std::move(carry)) {}

  /// Fills the lines with all `parties` at once, because they may share one, and returns when all
  /// that was sent has arrived. To be called once.
  Task<LineRate> run(Bytes parties, Limits limits);

 private:
  /// As much is on its way as the line takes without a long queue: that is found by doubling, as
  /// TCP does it.
  struct Line {
    Party party = 0;
    std::size_t window = 0, under_way = 0;  // bytes
    Duration round_trip = Duration::max();  // the least so far
    bool broken = false;
  };
  struct Arrival {
    Duration at{};
    std::size_t bytes = 0;
  };

  void fill(Line& line, const Limits& limits);
  void start(Line& line, std::size_t bytes);
  Task<void> carry(Line& line, std::size_t bytes);
  Duration round_trip() const;
  Duration end(const Limits& limits) const;
  LineRate result(Duration end) const;

  Executor executor_;
  Clock& clock_;
  const Carry carry_;
  std::deque<Line> lines_;
  std::deque<Arrival> arrivals_;
  Duration begun_{}, grown_{};  // grown_: when a window grew last
  std::size_t sent_ = 0, under_way_ = 0;
  Event arrived_;
};

}  // namespace s3oram
