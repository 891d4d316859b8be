// A slow line between the client and the servers of a simulation: every connection waits in its own
// queue, and those that have something to send share the line equally.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "tests/sim/cluster.h"

namespace s3oram::test {

class SlowLine {
 public:
  /// Takes all messages of the client until it is destroyed. Rates are in bytes per second.
  SlowLine(Cluster& cluster, double up, double down)
      : cluster_(cluster), up_{up, {}, {}, false}, down_{down, {}, {}, false} {
    cluster_.network.filter = [this](Party from, Party to, const Bytes& message) {
      if (from != kClient && to != kClient) return true;
      Way& way = from == kClient ? up_ : down_;
      way.queues[{from, to, is_bulk(message)}].push_back({message, message.size()});
      if (!way.busy) carry(way);
      return false;
    };
  }
  ~SlowLine() {
    cluster_.network.filter = {};
    *alive_ = false;
  }

 private:
  using Connection = std::tuple<Party, Party, bool>;
  struct Message {
    Bytes bytes;
    std::size_t left;
  };
  struct Way {
    double rate;
    std::map<Connection, std::deque<Message>> queues;
    std::optional<Connection> last;  // carried a packet last
    bool busy;
  };
  static bool is_bulk(const Bytes& message) {
    const MessageKind kind = kind_of(message);
    return kind == MessageKind::bulk_question || kind == MessageKind::bulk_answer;
  }

  void carry(Way& way) {
    constexpr std::size_t kPacket = 1500;
    if (way.queues.empty()) return;
    auto next = way.last ? way.queues.upper_bound(*way.last) : way.queues.begin();
    if (next == way.queues.end()) next = way.queues.begin();
    const Connection connection = next->first;
    way.last = connection;
    way.busy = true;
    const std::size_t size = std::min(kPacket, next->second.front().left);
    const std::chrono::duration<double> takes(static_cast<double>(size) / way.rate);
    const auto carried = [this, &way, connection, size, alive = alive_] {
      if (!*alive) return;
      way.busy = false;
      auto& queue = way.queues.at(connection);
      queue.front().left -= size;
      if (queue.front().left == 0) {
        const auto [from, to, bulk] = connection;
        cluster_.network.deliver(from, to, std::move(queue.front().bytes));
        queue.pop_front();
        if (queue.empty()) way.queues.erase(connection);
      }
      if (!way.busy) carry(way);
    };
    cluster_.clock.call_after(std::chrono::duration_cast<Duration>(takes), carried);
  }

  Cluster& cluster_;
  Way up_, down_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace s3oram::test
