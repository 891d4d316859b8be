// The messages with which losses are found and repaired: damaged slots, a server's whole store, the
// client's database. The rules of messages.h apply.
#pragma once

#include "oramcore/protocol/messages.h"
#include "oramcore/sharing/share_mark.h"

namespace s3oram {

/// Damage: asks for the slots of the current tree version, `tree_version`, that the server found
/// lost or damaged while it worked on other requests. Of the root writes, only those before
/// `written` count.
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
  /// A server adds no further bucket to an answer with so many slots.
  static constexpr std::size_t kMost = 1 << 15;
  /// Returns the most slots in an answer: it can hold those of the root, and two more buckets.
  static constexpr std::size_t most(std::size_t root_slots, std::size_t bucket_size) {
    return kMost + root_slots + 2 * bucket_size;
  }
  std::vector<SlotAddress> slots;
  template <class A>
  void fields(A& a) {
    a(slots);
  }
};

/// ReadSlot: asks for the server's share in one slot of the current tree version. The answer is
/// slot_size bytes. Errors: corrupt (the share is damaged).
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

/// HealSlot: writes the server's share into a damaged slot of the current tree version, in place.
/// For the root, `access` has the same meaning as in WriteRoot. Answered once durable.
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

/// Check: asks for the slots in a bucket of the current tree version that are lost or damaged on
/// the server's disk. Of the root writes, only those before `written` count. The answer is a
/// DamageAnswer; slots that it does not list are synced.
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

/// Heads: asks for the first `size` bytes of the nonzero slots in a bucket of the current tree
/// version. In schemes whose slots are the same at all servers, these bytes hold a label. The
/// root's slots are those of Labels.
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
  Bytes head;  // empty if the slot is damaged or lost
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

/// Digests: asks for the digests (ShareDigest, with the seed as its key) of the server's shares in
/// the nonzero slots in a bucket of the current tree version. The root's slots are those of Labels.
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
  Bytes digest;  // empty if the share is damaged or lost
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

/// MarkPrepared: asks for the marks (share_mark.h) of the server's shares in the buckets that the
/// prepared eviction has written, under `key`, in the order of path_buckets().
struct MarkPreparedRequest {
  static constexpr auto kType = MessageType::mark_prepared;
  std::uint64_t epoch = 0;
  EvictionId id;
  Seed key{};
  template <class A>
  void fields(A& a) {
    a(epoch, id, key);
  }
};
struct MarksAnswer {
  std::vector<Mark> marks;
  template <class A>
  void fields(A& a) {
    a(marks);
  }
};
/// MarkBuckets: asks for the marks of the server's shares in 1 to kMost buckets of the current tree
/// version, each under its own key, as the shares are on the server's disk now. A bucket may be a
/// part of the stash (kStashBucket).
struct MarkBucketsRequest {
  static constexpr auto kType = MessageType::mark_buckets;
  static constexpr std::size_t kMost = 64;
  struct Bucket {
    BucketIndex bucket = 0;
    Seed key{};
    template <class A>
    void fields(A& a) {
      a(bucket, key);
    }
  };
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::vector<Bucket> buckets;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, buckets);
  }
};
struct BucketMarksAnswer {
  std::vector<std::optional<Mark>> marks;  // std::nullopt: a share of the bucket is damaged or lost
  template <class A>
  void fields(A& a) {
    a(marks);
  }
};
/// Disown: from now on the server counts its shares in these slots of a bucket of the current tree
/// version as damaged, because others have sent them in a repair, and they could not be proven.
/// `bucket` may be a part of the stash (kStashBucket). Answered once durable.
struct DisownRequest {
  static constexpr auto kType = MessageType::disown;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  BucketIndex bucket = 0;
  std::vector<std::uint16_t> slots;  // 1 to a bucket's slots
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, bucket, slots);
  }
};

/// Contribute and Mend: t + 1 servers give another one its share of a slot of the current tree
/// version, and no server learns anything else (docs/protocol.md). Each of `helpers` multiplies its
/// share by its Lagrange coefficient at `to`, masks the product with the seeds that it shares with
/// each other helper, and sends it to `to` (MaskedShare). The masks cancel out in the sum. Answered
/// once `to` has it in memory, and only once, so that its masks are not used again. `request_id`
/// and `oldest` have the same meaning as in SumOrder. Errors: corrupt (the helper's own share is
/// damaged).
struct ContributeRequest {
  static constexpr auto kType = MessageType::contribute;
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::uint64_t request_id = 0;
  std::uint64_t oldest = 0;
  SlotAddress at;
  Party to = 0;
  Bytes helpers;  // servers, including the receiver
  std::vector<Seed> masks;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, request_id, oldest, at, to, helpers, masks);
  }
};
/// Mend: the receiver adds up the helpers' masked shares and writes the sum into the slot, in
/// place, once. For the root, `access` has the same meaning as in WriteRoot. Answered once durable.
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

/// Layout: asks for the buckets of the current tree version that are not empty: at most `most` of
/// them, after the first `from`. The list is the same at every server.
struct LayoutRequest {
  static constexpr auto kType = MessageType::layout;
  static constexpr std::uint32_t kMost = 1 << 15;  // fits into kLargestWithoutVolume
  std::uint64_t epoch = 0;
  std::uint64_t tree_version = 0;
  std::uint64_t from = 0;
  std::uint32_t most = kMost;
  template <class A>
  void fields(A& a) {
    a(epoch, tree_version, from, most);
  }
};
struct BucketShape {
  static constexpr std::size_t kMostEncoded = 27;  // bytes
  BucketIndex bucket = 0;
  BucketIndex first = 0;  // the first bucket with the same content (since the tree grew)
  std::uint16_t slots = 0;
  std::optional<std::uint64_t> stamp;  // stamp of the attempt that wrote it, if known
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
/// tree version. All its shares then count as damaged, and are healed later. Buckets come in parts,
/// each with the number of those before it; nothing is stored before the last part. A part can be
/// repeated. Refused (wrong_volume) if the server holds another volume, unless that one was never
/// opened.
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
/// version. It keeps the bucket versions that it has, recognised by their stamps; all others count
/// as damaged, and are healed later. `root` has the same meaning as in OpenRequest: all other root
/// writes count as lost, including those about which it says nothing. Ends everything under way at
/// the server. Parts are sent as in Reenrol.
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

/// Survey: asks for the state of the server, for a client that has lost its own state. Needs no
/// session.
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
  std::vector<std::uint64_t> root;     // by root slot: the access whose write is durable; 0 if none
  template <class A>
  void fields(A& a) {
    a(session, tree_version, height, prepared, root);
  }
};

/// Labels: asks for the server's shares of the labels (label.h) in the nonzero slots in a bucket of
/// the current tree version. The root's slots are its writes and its stash part.
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
  bool damaged = false;  // or lost; `share` is then meaningless
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
