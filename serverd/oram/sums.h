// Sums to which several servers contribute: the answers to retrievals, and healed shares.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "oramcore/protocol/messages.h"
#include "serverd/oram/server_state.h"

namespace s3oram {

class Sums {
 public:
  explicit Sums(ServerState& state) : state_(state) {}

  // This server's share of a sum that another server adds up.

  /// Begins to send a masked share, which may be sent only once. Returns std::nullopt if it may be
  /// sent now, and the answer to the request if not.
  std::optional<Result<Bytes>> begin(std::uint64_t request_id);
  Task<Status> send(Party to, std::uint64_t epoch, std::uint64_t request_id, Bytes masked_share);
  /// Records that the masked share has arrived, and returns the answer to the request.
  Bytes end(std::uint64_t request_id);

  // Sums that this server adds up.

  Task<Result<Bytes>> receive(Party from, Payload& request);
  /// Waits for the first masked shares for the request id from `count` of the servers `from`, other
  /// than this one, and adds them to `sum`.
  Task<Status> add_up(std::uint64_t epoch, std::uint64_t request_id, Bytes from, std::size_t count,
                      MutableByteSpan sum);
  Task<Result<Bytes>> withdraw(WithdrawRequest request, Payload&);
  /// Makes further attempts to add up this sum fail.
  void spend(std::uint64_t request_id);
  /// Notes that the sum has mended a slot.
  void mended(std::uint64_t request_id);
  bool has_mended(std::uint64_t request_id) const;

  /// Forgets all sums before `oldest`, the oldest one that the client still asks for.
  void forget_before(std::uint64_t oldest);
  void forget_all();

 private:
  struct Sum {
    std::map<Party, Payload> masked_shares;  // MaskedShareRequest
    bool withdrawn = false;
    bool mended = false;
  };

  ServerState& state_;
  std::map<std::uint64_t, Sum> sums_;  // by request id
  std::uint64_t oldest_ = 0;
  std::map<std::uint64_t, bool> sent_;  // by request id: begun here; whether it has arrived
};

}  // namespace s3oram
