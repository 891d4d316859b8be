// Tags with which the client verifies every answer of the server, even for dummies. Row i of a
// bucket version has the tag
//
//   t_i = M·c_i + PRF(bucket, stamp, i)          16 bytes, in GF(2^8)
//
// where M is a secret linear map. So the tag of any P(x) = sum of x^i·c_i is known: the sum of the
// x^i·t_i that the server returns must be M·P(x) + sum of x^i·PRF(bucket, stamp, i). If a server
// alters a row, an answer or both, the result passes with a probability of at most 2^-112, whatever
// the server knows. The check depends neither on the point that was asked for nor on what lies
// there.
//
// M combines two random maps: one from 128-byte pieces to their 16 weighted sums, and one from each
// of those to a byte. For d other than zero, byte k of M·d has any given value with a probability
// below 2^-7, independently of the other bytes.
#pragma once

#include <array>

#include "oramcore/base/random.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/schemes/ring/client/points.h"

namespace s3oram::ring {

using Tag = std::array<std::uint8_t, 16>;

/// Thread-safe after construction.
class RowTags {
 public:
  /// For rows whose slots have `slot_size` bytes. `key` must not be used for anything else.
  RowTags(const Seed& key, std::size_t slot_size);
  ~RowTags();
  RowTags(const RowTags&) = delete;
  RowTags& operator=(const RowTags&) = delete;

  /// Returns M·slot.
  Tag map(ByteSpan slot) const;

  /// Writes the tags of a bucket version behind its rows: rows[i] has slot_size bytes, and room for
  /// the tag.
  void put(BucketIndex bucket, VersionStamp stamp, std::span<std::uint8_t* const> rows) const;

  /// Returns whether `answer`, a slot followed by the sum of tags, is P(x) of this version of
  /// `rows` rows.
  bool fits(BucketIndex bucket, VersionStamp stamp, Point x, std::size_t rows,
            ByteSpan answer) const;

  /// Returns whether each rows[i], with its tag, is row i of this version.
  bool fit(BucketIndex bucket, VersionStamp stamp, std::span<const std::uint8_t* const> rows) const;

 private:
  static constexpr std::size_t kTag = std::tuple_size_v<Tag>;
  /// Returns the PRF's part of the tags of a version's rows, one after another.
  Bytes masks(BucketIndex bucket, VersionStamp stamp, std::size_t rows) const;

  const std::size_t slot_size_;
  Seed prf_key_;
  Bytes of_pieces_;  // 16 weights for each piece of a slot
  Bytes of_bytes_;   // 128 weights for each byte of a tag
};

}  // namespace s3oram::ring
