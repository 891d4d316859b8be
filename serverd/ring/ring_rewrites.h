// Bucket versions at a ring's server: fetching their rows, storing new versions, and the rules of
// prepare, commit, discard and release (docs/durability.md).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "serverd/ring/ring_record.h"
#include "serverd/ring/ring_store.h"

namespace s3oram::ring {

/// Used on one executor; not thread-safe. Each request belongs to the open session, and the store
/// is open.
class RingRewrites {
 public:
  RingRewrites(ServerState& state, RingStore& store, RingRecord& record)
      : state_(state), store_(store), record_(record) {}

  Task<Result<Bytes>> fetch_rows(FetchRowsRequest request);
  Task<Result<Bytes>> check(CheckRequest request);
  Task<Result<Bytes>> store_rows(StoreRowsRequest request);
  Task<Result<Bytes>> prepare(PrepareRequest request);
  Task<Result<Bytes>> commit(CommitRequest request);
  Task<Result<Bytes>> discard(DiscardRequest request);
  Task<Result<Bytes>> release(ReleaseRequest request);
  Task<Result<Bytes>> reserve(ReserveRequest request);

  /// Drops what was stored for attempts that are not prepared. Called when another session begins.
  void drop_all();
  /// Called when the store is reopened, and its version numbers with it.
  void forget() { stored_.clear(); }

 private:
  /// A new version of a bucket while its rows arrive. Once all rows have arrived and are written,
  /// `content` is gone.
  struct NewVersion {
    BucketVersionNumber number = 0;
    std::shared_ptr<BucketVersion> content;
    std::vector<bool> has;
    std::size_t missing = 0;
    bool written = false;
  };
  /// The rows stored for an attempt that is not prepared yet.
  struct Stored {
    std::uint64_t begun = 0;  // what GroupSync::begin() returned before the first write
    std::map<BucketIndex, NewVersion> versions;
  };
  Result<NewVersion*> new_version(const EvictionId& id, BucketIndex bucket);
  void drop(const EvictionId& id);
  void drop_committed();
  bool is_discarded(const EvictionId& id) const;
  std::size_t incomplete() const;

  // Bounds the attempts and unfinished versions that a client has under way, because each takes
  // memory.
  static constexpr std::size_t kMostAttempts = 4, kMostIncomplete = 8;
  /// The number of discarded attempts that are remembered, so that their late rows are refused.
  static constexpr std::size_t kDiscarded = 64;

  ServerState& state_;
  RingStore& store_;
  RingRecord& record_;
  std::map<EvictionId, Stored> stored_;
  std::deque<EvictionId> discarded_;  // the latest ones
};

}  // namespace s3oram::ring
