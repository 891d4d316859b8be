// Reads a directory as the kernel does: page by page until nothing more comes, or until an error.
#pragma once

#include <vector>

#include "fused/files/file_system.h"

namespace s3oram {

struct WholeListing {
  std::vector<DirectoryEntry> entries;
  bool whole = false;  // otherwise an error came after these names
};

inline WholeListing read_listing(FileSystem& fs, Ino directory) {
  constexpr std::size_t kPage = 100;
  WholeListing listing;
  for (DirPosition after = 0;;) {
    const auto page = fs.list(directory, after, kPage);
    if (!page) return listing;
    if (page->empty()) {
      listing.whole = true;
      return listing;
    }
    listing.entries.insert(listing.entries.end(), page->begin(), page->end());
    after = page->back().position;
  }
}

}  // namespace s3oram
