// Signatures of what servers pass on to each other in a shuffle, so that a liar can be named.
//
// The check of a shuffle (hop_check.h) shows that somebody lied, not who: the sender of a message,
// or its receiver in what it reports. After such a failure the client has servers sign what they
// send. It draws the keys itself, fresh ones for each attempt: a server gets its own secret key,
// and the public keys of the others. A receiver goes on only with messages that are signed, and
// shows the client their hashes and signatures (receipts). The client reads all shares of the path,
// and so knows what every message had to be: a receipt of something else convicts the sender, and
// one of that very message, or one that is not signed, the receiver that reports something else.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "oramcore/protocol/messages.h"

namespace s3oram {

/// A message that one role sends another in each tile. `step` is that of SubshareRequest.
struct ShuffleHop {
  unsigned from, to;
  std::uint16_t step;
};
inline constexpr std::array<ShuffleHop, 5> kShuffleHops{
    {{1, 2, 0}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}, {2, 1, 3}}};

/// Orders of an attempt whose messages are signed, if `sign` is there.
struct SignedShuffleOrders : CheckedShuffleOrders {
  std::optional<Seed> sign = {};                     // this server's secret key
  Seed verify_1 = {}, verify_2 = {}, verify_3 = {};  // the roles' public keys
  template <class A>
  void fields(A& a) {
    CheckedShuffleOrders::fields(a);
    a(sign, verify_1, verify_2, verify_3);
  }
  const Seed& verify(unsigned role) const {
    return role == 1 ? verify_1 : role == 2 ? verify_2 : verify_3;
  }
};
/// A shuffle's orders of any kind; std::nullopt if they are none.
std::optional<SignedShuffleOrders> decode_any_shuffle_orders(ByteSpan orders);

/// The public key that belongs to a secret one.
Seed verifying_key(const Seed& secret);

/// What stands for a message: binds its content to its hop and its tile.
Digest hop_hash(const ShuffleHop& hop, std::uint32_t tile, ByteSpan content);

using HopSignature = std::array<std::uint8_t, 64>;
HopSignature sign_hop(const Seed& secret, const Digest& hash);
bool is_signed(const Seed& verifying_key, const Digest& hash, const HopSignature& signature);

/// What a receiver shows of a message.
struct HopReceipt {
  Digest hash{};
  HopSignature signature{};
  static constexpr std::size_t kSize = sizeof(Digest) + sizeof(HopSignature);
};
/// One behind the other: by hop in the order of kShuffleHops, then by tile.
Bytes pack(std::span<const HopReceipt> receipts);
/// std::nullopt if these are not `count` receipts.
std::optional<std::vector<HopReceipt>> unpack_receipts(ByteSpan bytes, std::size_t count);

}  // namespace s3oram
