// Signatures of the messages that servers pass on in a shuffle, so that a liar can be named.
//
// The check of a shuffle (hop_check.h) shows that someone lied, but not who: the sender of a
// message, or its receiver in what it reports. After such a failure the client makes the servers
// sign what they send. The client itself draws fresh keys for each attempt: a server gets its own
// secret key, and the public keys of the others. A receiver accepts only signed messages, and shows
// the client their hashes and signatures (receipts). The client reads all shares of the path, so it
// knows what every message had to be. A receipt of another message convicts the sender. A receipt
// of the right message, or an unsigned one, convicts the receiver, because its report says
// something else.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "oramcore/protocol/messages.h"

namespace s3oram {

/// A message that one role sends to another in each tile. `step` is that of SubshareRequest.
struct ShuffleHop {
  unsigned from, to;
  std::uint16_t step;
};
inline constexpr std::array<ShuffleHop, 5> kShuffleHops{
    {{1, 2, 0}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}, {2, 1, 3}}};

/// Orders of an attempt. If `sign` is set, the messages of the attempt are signed.
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
/// Decodes a shuffle's orders of any kind; std::nullopt if they are none.
std::optional<SignedShuffleOrders> decode_any_shuffle_orders(ByteSpan orders);

/// Returns the public key for a secret key.
Seed verifying_key(const Seed& secret);

/// Returns the hash that represents a message: it binds the content to its hop and its tile.
Digest hop_hash(const ShuffleHop& hop, std::uint32_t tile, ByteSpan content);

using HopSignature = std::array<std::uint8_t, 64>;
HopSignature sign_hop(const Seed& secret, const Digest& hash);
bool is_signed(const Seed& verifying_key, const Digest& hash, const HopSignature& signature);

/// The evidence of a message that its receiver shows the client.
struct HopReceipt {
  Digest hash{};
  HopSignature signature{};
  static constexpr std::size_t kSize = sizeof(Digest) + sizeof(HopSignature);
};
/// Concatenates receipts, ordered by hop (as in kShuffleHops) and then by tile.
Bytes pack(std::span<const HopReceipt> receipts);
/// Returns std::nullopt if `bytes` is not `count` receipts.
std::optional<std::vector<HopReceipt>> unpack_receipts(ByteSpan bytes, std::size_t count);

}  // namespace s3oram
