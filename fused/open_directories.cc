#include "fused/open_directories.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace s3oram {
namespace {

/// Positive. Under a key that nobody knows: 200,000 names share one with a probability of 2^-28.
off_t cookie_of(const std::string& name) {
  if (name == ".") return 1;
  if (name == "..") return 2;
  static const auto key = [] {
    std::array<unsigned char, crypto_shorthash_KEYBYTES> fresh{};
    crypto_shorthash_keygen(fresh.data());
    return fresh;
  }();
  std::array<unsigned char, crypto_shorthash_BYTES> hash{};
  crypto_shorthash(hash.data(), reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                   key.data());
  std::uint64_t number = 0;
  std::memcpy(&number, hash.data(), sizeof number);
  return static_cast<off_t>(number >> 2) + 3;
}

}  // namespace

void OpenDirectory::take(std::vector<DirectoryEntry> listing) {
  entries.clear();
  entries.reserve(listing.size());
  for (DirectoryEntry& entry : listing) {
    const off_t cookie = cookie_of(entry.name);
    entries.push_back({cookie, std::move(entry)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.cookie < b.cookie; });
}

std::vector<OpenDirectory::Entry>::const_iterator OpenDirectory::after(off_t cookie) const {
  return std::upper_bound(entries.begin(), entries.end(), cookie,
                          [](off_t last, const Entry& entry) { return last < entry.cookie; });
}

OpenDirectory& OpenDirectories::open(Ino ino, bool& alone) {
  std::unique_ptr<OpenDirectory> made(
      new OpenDirectory{.ino = ino, .mutex = {}, .all = true, .entries = {}});
  OpenDirectory& directory = *made;
  const std::lock_guard lock(mutex_);
  open_.emplace(&directory, std::move(made));
  alone = ++users_[ino] == 1;
  return directory;
}

void OpenDirectories::close(const OpenDirectory& directory) {
  const std::lock_guard lock(mutex_);
  const auto users = users_.find(directory.ino);
  if (--users->second == 0) users_.erase(users);
  open_.erase(&directory);
}

}  // namespace s3oram
