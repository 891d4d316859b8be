// Collects what is left of a sealed database with damaged pages or a damaged log: the newest
// version of each page that still opens, in a database that SQLite can read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/db/page_seal.h"

namespace s3oram {

struct GatheredPages {
  std::uint32_t pages = 0;        // pages in the database
  std::uint32_t mended = 0;       // pages in which a single changed bit was corrected
  std::vector<std::string> lost;  // describes lost pages and frames of the log
};

/// Makes the file `to` from the database `from`, which must not be open, and its log. Lost pages
/// are unreadable in `to` too. If durable frames of the log are damaged, later frames still count:
/// a page has the content of its last frame. Errors: damaged_vault (no page was sealed with `key`),
/// disk_full, failed.
Result<GatheredPages> gather_pages(const std::filesystem::path& from,
                                   const std::filesystem::path& to, const PageKey& key);

}  // namespace s3oram
