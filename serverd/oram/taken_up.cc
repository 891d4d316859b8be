// Gathers the parts of a tree version that a server takes up.
#include "serverd/oram/taken_up.h"

#include <algorithm>

namespace s3oram {

Result<bool> TakenUp::gather(const ReenrolRequest& part) {
  if (session_ != part.session || tree_version_ != part.tree_version) {
    session_ = part.session;
    tree_version_ = part.tree_version;
    buckets_.clear();
  }
  const std::uint64_t told = buckets_.size();
  const bool repeated = part.from < told && part.from + part.buckets.size() == told;
  if (!repeated) S3O_TRY(add(part));
  return part.last;
}

Status TakenUp::add(const ReenrolRequest& part) {
  const unsigned height = part.height;
  if (height < 1 || height > kMaxHeight)
    return fail(Errc::bad_request, "there is no tree of height {}", height);
  if (part.from > buckets_.size())  // earlier parts came before a restart
    return fail(Errc::need_open, "{} buckets are known, not {}", buckets_.size(), part.from);
  if (part.from < buckets_.size())
    return fail(Errc::bad_request, "{} buckets are already known", buckets_.size());
  const VolumeParams& params = part.volume.params;
  for (const BucketShape& each : part.buckets) {
    const bool in_tree = each.bucket > kRoot && each.bucket <= bucket_count(height);
    const bool in_stash =
        each.bucket >= kStashBucket && each.bucket - kStashBucket < params.stash_buckets();
    const bool ascending = buckets_.empty() || buckets_.back().bucket < each.bucket;
    const auto first = std::ranges::lower_bound(buckets_, each.first, {}, &BucketShape::bucket);
    const bool shares = each.first != each.bucket;
    if ((!in_tree && !in_stash) || !ascending || each.slots == 0 ||
        each.slots > params.bucket_size ||
        (shares && (first == buckets_.end() || first->bucket != each.first))) {
      *this = {};
      return fail(Errc::bad_request, "a tree of height {} has no such bucket {}", height,
                  each.bucket);
    }
    buckets_.push_back(each);
  }
  return {};
}

}  // namespace s3oram
