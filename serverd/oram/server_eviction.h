// One server's part in evictions: it prepares, certifies, commits, discards and releases them, and
// reserves room for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "serverd/oram/eviction.h"
#include "serverd/oram/server_retrieval.h"
#include "serverd/oram/server_state.h"

namespace s3oram {

class ServerEviction {
 public:
  ServerEviction(ServerState& state, ServerRetrieval& retrieval)
      : state_(state), retrieval_(retrieval) {}

  Task<Result<Bytes>> reserve(ReserveRequest request, Payload&);
  /// Reserves room on the disk for a tree of this height.
  Status reserve_bucket_versions(unsigned height);
  /// Forgets what was reserved. Called when another file is opened.
  void forget_reserved() { reserved_height_ = 0; }

  Task<Result<Bytes>> prepare(PrepareRequest request, Payload& owner);
  Task<Result<Bytes>> certify(CertifyRequest request, Payload&);
  Task<Result<Bytes>> commit(CommitRequest request, Payload&);
  Task<Result<Bytes>> discard(DiscardRequest request, Payload&);
  Task<Result<Bytes>> release(ReleaseRequest request, Payload&);
  Result<Bytes> subshare(Party from, Payload& request);

  /// Ends the eviction under way, if there is one, with this error.
  void cancel(const Error& why);
  /// Forgets what peers have sent for attempts that this server does not know yet.
  void forget_early() { early_.clear(); }

 private:
  /// The new bucket versions that hold the evictor's results, and the buckets that they become.
  struct NewVersions {
    EvictionId id;
    BucketVersions versions;
    struct Write {
      BucketVersionNumber bucket_version;
      BucketIndex bucket;
      std::shared_ptr<BucketVersion> content;
      std::uint64_t stamp;
    };
    std::vector<Write> writes;
  };
  /// Returns the stamp of the slots of the `nth` bucket that an attempt writes.
  std::uint64_t stamp_of(const EvictionId& id, std::size_t nth) const;
  void add_version(NewVersions& to, BucketIndex bucket, std::shared_ptr<BucketVersion> content);
  NewVersions matrix_versions(const PrepareRequest& request, BucketBuffers buffers);
  NewVersions path_versions(const PrepareRequest& request, BucketBuffers buffers);

  Task<Status> carry_out(Eviction& eviction, const PrepareRequest& request, BucketRows writes);
  Task<Status> load_path(Eviction& eviction, const PrepareRequest& request, BucketRows writes);
  Task<Status> check_old_rows(RowChecker& checker, std::uint64_t tree_version,
                              const PathSlots& path, const std::vector<BucketIndex>& buckets);
  Task<Status> check_new_rows(RowChecker& checker, const std::vector<BucketIndex>& buckets);
  void forget_early(const EvictionId& id);
  Bytes prepared_answer(const EvictionId& id) const;
  void forget_freed();

  ServerState& state_;
  ServerRetrieval& retrieval_;
  std::atomic<unsigned> reserved_height_ = 0;  // the disk has room for a tree of this height
  std::shared_ptr<Eviction> eviction_;
  Event eviction_over_;
  std::map<Party, std::vector<std::pair<EvictionId, Payload>>> early_;  // by sender
  std::pair<EvictionId, Bytes> report_;  // Eviction::report() of the last prepared eviction
};

}  // namespace s3oram
