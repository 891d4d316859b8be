// The network between the parties of a simulation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>

#include "oramcore/base/async.h"
#include "oramcore/net/transport.h"
#include "tests/sim/trace.h"

namespace s3oram::test {

/// Probabilities for each message. A late message, or a second copy of one, comes after up to
/// `short_delay`, or in one of four cases up to `long_delay`.
struct NetworkFaults {
  double lost = 0, doubled = 0, late = 0;
  Duration short_delay = std::chrono::milliseconds(20), long_delay = std::chrono::seconds(20);
};

class Network {
 public:
  /// `clock` measures delays; without a clock there are none.
  explicit Network(Executor executor, Clock* clock = nullptr, std::uint64_t seed = 0,
                   Trace* trace = nullptr);

  /// Called with every message that a party sends, even if it is lost.
  std::function<void(Party from, Party to, const Bytes& message)> observer;
  /// Called with every message that is about to arrive, before the receiver sees it.
  std::function<void(Party from, Party to, const Bytes& message)> on_arrival;
  /// Called with every message; returning false loses it.
  std::function<bool(Party from, Party to, const Bytes& message)> filter;
  NetworkFaults faults;

  /// Returns a port in the name of `self`, to which messages for `self` go from now on.
  std::unique_ptr<Transport> attach(Party self);
  /// From now on nothing goes to or from this port.
  void detach(Transport& port);

  /// Delivers a message as if `from` had sent it, without faults.
  void deliver(Party from, Party to, Bytes message);
  /// Makes a new connection from `self` to `to`.
  void connect(Party self, Party to);

 private:
  class Port;
  void send(Party from, Party to, Bytes message);
  void send_later(Party from, Party to, Bytes message);
  bool chance(double probability);

  Executor executor_;
  Clock* clock_;
  std::mt19937_64 random_;
  Trace* trace_;
  std::map<Party, Port*> ports_;
};

}  // namespace s3oram::test
