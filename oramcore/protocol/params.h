// A volume's numbers: fixed at init, and equal at the client and all servers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "oramcore/sharing/shamir.h"

namespace s3oram {

using VolumeId = std::array<std::uint8_t, 16>;

/// The ways in which servers can carry out an eviction plan.
enum class Evictor : std::uint8_t {
  matrix = 0,   // Subroutine 3 of the paper: secret-shared matrices; any t and l
  shuffle = 1,  // a hidden permutation of the whole path (docs/protocol.md); t = 1, l = 3
  // Scheme mirror: private selection from replicas (docs/protocol-mirror.md); l >= t + 1.
  selection = 2,
  // Scheme ring: the client itself rewrites the path's buckets, as polynomials
  // (schemes/ring/protocol/ring_params.h); t = 0, l = 1.
  polynomial = 3,
};

/// The ways to make shares and masks.
enum class Privacy : std::uint8_t {
  information_theoretic = 0,  // all are sent in full, as in the paper
  computational = 1,          // a seed is sent wherever it can replace them
};

/// The degrees of trust in the servers; up to t of them may be curious in either case.
enum class Security : std::uint8_t {
  honest_but_curious = 0,  // they follow the protocol
  malicious = 1,           // t of them may do anything, and the client checks what they do
};

// The names of the values in text.
inline constexpr std::pair<std::string_view, Security> kSecurities[] = {
    {"honest-but-curious", Security::honest_but_curious}, {"malicious", Security::malicious}};
inline constexpr std::pair<std::string_view, Evictor> kEvictors[] = {
    {"matrix", Evictor::matrix},
    {"shuffle", Evictor::shuffle},
    {"selection", Evictor::selection},
    {"polynomial", Evictor::polynomial}};
/// The evictors that s3oram can choose between.
inline constexpr std::pair<std::string_view, Evictor> kS3oramEvictors[] = {
    {"matrix", Evictor::matrix}, {"shuffle", Evictor::shuffle}};
inline constexpr std::pair<std::string_view, Privacy> kPrivacies[] = {
    {"computational", Privacy::computational},
    {"information-theoretic", Privacy::information_theoretic}};
template <class Names, class T>
constexpr std::string_view name_of(const Names& names, T value) {
  for (const auto& [name, each] : names)
    if (each == value) return name;
  return "unknown";
}

/// Decides what a server's slot holds: a share of a block (s3oram), a sealed block, the same at all
/// servers (mirror), or a row of a bucket's polynomial (ring).
enum class SchemeKind : std::uint8_t { s3oram, mirror, ring };
inline constexpr std::pair<std::string_view, SchemeKind> kSchemes[] = {
    {"s3oram", SchemeKind::s3oram}, {"mirror", SchemeKind::mirror}, {"ring", SchemeKind::ring}};

// Limits that check_params() enforces; the client and the servers rely on them.
inline constexpr std::uint32_t kLeastBlockSize = 512, kMostBlockSize = 4 << 20;
inline constexpr unsigned kMostBucketSize = 1024, kMostEvictEvery = 4096;
// Limits of ring.
inline constexpr std::uint32_t kMostRingBlockSize = 1 << 20;
inline constexpr unsigned kMostRows = 128, kMostTopLevels = 16, kMostLogSlots = 1 << 20;
inline constexpr unsigned kMostMirrors = 6, kMostSelectionSlots = 4096;

struct VolumeParams {
  Scheme scheme;
  std::uint32_t block_size = 0;   // payload bytes of a block
  std::uint16_t bucket_size = 0;  // Z, slots of a bucket
  std::uint16_t evict_every = 0;  // A, accesses between two evictions
  Evictor evictor = Evictor::matrix;
  std::uint16_t stash_slots = 0;  // whole buckets in the root, beside the root buffer
  Privacy privacy = Privacy::information_theoretic;
  std::uint8_t first_height = 1;  // H of the new tree
  std::uint8_t top_levels = 0;    // k, levels of the tree kept by the client (ring)
  // Only in vault.json: no server is told, and the user can change it.
  Security security = Security::honest_but_curious;
  friend bool operator==(const VolumeParams&, const VolumeParams&) = default;

  SchemeKind kind() const {
    switch (evictor) {
      case Evictor::selection:
        return SchemeKind::mirror;
      case Evictor::polynomial:
        return SchemeKind::ring;
      default:
        return SchemeKind::s3oram;
    }
  }
  bool is_mirror() const { return kind() == SchemeKind::mirror; }
  bool is_ring() const { return kind() == SchemeKind::ring; }
  /// Returns how far servers are trusted. Only s3oram has the choice: the clients of the other
  /// schemes check every server in any case.
  Security assumed() const { return kind() == SchemeKind::s3oram ? security : Security::malicious; }

  /// Returns the bytes of a slot: a sealed block (schemes/s3oram/seal.h, or
  /// oramcore/oram/opaque_sealer.h), in a mirror preceded by the list of its layers
  /// (schemes/mirror/protocol/layers.h).
  std::uint32_t slot_size() const { return block_size + slot_overhead(); }
  std::uint32_t slot_overhead() const {
    return is_mirror() ? kMirrorOverhead : is_ring() ? kOpaqueOverhead : kSealOverhead;
  }
  static constexpr std::uint32_t kSealOverhead = 64, kOpaqueOverhead = 80;
  static constexpr unsigned kMirrorLayers = 64;
  static constexpr std::uint32_t kMirrorOverhead = kOpaqueOverhead + 16 * kMirrorLayers;

  /// Returns how many servers answer a retrieval together, and carry out an eviction.
  unsigned workers() const {
    return is_mirror() ? scheme.threshold + 1u : static_cast<unsigned>(scheme.quorum());
  }
  /// Returns how many servers' contents of a slot determine the slot and the content of any other
  /// server.
  unsigned enough() const { return is_mirror() ? 1 : scheme.threshold + 1u; }
  /// After this many root writes the client itself reads a block and writes it back (never if 0),
  /// so that no block collects more layers than its header has room for.
  static constexpr unsigned kMaintainEvery = 32;
  unsigned maintain_every() const { return is_mirror() ? kMaintainEvery : 0; }
  /// Returns the second argument of capacity(): a tree of height H holds this number · 2^(H-1)
  /// blocks. This is A. In ring it is 2Z if that is less, which only --allow-overflow permits: with
  /// more than Z blocks for each leaf, the tree would have no room for many of them. They would
  /// stay in the top, and no turn would be left but those that log them again.
  unsigned filling() const {
    return is_ring() ? std::min<unsigned>(evict_every, 2u * bucket_size) : evict_every;
  }
  /// Bytes beside each slot on a server's disk: its stamp and checksum.
  static constexpr std::uint32_t kStoredOverhead = 16;

  /// The parts of a server's store: bytes of a slot, slots of a bucket version, and slots for the
  /// newest writes. In ring, a slot also has a tag, and a bucket version has one more row, the sum
  /// of the others.
  std::uint32_t stored_slot() const { return slot_size() + (is_ring() ? kRowTag : 0); }
  std::uint32_t slots_of_bucket_version() const { return bucket_size + (is_ring() ? 1u : 0u); }
  std::uint32_t newest_slots() const { return is_ring() ? log_slots() : root_buffer_slots(); }
  static constexpr std::uint32_t kRowTag = 16;
  /// Returns R, the number of slots in ring's log.
  std::uint32_t log_slots() const { return 4u * evict_every << top_levels; }

  /// The root's slots: two groups of A for new writes, then the stash part.
  std::uint32_t root_buffer_slots() const { return 2u * evict_every; }
  std::uint32_t root_slots() const { return root_buffer_slots() + stash_slots; }
  unsigned stash_buckets() const { return stash_slots / bucket_size; }
};

/// Checks that a volume with these numbers can exist. Errors: usage (names the number).
Status check_params(const VolumeParams& params);

/// Returns the name (as in vault.json) of the first number fixed at init that differs from `right`,
/// with both values; empty if all are equal.
std::string difference(const VolumeParams& params, const VolumeParams& right);

}  // namespace s3oram
