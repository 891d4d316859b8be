// The messages of the protocol, except those of repair, which are in repair_messages.h.
// docs/formats.md describes them to the byte.
//
// Every request except Hello, Create, Fits, Open, Traffic, Room, Disk, Survey, Reenrol, Peer,
// Probe, Measure and Lines contains the session's epoch. In the client's requests, the tag of Rpc
// says for which opening of the session they are (OpenRequest). ByteSpan fields point into the
// received message. Tree versions are numbered by the evictions committed: version e is the tree
// before eviction e.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/codec.h"
#include "oramcore/base/random.h"
#include "oramcore/net/rpc.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/label.h"
#include "oramcore/protocol/layout.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

enum class MessageType : std::uint16_t {
  hello = 1,
  create = 2,
  open = 3,
  retrieve = 4,
  write_root = 5,
  prepare = 6,
  commit = 7,
  discard = 8,
  release = 9,
  subshare = 10,
  reserve = 11,
  damage = 12,
  read_slot = 13,
  heal_slot = 14,
  masked_share = 15,
  withdraw = 16,
  relay = 17,
  traffic = 18,
  survey = 19,
  labels = 20,
  room = 21,
  layout = 22,
  reenrol = 23,
  check = 24,
  contribute = 25,
  mend = 26,
  digests = 27,
  fits = 28,
  heads = 29,
  certify = 30,
  rejoin = 31,
  peer = 32,
  probe = 33,
  measure = 34,
  lines = 35,
  mark_prepared = 36,
  mark_buckets = 39,
  disown = 40,
  disk = 41,
  // ring's (schemes/ring/protocol/ring_messages.h)
  store_rows = 64,
  fetch_rows = 65,
  read_log = 66,
};

/// Returns how questions of a type are sent.
constexpr QuestionType question_of(MessageType type) {
  QuestionType question{.type = static_cast<std::uint16_t>(type)};
  if (type == MessageType::write_root || type == MessageType::relay ||
      type == MessageType::subshare || type == MessageType::store_rows ||
      type == MessageType::fetch_rows || type == MessageType::probe)
    question.kind = MessageKind::bulk_question;
  // People wait for this answer when they ask for the status, so its deadline does not grow with
  // the bulk data that is under way. Nor does that of the question that finds a cut line in time.
  if (type == MessageType::traffic || type == MessageType::lines) question.waits_in_line = false;
  // Measuring ends at a fixed time, even on a slow line.
  if (type == MessageType::probe || type == MessageType::measure) question.waits_in_line = false;
  return question;
}

using Nonce = std::array<std::uint8_t, 16>;
using Digest = std::array<std::uint8_t, 32>;   // BLAKE2b
using Attempt = std::array<std::uint8_t, 16>;  // 128 random bits; name one try of an eviction

/// Upper bound (exclusive) of epochs, because access numbers have the epoch in their upper bits
/// (first_access()).
constexpr std::uint64_t kMostEpoch = 1 << 23;

/// One opening of the volume by a client.
struct Session {
  std::uint64_t epoch = 0;
  Nonce nonce{};
  friend bool operator==(const Session&, const Session&) = default;
  template <class A>
  void fields(A& a) {
    a(epoch, nonce);
  }
};

struct EvictionId {
  std::uint64_t eviction = 0;
  Attempt attempt{};
  friend auto operator<=>(const EvictionId&, const EvictionId&) = default;
  template <class A>
  void fields(A& a) {
    a(eviction, attempt);
  }
};

struct VolumeDescription {
  VolumeId id{};
  VolumeParams params;
  std::uint8_t server = 0;  // the receiver's number among the servers
  template <class A>
  void fields(A& a) {
    a(id, params.scheme.threshold, params.scheme.servers, params.block_size, params.bucket_size,
      params.evict_every, params.evictor, params.stash_slots, params.privacy, params.first_height,
      server);
    if (params.is_ring()) a(params.top_levels);
  }
};

/// A question without a body.
template <MessageType type>
struct BareRequest {
  static constexpr auto kType = type;
  template <class A>
  void fields(A& a) {
    a();
  }
};

/// Hello: asks what the server holds. Needs no session.
using HelloRequest = BareRequest<MessageType::hello>;
struct HelloAnswer {
  std::uint8_t server = 0;
  std::optional<VolumeDescription> volume;
  template <class A>
  void fields(A& a) {
    a(server, volume);
  }
};

/// Peer: announces the address and key that another server of the volume has from now on,
/// "N=HOST:PORT,KEY". The server's earlier key is no longer admitted. Answered once durable.
struct PeerRequest {
  static constexpr auto kType = MessageType::peer;
  VolumeId volume{};
  ByteSpan peer;
  template <class A>
  void fields(A& a) {
    a(volume, peer);
  }
};

/// Room: asks how high a tree the server's disk has room for. Needs no session.
using RoomRequest = BareRequest<MessageType::room>;
struct RoomAnswer {
  std::uint8_t height = 0;
  template <class A>
  void fields(A& a) {
    a(height);
  }
};

/// Disk: asks whether the server's disk is so full that the server has given up the room that it
/// keeps back (Ballast). Needs no session.
using DiskRequest = BareRequest<MessageType::disk>;
struct DiskAnswer {
  bool uses_reserve = false;
  template <class A>
  void fields(A& a) {
    a(uses_reserve);
  }
};

/// Traffic: asks what the server has sent and received on its links since it was started. Needs no
/// session.
using TrafficRequest = BareRequest<MessageType::traffic>;
struct LinkTraffic {
  Party party = 0;
  std::uint64_t sent = 0, received = 0;  // bytes
  template <class A>
  void fields(A& a) {
    a(party, sent, received);
  }
};
struct TrafficAnswer {
  std::vector<LinkTraffic> links;  // one for every other party
  template <class A>
  void fields(A& a) {
    a(links);
  }
};

/// Probe: takes `padding` and returns `answer` zero bytes, so that the sender can measure a line.
/// Another server may send it too, but must ask for an empty answer. Needs no session, and changes
/// nothing.
struct ProbeRequest {
  static constexpr auto kType = MessageType::probe;
  static constexpr std::uint32_t kMost = 256 << 10;  // bytes, each way
  std::uint32_t answer = 0;
  ByteSpan padding;
  template <class A>
  void fields(A& a) {
    a(answer, padding);
  }
};
struct ProbeAnswer {
  ByteSpan padding;
  template <class A>
  void fields(A& a) {
    a(padding);
  }
};

/// Measure: the server sends probes to `servers`, all at the same time, for `milliseconds`. Reports
/// how many bytes per second arrived at them, or 0 if it cannot say. Longer times are cut to
/// kMostMilliseconds, and sending stops at kMostBytes. Needs no session. Errors: vault_in_use (the
/// server is already measuring).
struct MeasureRequest {
  static constexpr auto kType = MessageType::measure;
  static constexpr std::uint16_t kMostMilliseconds = 1000;
  static constexpr std::size_t kMostBytes = 32 << 20;
  std::uint16_t milliseconds = 0;
  Bytes servers;
  template <class A>
  void fields(A& a) {
    a(milliseconds, servers);
  }
};
struct MeasureAnswer {
  std::uint64_t bytes_per_second = 0;
  template <class A>
  void fields(A& a) {
    a(bytes_per_second);
  }
};

/// Lines: asks the server which other servers it hears. The server asks each of them the same, and
/// answers when all have answered, or after kWithin. The answer to another server is empty. Needs
/// no session, and changes nothing.
using LinesRequest = BareRequest<MessageType::lines>;
enum class Hearing : std::uint8_t {
  heard,
  silent,  // nothing has come from it since it was asked
};
struct PeerLine {
  Party peer = 0;
  Hearing is = Hearing::heard;
  friend bool operator==(const PeerLine&, const PeerLine&) = default;
  template <class A>
  void fields(A& a) {
    a(peer, is);
  }
};
struct LinesAnswer {
  static constexpr Duration kWithin = std::chrono::milliseconds(1200);
  std::vector<PeerLine> peers;
  template <class A>
  void fields(A& a) {
    a(peers);
  }
};

/// Create: makes a new volume, all zeros. Can be repeated. Refused (wrong_volume) if the server
/// holds another volume, unless that one was never opened.
struct CreateRequest {
  static constexpr auto kType = MessageType::create;
  VolumeDescription volume;
  template <class A>
  void fields(A& a) {
    a(volume);
  }
};

/// Fits: asks whether Create would succeed, without creating anything. Needs no session. Errors:
/// those of Create, and disk_full.
struct FitsRequest {
  static constexpr auto kType = MessageType::fits;
  VolumeDescription volume;
  template <class A>
  void fields(A& a) {
    a(volume);
  }
};

/// Open: raises the epoch by compare-and-set. The server's current session must be one of `known`
/// (or already `next`); otherwise the vault is stale. `root` lists the root writes that all servers
/// have acknowledged, from first_write_number(tree_version) on, each by its access (0 if that is
/// not known). A server in this tree version that holds another write counts the slot as damaged.
/// `opening` counts this client's openings of the session at this server. After a restart, a server
/// answers need_open to requests of an earlier opening, because it may lack what other servers sent
/// for them.
struct OpenRequest {
  static constexpr auto kType = MessageType::open;
  VolumeId volume{};
  std::vector<Session> known;
  Session next;
  std::uint64_t tree_version = 0;
  std::vector<std::uint64_t> root;
  std::uint16_t opening = 0;
  template <class A>
  void fields(A& a) {
    a(volume, known, next, tree_version, root, opening);
  }
};
struct OpenAnswer {
  std::uint64_t tree_version = 0;
  std::optional<EvictionId> prepared;  // durable, neither committed nor discarded
  template <class A>
  void fields(A& a) {
    a(tree_version, prepared);
  }
};

/// Retrieve (Subroutine 1): asks for the inner product of `query` with the slots of the path to
/// `leaf` in `tree_version` (PathSlots). That is the server's current version, or, until it is
/// released, the previous one; any other gives former_view. `write_number` is that of the access's
/// root write (kNoWriteNumber: none). The request holds either the query or a seed for it. The
/// answer is slot_size bytes, or empty if another server aggregates.
constexpr WriteNumber kNoWriteNumber = ~WriteNumber{0};
/// Orders the servers that answer to add up their products, so that only one block is sent down.
/// Each multiplies its product by its Lagrange coefficient at 0. All except the aggregator mask the
/// result with a seed that the client has too, and send it to the aggregator (MaskedShare).
/// `request_id` names this attempt; those before `oldest` are over.
struct SumOrder {
  std::uint64_t request_id = 0;
  std::uint64_t oldest = 0;
  Party aggregator = 0;
  std::optional<Seed> mask;
  template <class A>
  void fields(A& a) {
    a(request_id, oldest, aggregator, mask);
  }
};
struct RetrieveRequest {
  static constexpr auto kType = MessageType::retrieve;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::uint8_t height = 0;
  WriteNumber written = 0;
  WriteNumber write_number = 0;
  Leaf leaf = 0;
  ByteSpan query;
  std::optional<Seed> query_seed;
  std::optional<SumOrder> sum;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, height, written, write_number, leaf, query, query_seed, sum);
  }
};

/// A RetrieveRequest for which not all servers that could work do so (in a mirror): the sum is over
/// the products of `workers`.
struct SharedRetrieveRequest : RetrieveRequest {
  Bytes workers;
  template <class A>
  void fields(A& a) {
    RetrieveRequest::fields(a);
    a(workers);
  }
};
/// Decodes a retrieval of either kind.
template <>
inline std::optional<SharedRetrieveRequest> decode(ByteSpan bytes) {
  SharedRetrieveRequest request;
  Reader reader(bytes);
  request.fields(reader);
  if (reader.complete()) return request;
  auto plain = decode<RetrieveRequest>(bytes);
  if (!plain) return std::nullopt;
  return SharedRetrieveRequest{std::move(*plain), {}};
}

/// MaskedShare, between servers: carries the sender's weighted and masked product. Answered once
/// the aggregator has it in memory.
struct MaskedShareRequest {
  static constexpr auto kType = MessageType::masked_share;
  std::uint64_t epoch = 0;
  std::uint64_t request_id = 0;
  ByteSpan masked_share;
  template <class A>
  void fields(A& a) {
    a(epoch, request_id, masked_share);
  }
};

/// Withdraw: says that a server's masked share of this attempt will not come; a request that waits
/// for it fails.
struct WithdrawRequest {
  static constexpr auto kType = MessageType::withdraw;
  std::uint64_t epoch = 0;
  std::uint64_t request_id = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, request_id);
  }
};

/// WriteRoot (Protocol 2, step 10): writes a share into the root slot of `write_number`, for which
/// the current tree version must have a slot. `access` is the access's number: a slot accepts only
/// a newer one, or the same again. The share is given, or computed from parts (sharing/seeded.h).
/// One of the parts is not random: it is sent to only one server, which relays it to `relay_to`,
/// and that server knows its digest. Answered once durable; a server that relays also waits until
/// the part is durable there. In a mirror, the one part is the sealed block, and its number is the
/// receiver; empty parts name the servers to relay it to.
struct SharePart {
  std::uint8_t number = 0;       // 1 to 3
  std::optional<Seed> seed;      // seed of a random part
  ByteSpan content;              // the part, if it is not random
  std::optional<Digest> digest;  // digest of the part, if another server relays it
  template <class A>
  void fields(A& a) {
    a(number, seed, content, digest);
  }
};
struct WriteRootRequest {
  static constexpr auto kType = MessageType::write_root;
  std::uint64_t epoch = 0;
  WriteNumber write_number = 0;
  std::uint64_t access = 0;
  ByteSpan share;
  std::vector<SharePart> parts;
  Party relay_to = kClient;  // kClient: no server
  template <class A>
  void fields(A& a) {
    a(epoch, write_number, access, share, parts, relay_to);
  }
};

/// Relay, between servers: carries a part of the share that the receiver writes to a root slot.
/// Answered once that is durable.
struct RelayRequest {
  static constexpr auto kType = MessageType::relay;
  std::uint64_t epoch = 0;
  WriteNumber write_number = 0;
  std::uint64_t access = 0;
  ByteSpan part;
  template <class A>
  void fields(A& a) {
    a(epoch, write_number, access, part);
  }
};

/// Prepare: tells the server what to do in an eviction. Matrix (Subroutine 3): its shares of height
/// + 1 matrices, each 2Z x Z, row by row. Shuffle: ShuffleOrders, or CheckedShuffleOrders. Answered
/// once the new bucket versions are durable beside the old ones. `next_height` is the height from
/// the commit on: `height`, or one more.
struct PrepareRequest {
  static constexpr auto kType = MessageType::prepare;
  std::uint64_t epoch = 0;
  EvictionId id;
  std::uint8_t height = 0;
  std::uint8_t next_height = 0;
  ByteSpan orders;
  template <class A>
  void fields(A& a) {
    a(epoch, id, height, next_height, orders);
  }
};

/// The answer to a prepare with CheckedShuffleOrders; the answer to other prepares is empty.
struct PrepareAnswer {
  ByteSpan report;  // hop_check.h: the lists of this server's role, one after another
  template <class A>
  void fields(A& a) {
    a(report);
  }
};

/// A server's part in a shuffle (docs/protocol.md): those of the path's permutations pi_1, pi_2 and
/// pi_3 (applied in this order) that it may know, and seeds of masks that it shares with one other
/// server.
struct ShuffleOrders {
  std::optional<Seed> first;          // pi_1, as a seed: servers 1 and 2
  std::vector<std::uint16_t> second;  // pi_2, where each slot goes: servers 2 and 3
  std::optional<Seed> third;          // pi_3, as a seed: servers 3 and 1
  std::optional<Seed> mask_first;     // mask of what 1 passes on to 2: servers 1 and 3
  std::optional<Seed> mask_second;    // mask of what 2 passes on to 3: servers 2 and 1
  std::optional<Seed> line_of_1;      // server 2's share of what 1 shares again: servers 1 and 2
  std::optional<Seed> line_of_3;      // server 2's share of what 3 shares again: servers 3 and 2
  template <class A>
  void fields(A& a) {
    a(first, second, third, mask_first, mask_second, line_of_1, line_of_3);
  }
};

/// ShuffleOrders with what the client needs to check the eviction (hop_check.h). The roles rotate:
/// server `first_server` plays server 1 of ShuffleOrders, and the next one plays server 2.
struct CheckedShuffleOrders : ShuffleOrders {
  // Keys of digests: server i has all except check_i.
  std::optional<Seed> check_1 = {}, check_2 = {}, check_3 = {};
  std::optional<Seed> audit_mask = {};  // masks what 2 sends of the shares of 3: server 2
  Party first_server = 1;
  template <class A>
  void fields(A& a) {
    ShuffleOrders::fields(a);
    a(check_1, check_2, check_3, audit_mask, first_server);
  }
  bool checked() const { return check_1 || check_2 || check_3; }
};
/// Decodes a shuffle's orders of either kind; std::nullopt if they are neither.
inline std::optional<CheckedShuffleOrders> decode_shuffle_orders(ByteSpan orders) {
  if (auto checked = decode<CheckedShuffleOrders>(orders)) return checked;
  if (auto plain = decode<ShuffleOrders>(orders)) return CheckedShuffleOrders{std::move(*plain)};
  return std::nullopt;
}

/// A server's part in the evictions of a mirror (docs/protocol-mirror.md). Server workers[r - 1]
/// plays role r; the other servers receive the new rows. A worker gets its share of the selection
/// matrix, as a seed or in bits (gf::bit_product), and the key of its masks.
struct SelectionOrders {
  Bytes workers;
  std::optional<Seed> matrix_seed;
  ByteSpan matrix;
  std::optional<Seed> mask;
  template <class A>
  void fields(A& a) {
    a(workers, matrix_seed, matrix, mask);
  }
};

/// SelectionOrders of an eviction in which only the servers `takers` take part.
struct PartialSelectionOrders : SelectionOrders {
  Bytes takers;
  template <class A>
  void fields(A& a) {
    SelectionOrders::fields(a);
    a(takers);
  }
};
/// Decodes orders of either kind, with their takers among `servers`; std::nullopt if they are
/// neither.
inline std::optional<PartialSelectionOrders> decode_selection_orders(ByteSpan orders,
                                                                     unsigned servers) {
  if (auto partial = decode<PartialSelectionOrders>(orders)) return partial;
  auto plain = decode<SelectionOrders>(orders);
  if (!plain) return std::nullopt;
  PartialSelectionOrders all{std::move(*plain), {}};
  for (unsigned server = 1; server <= servers; ++server)
    all.takers.push_back(static_cast<std::uint8_t>(server));
  return all;
}

/// Certify: asks for digests of the old and the new rows of the prepared eviction, with `seed` as
/// their key (schemes/mirror/protocol/row_check.h).
enum class RowsAsked : std::uint8_t {
  digests,
  with_list,  // also the list of the digests of the old rows
  new_ones,   // only the digest of the new rows, for a server that may lack old ones
};
struct CertifyRequest {
  static constexpr auto kType = MessageType::certify;
  std::uint64_t epoch = 0;
  EvictionId id;
  Seed seed{};
  RowsAsked asked = RowsAsked::digests;
  template <class A>
  void fields(A& a) {
    a(epoch, id, seed, asked);
  }
};
struct CertifyAnswer {
  std::array<std::uint8_t, 16> sum{};  // sum over the new rows
  Bytes list;                          // 16 bytes for each old row; may be empty
  Digest list_digest{};                // digest of `list`
  template <class A>
  void fields(A& a) {
    a(sum, list, list_digest);
  }
};

/// Commit installs the prepared versions as tree version e + 1. Discard drops them, even if they
/// are installed, as long as no other attempt has begun since. Release frees the versions of tree
/// version e. All three can be repeated.
template <MessageType type>
struct EvictionRequest {
  static constexpr auto kType = type;
  std::uint64_t epoch = 0;
  EvictionId id;
  template <class A>
  void fields(A& a) {
    a(epoch, id);
  }
};
using CommitRequest = EvictionRequest<MessageType::commit>;
using DiscardRequest = EvictionRequest<MessageType::discard>;
using ReleaseRequest = EvictionRequest<MessageType::release>;

/// Subshare, between servers: carries the columns of tile `tile`. Matrix (Protocol 1, step 4): the
/// receiver's share of the sender's product of matrix step `step`, all Z slots. Shuffle: the slots
/// that the sender passes on in phase `step`.
struct SubshareRequest {
  static constexpr auto kType = MessageType::subshare;
  std::uint64_t epoch = 0;
  EvictionId id;
  std::uint16_t step = 0;
  std::uint32_t tile = 0;
  ByteSpan share;
  template <class A>
  void fields(A& a) {
    a(epoch, id, step, tile, share);
  }
};

/// Reserve: reserves room on the server's disk for a tree of `height`, which is the current height
/// or one more. Answered once no eviction of such a tree can run out of room.
struct ReserveRequest {
  static constexpr auto kType = MessageType::reserve;
  std::uint64_t epoch = 0;
  std::uint8_t height = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, height);
  }
};

/// Encodes a message, ready for Rpc.
template <class T>
Bytes encode(const T& message) {
  Writer writer(Rpc::kHeaderSize);
  const_cast<T&>(message).fields(writer);
  return writer.take();
}

}  // namespace s3oram
