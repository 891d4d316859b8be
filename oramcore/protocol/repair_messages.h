// The messages by which losses are found and repaired: damaged slots, a server's whole store, the
// client's database. The rules of messages.h apply.
#pragma once

#include "oramcore/protocol/messages.h"

namespace s3oram {

/// Damage: the slots of the present tree version, `tree_version`, that the server found lost or
/// damaged while it worked on other requests. Of the root writes those before `written` count.
struct DamageRequest {
  static constexpr auto kType = MessageType::damage;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  WriteNumber written = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, written);
  }
};
struct SlotAddress {
  BucketIndex bucket = 0;
  std::uint16_t slot = 0;
  friend auto operator<=>(const SlotAddress&, const SlotAddress&) = default;
  template <class A>
  void fields(A& a) {
    a(bucket, slot);
  }
};
struct DamageAnswer {
  std::vector<SlotAddress> slots;
  template <class A>
  void fields(A& a) {
    a(slots);
  }
};

/// ReadSlot: the server's share in one slot of the present tree version; corrupt if it is damaged.
/// The answer is slot_size bytes.
struct ReadSlotRequest {
  static constexpr auto kType = MessageType::read_slot;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  SlotAddress at;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, at);
  }
};

/// HealSlot: writes the server's share into a damaged slot of the present tree version, in place.
/// For the root, `access` is as in WriteRoot. Answered once durable.
struct HealSlotRequest {
  static constexpr auto kType = MessageType::heal_slot;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  SlotAddress at;
  std::uint64_t access = 0;
  ByteSpan share;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, at, access, share);
  }
};

/// Check: the slots of a bucket of the present tree version that are lost or damaged on the
/// server's disk. Of the root writes those before `written` count. The answer is a DamageAnswer;
/// slots that it does not name were synced.
struct CheckRequest {
  static constexpr auto kType = MessageType::check;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  WriteNumber written = 0;
  BucketIndex bucket = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, written, bucket);
  }
};

/// Heads: the first `size` bytes of the slots in a bucket of the present view that are not zero,
/// which hold a label where slots are the same at all servers. The root's are as those of Labels.
struct HeadsRequest {
  static constexpr auto kType = MessageType::heads;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  BucketIndex bucket = 0;
  std::uint32_t size = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, bucket, size);
  }
};
struct SlotHead {
  std::uint16_t slot = 0;
  Bytes head;  // nothing: the slot is damaged or lost
  template <class A>
  void fields(A& a) {
    a(slot, head);
  }
};
struct HeadsAnswer {
  std::vector<SlotHead> slots;  // ascending
  template <class A>
  void fields(A& a) {
    a(slots);
  }
};

/// Digests: the digests (ShareDigest, by the seed) of the server's shares in the slots of a bucket
/// of the present tree version that are not zero. Of the root as in Labels.
struct DigestsRequest {
  static constexpr auto kType = MessageType::digests;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  BucketIndex bucket = 0;
  Seed seed{};
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, bucket, seed);
  }
};
struct SlotDigest {
  std::uint16_t slot = 0;
  Bytes digest;  // empty: the share is damaged or lost
  template <class A>
  void fields(A& a) {
    a(slot, digest);
  }
};
struct DigestsAnswer {
  std::vector<SlotDigest> slots;  // ascending
  template <class A>
  void fields(A& a) {
    a(slots);
  }
};

/// Contribute and Mend: t + 1 servers give another one its share of a slot of the present tree
/// version, and nobody learns more (docs/protocol.md). Each of `helpers` multiplies its share by
/// its Lagrange coefficient at `to`, masks it by a seed that it shares with each other helper, and
/// sends it to `to` (MaskedShare). The masks cancel in the sum. Answered once `to` has it in
/// memory, and once only: its masks are not used again. `request_id` and `oldest` are as in
/// SumOrder. Errors: corrupt (the helper's own share is damaged).
struct ContributeRequest {
  static constexpr auto kType = MessageType::contribute;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::uint64_t request_id = 0;
  std::uint64_t oldest = 0;
  SlotAddress at;
  Party to = 0;
  Bytes helpers;  // servers, the receiver among them
  std::vector<Seed> masks;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, request_id, oldest, at, to, helpers, masks);
  }
};
/// Mend: the receiver adds up the helpers' masked shares and writes the sum into the slot, in
/// place, once. For the root, `access` is as in WriteRoot. Answered once durable.
struct MendRequest {
  static constexpr auto kType = MessageType::mend;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::uint64_t request_id = 0;
  std::uint64_t oldest = 0;
  SlotAddress at;
  std::uint64_t access = 0;
  Bytes helpers;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, request_id, oldest, at, access, helpers);
  }
};

/// Layout: the buckets of the present tree version that are not empty: at most `most` of them,
/// after the first `from`. It is the same at every server.
struct LayoutRequest {
  static constexpr auto kType = MessageType::layout;
  static constexpr std::uint32_t kMost = 1 << 15;  // they fit into kLargestWithoutVolume
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::uint64_t from = 0;
  std::uint32_t most = kMost;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, from, most);
  }
};
/// The root's stash part as buckets, beside those of the tree: kStashBucket + 0, 1, ... (The root
/// itself has none: its new writes lie in the root buffer.)
constexpr BucketIndex kStashBucket = BucketIndex{1} << 40;
struct BucketShape {
  static constexpr std::size_t kMostEncoded = 27;  // bytes
  BucketIndex bucket = 0;
  BucketIndex first = 0;  // the first bucket with the same content (since the tree grew)
  std::uint16_t slots = 0;
  std::optional<std::uint64_t> stamp;  // of the attempt that wrote it, if that is known
  friend bool operator==(const BucketShape&, const BucketShape&) = default;
  template <class A>
  void fields(A& a) {
    a(bucket, first, slots, stamp);
  }
};
struct LayoutAnswer {
  std::vector<BucketShape> buckets;  // ascending
  template <class A>
  void fields(A& a) {
    a(buckets);
  }
};

/// Reenrol: a server whose store is lost takes its place in the volume again, in this session and
/// tree version. All its shares then count as damaged, to be healed. Buckets come in parts, each
/// with the number of those before it, and nothing is stored before the last part. A part can be
/// repeated. Over another volume it is refused (wrong_volume) unless that one was never opened.
struct ReenrolRequest {
  static constexpr auto kType = MessageType::reenrol;
  VolumeDescription volume;
  Session session;
  std::uint64_t tree_version = 0;
  std::uint8_t height = 0;
  std::uint64_t from = 0;
  std::vector<BucketShape> buckets;
  bool last = true;
  template <class A>
  void fields(A& a) {
    a(volume, session, tree_version, height, from, buckets, last);
  }
};

/// Rejoin: a server of a mirror that was left out for a while takes its place again, in this tree
/// version. It keeps the bucket versions that it has, by their stamps; all others count as damaged,
/// to be healed. `root` is as in OpenRequest: other root writes count as lost, also those of which
/// it says nothing. Ends everything under way there. Parts are as in Reenrol.
struct RejoinRequest : ReenrolRequest {
  static constexpr auto kType = MessageType::rejoin;
  std::vector<std::uint64_t> root;
  template <class A>
  void fields(A& a) {
    ReenrolRequest::fields(a);
    a(root);
  }
};

struct RejoinAnswer {
  std::uint64_t missing = 0;  // buckets that the server lacks
  template <class A>
  void fields(A& a) {
    a(missing);
  }
};

/// Survey: where the server stands, for a client that has lost its own state. Needs no session.
struct SurveyRequest {
  static constexpr auto kType = MessageType::survey;
  VolumeId volume{};
  template <class A>
  void fields(A& a) {
    a(volume);
  }
};
struct SurveyAnswer {
  Session session;
  std::uint64_t tree_version = 0;
  std::uint8_t height = 0;
  std::optional<EvictionId> prepared;  // durable, neither committed nor discarded
  std::vector<std::uint64_t> root;     // by root slot: the access whose write is durable; 0: none
  template <class A>
  void fields(A& a) {
    a(session, tree_version, height, prepared, root);
  }
};

/// Labels: the server's shares of the labels (label.h) of the slots in a bucket of the present tree
/// version that are not zero. Those of the root are its writes and its stash part.
struct LabelsRequest {
  static constexpr auto kType = MessageType::labels;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  BucketIndex bucket = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, bucket);
  }
};
struct LabelShare {
  std::uint16_t slot = 0;
  bool damaged = false;  // or lost: `share` is meaningless
  LabelBytes share{};
  template <class A>
  void fields(A& a) {
    a(slot, damaged, share);
  }
};
struct LabelsAnswer {
  std::vector<LabelShare> slots;  // ascending
  template <class A>
  void fields(A& a) {
    a(slots);
  }
};

}  // namespace s3oram
