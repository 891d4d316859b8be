// Measures how many bytes per second lines carry: keeps them full for a moment, and counts the
// bytes that arrive meanwhile.
#pragma once

#include <deque>
#include <functional>

#include "oramcore/base/async.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/party.h"

namespace s3oram {

struct LineRate {
  double bytes_per_second = 0;  // of all lines together; 0: too few bytes arrived to say
  Duration round_trip{};        // time for a few bytes on the slowest line
};

/// One executor; not thread-safe.
class LineProbe {
 public:
  /// Carries `bytes` bytes over the line to `party`, in either direction. Returns true once they
  /// have arrived, or false if they will not arrive; the line is not used any more then. Returns
  /// within a bounded time.
  using Carry = std::function<Task<bool>(Party party, std::size_t bytes)>;
  struct Limits {
    Duration time{};          // how long to send, if the round trips are short
    Duration most_time{};     // how long to send at most; more than `time` is needed if round trips
                              // are long
    std::size_t bytes = 0;    // most bytes over all lines together
    std::size_t message = 0;  // most bytes in a message
  };

  LineProbe(Executor executor, Clock& clock, Carry carry)
      : executor_(std::move(executor)), clock_(clock), carry_(std::move(carry)) {}

  /// Fills the lines to all `parties` at the same time, because they may share a line. Returns when
  /// everything that was sent has arrived. Must be called only once.
  Task<LineRate> run(Bytes parties, Limits limits);

 private:
  /// Keeps as many bytes in flight as the line takes without a long queue. Finds that number by
  /// doubling, as TCP does.
  struct Line {
    Party party = 0;
    std::size_t window = 0, under_way = 0;  // bytes
    Duration round_trip = Duration::max();  // the shortest so far
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
  Duration begun_{}, grown_{};  // grown_: when a window last grew
  std::size_t sent_ = 0, under_way_ = 0;
  Event arrived_;
};

}  // namespace s3oram
