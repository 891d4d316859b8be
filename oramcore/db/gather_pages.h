// What is left of a sealed database whose pages or log are damaged: each page as it was written
// last and can still be opened, in a database that SQLite opens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/db/page_seal.h"

namespace s3oram {

struct GatheredPages {
  std::uint32_t pages = 0;        // of the database
  std::uint32_t mended = 0;       // of them, those in which a single bit had changed
  std::vector<std::string> lost;  // what was lost, in words: a page, a frame of the log
};

/// Makes the file `to` of the database `from`, which is not open, and of its log. A page that is
/// lost cannot be read there either. A log that is damaged where it was durable counts on behind
/// the damage: each page that a later frame holds is that frame's. Errors: damaged_vault (the log's
/// header or the database's is of another key, or none), disk_full, failed.
Result<GatheredPages> gather_pages(const std::filesystem::path& from,
                                   const std::filesystem::path& to, const PageKey& key);

}  // namespace s3oram
