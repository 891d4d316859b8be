// What a server writes into its record (--record) of the slots that it reads and writes. All of it
// is what the server knows anyway: which slots a request is about stands in the request.
#include "serverd/s3oram/server.h"

namespace s3oram {

using Cause = AccessLog::Cause;
using Operation = AccessLog::Operation;

namespace {

/// Calls `visit` with each run of neighbouring slots among the root's writes that `path` covers.
template <class Visit>
void visit_runs(const PathSlots& path, Visit visit) {
  for (std::size_t i = 0; i < path.writes();) {
    const std::uint16_t first = path.root_buffer_slot(i);
    std::uint32_t slots = 1;
    while (++i < path.writes() && path.root_buffer_slot(i) == first + slots) ++slots;
    visit(RecordedSlots{kRoot, first, slots});
  }
}

}  // namespace

RecordedSlots Server::recorded(BucketIndex bucket, std::uint16_t slot, std::size_t slots) const {
  const SlotAddress at = address_of(bucket, slot);
  return {at.bucket, at.slot, static_cast<std::uint32_t>(slots)};
}

void Server::record_retrieval(const RetrieveRequest& request) {
  if (!record_) return;
  const std::uint64_t number = record_->begin();
  const auto note = [&](const RecordedSlots& slots) {
    record_->note(number, Cause::access, Operation::read, slots);
  };
  visit_runs(PathSlots(params(), request.tree_version, request.written, request.height), note);
  for (const BucketIndex bucket : path_buckets(params(), request.leaf, request.height))
    if (const auto ref = control_.bucket(bucket, request.tree_version))
      note(recorded(bucket, 0, ref->slots));
}

void Server::record_root_write(std::uint16_t slot) {
  if (!record_) return;
  record_->note(record_->begin(), Cause::root, Operation::write, recorded(kRoot, slot, 1));
}

void Server::record_eviction(const PathSlots& path, const std::vector<BucketIndex>& buckets,
                             const std::vector<BucketVersionRef>& refs) {
  if (!record_) return;
  const std::uint64_t request = record_->begin();
  visit_runs(path, [&](const RecordedSlots& slots) {
    record_->note(request, Cause::eviction, Operation::read, slots);
  });
  for (std::size_t i = 0; i < buckets.size(); ++i)
    record_->note(request, Cause::eviction, Operation::read,
                  recorded(buckets[i], 0, refs[i].slots));
}

void Server::record_versions(const NewVersions& made) {
  if (!record_) return;
  const std::uint64_t request = record_->begin();
  for (const NewVersions::Write& write : made.writes)
    record_->note(request, Cause::eviction, Operation::write,
                  recorded(write.bucket, 0, params().bucket_size));
}

void Server::record_upkeep(Operation operation, const RecordedSlots& slots) {
  if (record_) record_->note(record_->begin(), Cause::upkeep, operation, slots);
}

}  // namespace s3oram
