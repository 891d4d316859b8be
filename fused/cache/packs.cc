// Fills packs, reads pieces of them, and frees packs that nothing uses.
#include "fused/cache/packs.h"

#include <algorithm>

namespace s3oram {
namespace {

constexpr std::size_t kFewPacks = 16;  // with fewer packs, sparse() returns none
constexpr std::uint64_t kSearchesBetween = 100;

}  // namespace

Packs::Packs(BlockDevice& device, Owner owner, std::size_t cached)
    : device_(device),
      owner_(std::move(owner)),
      block_size_(device.block_size()),
      most_cached_(cached) {}

// ---- writing -----------------------------------------------------------------------------------

BlockId Packs::put(ByteSpan piece, Written written) {
  if (open_ && open_->content.size() + piece.size() > block_size_) close();
  if (!open_) {
    open_ = std::make_shared<Pack>();
    open_->block = owner_.take();
    packing_.emplace(open_->block, open_);
  }
  const BlockId place =
      packed_place(open_->block, static_cast<std::uint32_t>(open_->content.size()));
  open_->content.insert(open_->content.end(), piece.begin(), piece.end());
  open_->waiting.push_back(std::move(written));
  add(place, piece.size());
  return place;
}

/// Writes the full open pack immediately; nothing more is added to it.
void Packs::close() {
  const auto pack = std::exchange(open_, nullptr);
  write(pack);
  free_if_unused(pack->block);
}

void Packs::start() {
  if (open_) write(open_);
}

void Packs::write(const std::shared_ptr<Pack>& pack) {
  if (pack->writing || pack->waiting.empty()) return;
  pack->writing = true;
  ++writing_;
  Bytes content = pack->content;
  content.resize(block_size_);
  auto waiting = std::exchange(pack->waiting, {});
  device_.write(pack->block, std::move(content), [this, pack, waiting](Status outcome) {
    owner_.with_lock([&] {
      pack->writing = false;
      --writing_;
      for (const Written& written : waiting) written(outcome);
      write(pack);
      free_if_unused(pack->block);
    });
  });
}

// ---- reading -----------------------------------------------------------------------------------

Bytes Packs::piece_of(const Bytes& content, BlockId place, std::size_t bytes) {
  const std::size_t from = std::min<std::size_t>(offset_of(place), content.size());
  const std::size_t to = std::min(from + bytes, content.size());
  return {content.begin() + static_cast<std::ptrdiff_t>(from),
          content.begin() + static_cast<std::ptrdiff_t>(to)};
}

std::optional<Bytes> Packs::find(BlockId place, std::size_t bytes) {
  const BlockId block = block_of(place);
  if (const auto pack = packing_.find(block); pack != packing_.end())
    return piece_of(pack->second->content, place, bytes);
  for (auto at = cache_.begin(); at != cache_.end(); ++at) {
    if (at->first != block) continue;
    cache_.splice(cache_.begin(), cache_, at);
    return piece_of(at->second, place, bytes);
  }
  return std::nullopt;
}

void Packs::read(BlockId place, std::size_t bytes, Read read) {
  const BlockId block = block_of(place);
  auto& reading = reading_[block];
  const bool begun = reading != nullptr;
  if (!begun) reading = std::make_shared<Reading>();
  reading->readers.push_back([place, bytes, read = std::move(read)](const Result<Bytes>& content) {
    if (content)
      read(piece_of(*content, place, bytes));
    else
      read(fail(content.error()));
  });
  if (begun) return;
  device_.read(block, [this, block, reading](Result<Bytes> content) {
    owner_.with_lock([&] {
      // The pack may have been freed meanwhile, and its block may hold another one.
      const auto present = reading_.find(block);
      const bool is_present = present != reading_.end() && present->second == reading;
      if (is_present) reading_.erase(present);
      for (const auto& reader : reading->readers) reader(content);
      if (content && is_present && uses_.contains(block)) remember(block, std::move(*content));
    });
  });
}

void Packs::remember(BlockId block, Bytes content) {
  cache_.emplace_front(block, std::move(content));
  if (cache_.size() > most_cached_) cache_.pop_back();
}

std::size_t Packs::bytes_in_memory() const {
  return (packing_.size() + cache_.size()) * block_size_;
}

// ---- what is in use ----------------------------------------------------------------------------

void Packs::add(BlockId place, std::size_t bytes) {
  Uses& uses = uses_[block_of(place)];
  ++uses.pieces;
  uses.bytes += bytes;
  bytes_used_ += bytes;
}

void Packs::shrink(BlockId place, std::size_t bytes) {
  const auto found = uses_.find(block_of(place));
  if (found == uses_.end()) return;
  const std::size_t less = std::min(bytes, found->second.bytes);
  found->second.bytes -= less;
  bytes_used_ -= less;
}

void Packs::release(BlockId place, std::size_t bytes) {
  const BlockId block = block_of(place);
  shrink(place, bytes);
  --uses_.at(block).pieces;
  free_if_unused(block);
}

void Packs::free_if_unused(BlockId block) {
  const auto uses = uses_.find(block);
  const bool unused = uses == uses_.end() || uses->second.pieces == 0;
  const auto pack = packing_.find(block);
  if (pack != packing_.end()) {
    if (pack->second->writing || !pack->second->waiting.empty()) return;
    if (pack->second == open_) {
      if (!unused) return;
      open_ = nullptr;
    }
    packing_.erase(pack);
  }
  if (!unused || uses == uses_.end()) return;
  bytes_used_ -= uses->second.bytes;
  uses_.erase(uses);
  reading_.erase(block);
  cache_.remove_if([&](const auto& cached) { return cached.first == block; });
  owner_.free(block);
}

std::vector<BlockId> Packs::sparse(std::size_t most) {
  std::vector<BlockId> found;
  ++searches_;
  if (uses_.size() < kFewPacks || bytes_used_ > uses_.size() * block_size_ / 2) return found;
  for (auto& [block, uses] : uses_) {
    if (found.size() == most) break;
    if (uses.bytes >= block_size_ / 4 || packing_.contains(block) || searches_ < uses.not_before)
      continue;
    uses.not_before = searches_ + kSearchesBetween;
    found.push_back(block);
  }
  return found;
}

}  // namespace s3oram
