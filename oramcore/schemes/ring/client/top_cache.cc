// The file of the tree's top, and the set of its slots that are in use.
#include "oramcore/schemes/ring/client/top_cache.h"

#include "oramcore/base/rules.h"

namespace s3oram::ring {

void TopCache::use(CacheSlot slot) {
  while (used_.size() <= slot) {
    free_.insert(static_cast<CacheSlot>(used_.size()));
    used_.push_back(false);
  }
  used_[slot] = true;
  free_.erase(slot);
}

CacheSlot TopCache::take() {
  if (!rule_holds(Rule::cache_after_commit) && !given_back_.empty())
    return given_back_.extract(given_back_.begin()).value();
  const CacheSlot slot = free_.empty() ? static_cast<CacheSlot>(used_.size()) : *free_.begin();
  use(slot);
  return slot;
}

void TopCache::give_back(CacheSlot slot) {
  if (holders_.contains(slot))
    left_.insert(slot);
  else
    given_back_.insert(slot);
}

void TopCache::let_go(CacheSlot slot) {
  if (--holders_[slot] > 0) return;
  holders_.erase(slot);
  if (left_.erase(slot) > 0) given_back_.insert(slot);
}

void TopCache::committed(std::set<CacheSlot> freed) {
  std::erase_if(freed, [this](CacheSlot slot) { return bad_.contains(slot); });
  for (const CacheSlot slot : freed) used_[slot] = false;
  free_.merge(freed);
}

Result<bool> TopCache::has_all_in_use() {
  S3O_ASSIGN(const std::uint64_t size, file_->size());
  return size >= used_.size() * std::uint64_t{slot_size_};
}

CacheSlot TopCache::any(Random& random) const {
  return used_.empty() ? 0 : static_cast<CacheSlot>(random.u64() % used_.size());
}

Result<Bytes> TopCache::read(CacheSlot slot) {
  Bytes sealed(slot_size_);
  S3O_TRY(file_->read(slot * std::uint64_t{slot_size_}, sealed));
  return sealed;
}

Status TopCache::write(CacheSlot slot, ByteSpan sealed) {
  return file_->write(slot * std::uint64_t{slot_size_}, sealed);
}

}  // namespace s3oram::ring
