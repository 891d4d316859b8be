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

/// Probabilities for each message. A message that is late or comes a second time comes after up to
/// `short_delay`, now and then (one in four) `long_delay`.
struct NetworkFaults {
  double lost = 0, doubled = 0, late = 0;
  Duration short_delay = std::chrono::milliseconds(20), long_delay = std::chrono::seconds(20);
};

class Network {
 public:
  /// `clock` measures delays; without one there are none.
  explicit Network(Executor executor, Clock* clock = nullptr, std::uint64_t seed = 0,
                   Trace* trace = nullptr);

  /// Sees every message that a party sends, whatever becomes of it.
  std::function<void(Party from, Party to, const Bytes& message)> observer;
  /// Sees every message that is about to arrive, before the receiver does.
  std::function<void(Party from, Party to, const Bytes& message)> on_arrival;
  /// Sees every message; false loses it.
  std::function<bool(Party from, Party to, const Bytes& message)> filter;
  NetworkFaults faults;

  /// A port in the name of `self`, which messages for `self` go to from now on.
  std::unique_ptr<Transport> attach(Party self);
  /// Nothing goes to or from this port any more.
  void detach(Transport& port);

  /// A message, as if `from` had sent it; no fault befalls it.
  void deliver(Party from, Party to, Bytes message);
  /// A new connection to `to` comes about at `self`.
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
