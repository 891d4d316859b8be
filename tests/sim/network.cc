// Passes on the messages of a simulation's parties; loses, doubles and delays some.
#include "tests/sim/network.h"

namespace s3oram::test {

class Network::Port final : public Transport {
 public:
  Port(Network& network, Party self) : network_(network), self_(self) {
    network_.ports_[self_] = this;
  }
  ~Port() override { network_.detach(*this); }
  void on_message(Handler handler) override { handler_ = std::move(handler); }
  void on_connection(std::function<void(Party)> handler) override {
    connected_ = std::move(handler);
  }
  void send(Party to, Bytes message) override {
    const auto port = network_.ports_.find(self_);
    if (port != network_.ports_.end() && port->second == this)
      network_.send(self_, to, std::move(message));
  }
  void receive(Party from, Bytes message) {
    if (handler_) handler_(from, std::move(message));
  }
  void connect(Party to) {
    if (connected_) connected_(to);
  }

 private:
  Network& network_;
  Party self_;
  Handler handler_;
  std::function<void(Party)> connected_;
};

Network::Network(Executor executor, Clock* clock, std::uint64_t seed, Trace* trace)
    : executor_(std::move(executor)), clock_(clock), random_(seed), trace_(trace) {}

std::unique_ptr<Transport> Network::attach(Party self) {
  return std::make_unique<Port>(*this, self);
}

void Network::detach(Transport& port) {
  std::erase_if(ports_, [&](const auto& entry) { return entry.second == &port; });
}

void Network::connect(Party self, Party to) { ports_.at(self)->connect(to); }

bool Network::chance(double probability) {
  return probability > 0 && static_cast<double>(random_()) < probability * 18446744073709551615.0;
}

void Network::send(Party from, Party to, Bytes message) {
  if (trace_) {
    trace_->add(std::uint64_t{from} << 8 | to);
    trace_->add(message);
  }
  if (observer) observer(from, to, message);
  if (filter && !filter(from, to, message)) return;
  if (chance(faults.lost)) return;
  if (chance(faults.doubled)) send_later(from, to, message);
  if (chance(faults.late))
    send_later(from, to, std::move(message));
  else
    deliver(from, to, std::move(message));
}

void Network::send_later(Party from, Party to, Bytes message) {
  const Duration most = random_() % 4 == 0 ? faults.long_delay : faults.short_delay;
  const Duration delay(random_() % static_cast<std::uint64_t>(most.count()) + 1);
  clock_->call_after(delay, [this, from, to, message = std::move(message)]() mutable {
    deliver(from, to, std::move(message));
  });
}

void Network::deliver(Party from, Party to, Bytes message) {
  asio::post(executor_, [this, from, to, message = std::move(message)]() mutable {
    if (on_arrival) on_arrival(from, to, message);
    if (const auto port = ports_.find(to); port != ports_.end())
      port->second->receive(from, std::move(message));
  });
}

}  // namespace s3oram::test
