// The messages of ring, besides those that it shares with the other schemes
// (oramcore/protocol/messages.h): hello, create, fits, open, room, traffic, commit, discard,
// release and reserve. A tree version is numbered by the rewrites committed: evictions, and early
// reshuffles of a bucket. docs/formats.md describes the messages to the byte.
//
// In OpenRequest, `root` holds one number: how many turns have asked for something, as far as the
// vault knows.
#pragma once

#include <vector>

#include "oramcore/protocol/messages.h"
#include "oramcore/schemes/ring/protocol/polynomial.h"
#include "oramcore/schemes/ring/protocol/ring_params.h"

namespace s3oram::ring {

/// Names a version of a bucket. Drawn again for each attempt at writing it; 0 if there is none.
using VersionStamp = std::uint64_t;
VersionStamp stamp_of(const Attempt& attempt);

/// Survey: asks for the state of the server. Needs no session. `asked` is the highest turn that has
/// asked for points, plus one. A vault that knows fewer turns is an old copy.
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
  std::uint64_t rewrites = 0;
  std::uint8_t height = 0;
  Turn asked = 0;

  template <class A>
  void fields(A& a) {
    a(session, rewrites, height, asked);
  }
};

/// Retrieve: asks for P(point) of one version of each bucket on a path, followed by the sum of tags
/// (row_size bytes). The versions are those of the current tree version, or, until it is released,
/// of the previous one; otherwise former_view. If the request is sent again, the answer is the same
/// byte for byte.
struct Ask {
  BucketIndex bucket = 0;
  VersionStamp stamp = 0;
  Point point = 0;
  friend bool operator==(const Ask&, const Ask&) = default;
  template <class A>
  void fields(A& a) {
    a(bucket, stamp, point);
  }
};
struct RetrieveRequest {
  static constexpr auto kType = MessageType::retrieve;
  std::uint64_t epoch = 0;
  Turn turn = 0;
  std::vector<Ask> asks;
  template <class A>
  void fields(A& a) {
    a(epoch, turn, asks);
  }
};
struct RetrieveAnswer {
  std::vector<ByteSpan> values;  // as many as were asked for; empty if rows are lost
  template <class A>
  void fields(A& a) {
    a(values);
  }
};

/// WriteRoot: writes the sealed block of `turn` into its slot of the log. `access` is the access's
/// number; a slot accepts only a newer one, or the same again. Answered once durable.
struct WriteLogRequest {
  static constexpr auto kType = MessageType::write_root;
  std::uint64_t epoch = 0;
  Turn turn = 0;
  std::uint64_t access = 0;
  ByteSpan sealed;
  template <class A>
  void fields(A& a) {
    a(epoch, turn, access, sealed);
  }
};

/// ReadLog: asks for the log's slots from `first` on, at most `count` of them. The range never
/// depends on a block.
struct ReadLogRequest {
  static constexpr auto kType = MessageType::read_log;
  std::uint64_t epoch = 0;
  std::uint32_t first = 0, count = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, first, count);
  }
};
struct LoggedBlock {
  static constexpr Turn kLost = ~Turn{0};
  std::uint64_t access = 0;  // 0 if nothing was written, or it is lost (see `turn`)
  Turn turn = 0;
  bool is_lost() const { return access == 0 && turn == kLost; }
  ByteSpan sealed;
  template <class A>
  void fields(A& a) {
    a(access, turn, sealed);
  }
};
struct ReadLogAnswer {
  std::vector<LoggedBlock> slots;
  template <class A>
  void fields(A& a) {
    a(slots);
  }
};

/// FetchRows: asks for rows `first` to `first + count` of a bucket version, each either whole with
/// its tag, or only its first `width` bytes. Errors: corrupt (more rows are damaged than can be
/// rebuilt).
struct FetchRowsRequest {
  static constexpr auto kType = MessageType::fetch_rows;
  std::uint64_t epoch = 0;
  BucketIndex bucket = 0;
  VersionStamp stamp = 0;
  std::uint16_t first = 0, count = 0;
  std::uint32_t width = 0;  // if 0, whole rows
  template <class A>
  void fields(A& a) {
    a(epoch, bucket, stamp, first, count, width);
  }
};
struct FetchRowsAnswer {
  ByteSpan rows;  // one after another
  template <class A>
  void fields(A& a) {
    a(rows);
  }
};

/// StoreRows: stores rows of a new version of a bucket, for this attempt at a rewrite, from `first`
/// on. The version is complete once it has all its rows; prepare makes it durable.
struct StoreRowsRequest {
  static constexpr auto kType = MessageType::store_rows;
  std::uint64_t epoch = 0;
  EvictionId id;
  BucketIndex bucket = 0;
  std::uint16_t first = 0;
  ByteSpan rows;
  template <class A>
  void fields(A& a) {
    a(epoch, id, bucket, first, rows);
  }
};

/// Prepare: makes the rewrite's new versions, which must be complete, durable beside the old ones.
/// `next_height` is the height from the commit on.
struct PrepareRequest {
  static constexpr auto kType = MessageType::prepare;
  std::uint64_t epoch = 0;
  EvictionId id;
  std::uint8_t next_height = 0;
  std::vector<BucketIndex> buckets;
  template <class A>
  void fields(A& a) {
    a(epoch, id, next_height, buckets);
  }
};

/// Layout: asks for the bucket versions of the current tree version from bucket `from` on, with the
/// points that were asked for, at most `most` versions.
struct LayoutRequest {
  static constexpr auto kType = MessageType::layout;
  static constexpr std::uint32_t kMost = 4096;
  std::uint64_t epoch = 0;
  BucketIndex from = 0;
  std::uint32_t most = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, from, most);
  }
};
struct HeldVersion {
  BucketIndex bucket = 0;
  VersionStamp stamp = 0;
  AskedPoints asked;
  template <class A>
  void fields(A& a) {
    a(bucket, stamp, asked);
  }
};
struct LayoutAnswer {
  std::vector<HeldVersion> versions;
  template <class A>
  void fields(A& a) {
    a(versions);
  }
};

/// Check: reads all rows of a bucket version from the disk, and rebuilds a damaged one.
struct CheckRequest {
  static constexpr auto kType = MessageType::check;
  std::uint64_t epoch = 0;
  BucketIndex bucket = 0;
  VersionStamp stamp = 0;
  template <class A>
  void fields(A& a) {
    a(epoch, bucket, stamp);
  }
};
struct CheckAnswer {
  std::uint16_t rebuilt = 0, lost = 0;  // rows
  template <class A>
  void fields(A& a) {
    a(rebuilt, lost);
  }
};

/// Returns how many rows, or slots of the log, fit into one message.
std::uint16_t rows_in_message(const Params& params);
/// Returns the size of the largest message of a volume.
std::size_t largest_message(const Params& params);

}  // namespace s3oram::ring
