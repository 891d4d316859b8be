// Tags by which the client verifies every answer of the server, of dummies too. Row i of a bucket
// version carries
//
//   t_i = M·c_i + PRF(bucket, stamp, i)          16 bytes, in GF(2^8)
//
// where M is a secret linear map. So the tag of any P(x) = sum of x^i·c_i is known: the sum of the
// x^i·t_i that the server returns must be M·P(x) + sum of x^i·PRF(bucket, stamp, i). A server that
// alters a row, an answer or both, by whatever it knows, passes with a probability of at most
// 2^-112: it does not depend on which point was asked for, nor on what lies there.
//
// M is made of two random maps, of 128-byte pieces to their 16 weighted sums, and of each of those
// to a byte. Byte k of M·d, for d that is not zero, has any given value with a probability below
// 2^-7, independently of the others.
#pragma once

#include <array>

#include "oramcore/base/random.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/schemes/ring/client/points.h"

namespace s3oram::ring {

using Tag = std::array<std::uint8_t, 16>;

/// Thread-safe once made.
class RowTags {
 public:
  /// For rows whose slots have `slot_size` bytes. `key` is used for nothing else.
  RowTags(const Seed& key, std::size_t slot_size);
  ~RowTags();
  RowTags(const RowTags&) = delete;
  RowTags& operator=(const RowTags&) = delete;

  /// M·slot.
  Tag map(ByteSpan slot) const;

  /// Writes the tags of a bucket version behind its rows: rows[i] has slot_size bytes, and room for
  /// the tag.
  void put(BucketIndex bucket, VersionStamp stamp, std::span<std::uint8_t* const> rows) const;

  /// Whether `answer`, a slot and the sum of tags behind it, is P(x) of this version of `rows`
  /// rows.
  bool fits(BucketIndex bucket, VersionStamp stamp, Point x, std::size_t rows,
            ByteSpan answer) const;

  /// Whether rows[i], with its tag, is row i of this version, for all of its rows.
  bool fit(BucketIndex bucket, VersionStamp stamp, std::span<const std::uint8_t* const> rows) const;

 private:
  static constexpr std::size_t kTag = std::tuple_size_v<Tag>;
  /// The PRF's tags of a version's rows, one after the other.
  Bytes masks(BucketIndex bucket, VersionStamp stamp, std::size_t rows) const;

  const std::size_t slot_size_;
  Seed prf_key_;
  Bytes of_pieces_;  // 16 weights for each piece of a slot
  Bytes of_bytes_;   // 128 weights for each byte of a tag
};

}  // namespace s3oram::ring
