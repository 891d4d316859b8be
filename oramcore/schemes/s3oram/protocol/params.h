// A volume's numbers: fixed at init, and the same at the client and every server.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "oramcore/sharing/shamir.h"

namespace s3oram {

using VolumeId = std::array<std::uint8_t, 16>;

/// How servers carry out an eviction plan.
enum class Evictor : std::uint8_t {
  matrix = 0,   // Subroutine 3 of the paper: secret-shared matrices; any t and l
  shuffle = 1,  // a hidden permutation of the whole path (docs/protocol.md); t = 1, l = 3
};

/// What shares and masks are made of.
enum class Privacy : std::uint8_t {
  information_theoretic = 0,  // all of them sent, as in the paper
  computational = 1,          // seeds are sent where they can stand for them
};

/// As people write them.
inline constexpr std::pair<std::string_view, Evictor> kEvictors[] = {{"matrix", Evictor::matrix},
                                                                     {"shuffle", Evictor::shuffle}};
inline constexpr std::pair<std::string_view, Privacy> kPrivacies[] = {
    {"computational", Privacy::computational},
    {"information-theoretic", Privacy::information_theoretic}};
template <class Names, class T>
constexpr std::string_view name_of(const Names& names, T value) {
  for (const auto& [name, each] : names)
    if (each == value) return name;
  return "unknown";
}

// What check_params() takes at most; the client and the servers rely on it.
inline constexpr std::uint32_t kLeastBlockSize = 512, kMostBlockSize = 4 << 20;
inline constexpr unsigned kMostBucketSize = 1024, kMostEvictEvery = 4096;

struct VolumeParams {
  Scheme scheme;
  std::uint32_t block_size = 0;   // payload bytes of a block
  std::uint16_t bucket_size = 0;  // Z, slots of a bucket
  std::uint16_t evict_every = 0;  // A, accesses between two evictions
  Evictor evictor = Evictor::matrix;
  std::uint16_t stash_slots = 0;  // of the root, beside those for new writes: whole buckets
  Privacy privacy = Privacy::information_theoretic;
  std::uint8_t first_height = 1;  // H of the new tree
  friend bool operator==(const VolumeParams&, const VolumeParams&) = default;

  /// Bytes of a slot: a sealed block (oramcore/schemes/s3oram/client/seal.h).
  std::uint32_t slot_size() const { return block_size + kSealOverhead; }
  static constexpr std::uint32_t kSealOverhead = 64;
  /// Beside each slot on a server's disk: its stamp and checksum.
  static constexpr std::uint32_t kStoredOverhead = 16;

  /// The root's slots: two groups of A for new writes, then the stash part.
  std::uint32_t root_buffer_slots() const { return 2u * evict_every; }
  std::uint32_t root_slots() const { return root_buffer_slots() + stash_slots; }
  unsigned stash_buckets() const { return stash_slots / bucket_size; }
};

/// Whether a volume with these numbers can exist; the message (usage) names the number.
Status check_params(const VolumeParams& params);

/// The first of the numbers that is another one than in `right`, with both, by its name in
/// vault.json; empty if none is.
std::string difference(const VolumeParams& params, const VolumeParams& right);

}  // namespace s3oram
