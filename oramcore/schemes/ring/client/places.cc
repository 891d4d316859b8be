// Keeps ring's positions of blocks.
#include "oramcore/schemes/ring/client/places.h"

#include <algorithm>

namespace s3oram::ring {

void Places::set(BlockId block, const Place& place) {
  if (block >= places_.size()) places_.resize(block + 1);
  Place& present = places_[block];
  if (present.kind == Place::Kind::tree) {
    auto& bucket = buckets_[present.bucket()];
    std::erase(bucket, block);
    if (bucket.empty()) buckets_.erase(present.bucket());
  }
  if (present.kind == Place::Kind::top) top_.erase(present.turn);
  mapped_ += (place.kind != Place::Kind::unmapped) - (present.kind != Place::Kind::unmapped);
  present = place;
  if (place.kind == Place::Kind::tree) buckets_[place.bucket()].push_back(block);
  if (place.kind == Place::Kind::top) top_[place.turn] = block;
}

std::vector<BlockId> Places::in_bucket(BucketIndex bucket) const {
  const auto found = buckets_.find(bucket);
  return found == buckets_.end() ? std::vector<BlockId>() : found->second;
}

Candidate Places::candidate(BlockId block) const {
  const Place& place = places_[block];
  return {block, place.version, place.leaf};
}

std::vector<BlockId> Places::blocks() const {
  std::vector<BlockId> blocks;
  for (BlockId block = 0; block < places_.size(); ++block)
    if (places_[block].kind != Place::Kind::unmapped) blocks.push_back(block);
  return blocks;
}

}  // namespace s3oram::ring
