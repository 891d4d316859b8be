// The messages of ring, beside those that every tree has (oramcore/protocol/messages.h): hello,
// create, fits, open, room, traffic, commit, discard, release and reserve are as there. A view of
// the tree is numbered by the rewrites committed: evictions, and early reshuffles of a bucket.
// docs/formats.md describes them to the byte.
//
// Of OpenRequest, `root` holds one number, the turns that the vault knows to have been asked.
#pragma once

#include <vector>

#include "oramcore/protocol/messages.h"
#include "oramcore/schemes/ring/protocol/params.h"
#include "oramcore/schemes/ring/protocol/polynomial.h"

namespace s3oram::ring {

/// Names a version of a bucket: drawn again for each attempt at writing it; 0: there is none yet.
using VersionStamp = std::uint64_t;
VersionStamp stamp_of(const Attempt& attempt);

/// Survey: where the server stands. Needs no session. `asked`: the highest turn that has asked for
/// points, and one more. A vault whose turns end below is an old copy.
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

/// Retrieve: P(point) of one version of each bucket of a path, with the sum of tags behind it
/// (row_size bytes). The versions are those of the present view, or of the one before until that is
/// released; otherwise former_view. Sent again, it is byte for byte the same.
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
  std::vector<ByteSpan> values;  // as many as were asked for; empty: rows of that bucket are lost
  template <class A>
  void fields(A& a) {
    a(values);
  }
};

/// WriteRoot: the sealed block of `turn` into its slot of the log. `access` is the access's number;
/// a slot accepts only a strictly newer one, or the same again. Answered once durable.
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

/// ReadLog: the log's slots from `first` on, at most `count` of them; never of a range that a block
/// would choose.
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
  std::uint64_t access = 0;  // 0: nothing was written; or it is lost, and `turn` says so
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

/// FetchRows: rows `first` to `first + count` of a bucket version, each whole with its tag, or its
/// first `width` bytes without. Errors: corrupt (more rows are damaged than can be rebuilt).
struct FetchRowsRequest {
  static constexpr auto kType = MessageType::fetch_rows;
  std::uint64_t epoch = 0;
  BucketIndex bucket = 0;
  VersionStamp stamp = 0;
  std::uint16_t first = 0, count = 0;
  std::uint32_t width = 0;  // 0: all
  template <class A>
  void fields(A& a) {
    a(epoch, bucket, stamp, first, count, width);
  }
};
struct FetchRowsAnswer {
  ByteSpan rows;  // one after the other
  template <class A>
  void fields(A& a) {
    a(rows);
  }
};

/// StoreRows: rows of a new version of a bucket, for the attempt at a rewrite, from `first` on. The
/// version is there once it has all its rows; prepare makes it durable.
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

/// Prepare: the rewrite's new versions, all of which are there, are made durable beside the old
/// ones. `next_height` is the height from the commit on.
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

/// Layout: the bucket versions of the present view from bucket `from` on, with what was asked of
/// them, at most `most`.
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

/// Check: reads all rows of a bucket version from the disk; rebuilds one that is damaged.
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

/// How many rows, or slots of the log, go into one message.
std::uint16_t rows_in_message(const Params& params);
/// The most that any message of a volume takes.
std::size_t largest_message(const Params& params);

}  // namespace s3oram::ring
