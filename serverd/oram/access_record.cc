// Writes the slots that a server reads and writes into its record (--record). The record contains
// only what the server already knows, because each request says which slots it is about.
#include "serverd/oram/access_record.h"

namespace s3oram {

using Cause = AccessLog::Cause;
using Operation = AccessLog::Operation;

namespace {

/// Calls `visit` with each run of adjacent slots among the root writes that `path` covers.
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

RecordedSlots ServerRecord::slots(BucketIndex bucket, std::uint16_t slot, std::size_t count) const {
  const SlotAddress at = address_of(control_.volume()->params, bucket, slot);
  return {at.bucket, at.slot, static_cast<std::uint32_t>(count)};
}

void ServerRecord::retrieval(const RetrieveRequest& request) {
  if (!log_) return;
  const std::uint64_t number = log_->begin();
  const auto note = [&](const RecordedSlots& which) {
    log_->note(number, Cause::access, Operation::read, which);
  };
  visit_runs(
      PathSlots(control_.volume()->params, request.tree_version, request.written, request.height),
      note);
  for (const BucketIndex bucket :
       path_buckets(control_.volume()->params, request.leaf, request.height))
    if (const auto ref = control_.bucket(bucket, request.tree_version))
      note(slots(bucket, 0, ref->slots));
}

void ServerRecord::root_write(std::uint16_t slot) {
  if (!log_) return;
  log_->note(log_->begin(), Cause::root, Operation::write, slots(kRoot, slot, 1));
}

void ServerRecord::eviction(const PathSlots& path, const std::vector<BucketIndex>& buckets,
                            const std::vector<BucketVersionRef>& refs) {
  if (!log_) return;
  const std::uint64_t request = log_->begin();
  visit_runs(path, [&](const RecordedSlots& which) {
    log_->note(request, Cause::eviction, Operation::read, which);
  });
  for (std::size_t i = 0; i < buckets.size(); ++i)
    log_->note(request, Cause::eviction, Operation::read, slots(buckets[i], 0, refs[i].slots));
}

void ServerRecord::versions(const std::vector<BucketIndex>& buckets) {
  if (!log_) return;
  const std::uint64_t request = log_->begin();
  for (const BucketIndex bucket : buckets)
    log_->note(request, Cause::eviction, Operation::write,
               slots(bucket, 0, control_.volume()->params.bucket_size));
}

void ServerRecord::upkeep(Operation operation, const RecordedSlots& which) {
  if (log_) log_->note(log_->begin(), Cause::upkeep, operation, which);
}

}  // namespace s3oram
