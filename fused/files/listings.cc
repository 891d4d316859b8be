// Computes positions of names, and decides which listings stay in memory.
#include "fused/files/listings.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

namespace s3oram {
namespace {

/// There is room for displaced names above the last hash.
constexpr DirPosition kFirst = 3,
                      kHashes = (DirPosition{1} << 31) - (DirPosition{1} << 20) - kFirst;

}  // namespace

DirPosition usual_position(std::string_view name) {
  // NFS clients remember these hashes, so neither the function nor its key (not a secret) may
  // change.
  static constexpr std::array<unsigned char, crypto_shorthash_KEYBYTES> kKey{};
  std::array<unsigned char, crypto_shorthash_BYTES> hash{};
  crypto_shorthash(hash.data(), reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                   kKey.data());
  std::uint64_t number = 0;
  std::memcpy(&number, hash.data(), sizeof number);
  return kFirst + number % kHashes;
}

// ---- Listing -----------------------------------------------------------------------------------

Listing::Listing(std::vector<DirectoryEntry> entries, HashOf hash, bool whole)
    : hash_(hash), whole_(whole) {
  for (DirectoryEntry& entry : entries) entry.position = hash_(entry.name);
  std::ranges::sort(entries, {}, [](const DirectoryEntry& entry) {
    return std::tie(entry.position, entry.ino, entry.name);
  });
  DirPosition next = 0;
  for (DirectoryEntry& entry : entries) {
    if (entry.position < next) {
      entry.position = next;
      displaced_.emplace(entry.name, next);
    }
    next = entry.position + 1;
    const DirPosition position = entry.position;
    entries_.emplace_hint(entries_.end(), position, std::move(entry));
  }
}

DirPosition Listing::place_of(const std::string& name) const {
  const auto displaced = displaced_.find(name);
  return displaced != displaced_.end() ? displaced->second : hash_(name);
}

void Listing::put(const std::string& name, Ino ino, std::uint32_t type) {
  DirPosition position = place_of(name);
  auto at = entries_.lower_bound(position);
  if (at == entries_.end() || at->first != position || at->second.name != name) {
    for (; at != entries_.end() && at->first == position; ++at) ++position;
    if (position != hash_(name)) displaced_.insert_or_assign(name, position);
  }
  entries_.insert_or_assign(position, DirectoryEntry{name, ino, type, position});
}

void Listing::erase(const std::string& name) {
  const auto at = entries_.find(place_of(name));
  if (at == entries_.end() || at->second.name != name) return;
  displaced_.erase(name);
  entries_.erase(at);
}

void Listing::read(DirPosition after, std::size_t most,
                   std::vector<DirectoryEntry>& entries) const {
  for (auto at = entries_.upper_bound(after); at != entries_.end() && entries.size() < most; ++at)
    entries.push_back(at->second);
}

// ---- Listings ----------------------------------------------------------------------------------

bool Listings::opened(Ino directory) {
  const auto kept = kept_.find(directory);
  if (kept != kept_.end() && std::exchange(kept->second.is_idle, false)) {
    idle_names_ -= kept->second.idle_names;
    idle_.erase(kept->second.place);
  }
  return ++users_[directory] == 1;
}

void Listings::closed(Ino directory, Timing::Time now) {
  const auto users = users_.find(directory);
  if (users == users_.end() || --users->second > 0) return;
  users_.erase(users);
  if (const auto kept = kept_.find(directory); kept != kept_.end())
    rest(directory, kept->second, now);
}

Listing* Listings::find(Ino directory) {
  const auto kept = kept_.find(directory);
  return kept == kept_.end() ? nullptr : &kept->second.listing;
}

Listing& Listings::keep(Ino directory, Listing listing, Timing::Time now) {
  Kept& kept = kept_[directory];
  kept.listing = std::move(listing);
  if (!users_.contains(directory)) rest(directory, kept, now);
  return kept.listing;
}

void Listings::rest(Ino directory, Kept& kept, Timing::Time now) {
  kept.is_idle = true;
  kept.idle_since = now;
  kept.idle_names = kept.listing.size();
  kept.place = idle_.insert(idle_.end(), directory);
  idle_names_ += kept.idle_names;
  while (idle_names_ > kMostIdleNames && idle_.size() > 1) forget_oldest();
}

void Listings::forget_oldest() {
  const auto kept = kept_.find(idle_.front());
  idle_names_ -= kept->second.idle_names;
  kept_.erase(kept);
  idle_.pop_front();
}

void Listings::trim(Timing::Time now) {
  while (!idle_.empty() && now - kept_.at(idle_.front()).idle_since >= kIdle) forget_oldest();
}

}  // namespace s3oram
