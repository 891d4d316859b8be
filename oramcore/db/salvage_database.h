// What is left of a whole database, sealed or plain, as a new one.
#pragma once

#include <filesystem>
#include <vector>

#include "oramcore/base/disk.h"
#include "oramcore/db/gather_pages.h"
#include "oramcore/db/salvage.h"

namespace s3oram {

struct SalvagedDatabase {
  std::vector<SalvagedTable> tables;
  GatheredPages pages;  // of a sealed one
};

/// Like salvage(), whose errors it has. `to` is sealed exactly if `from` is, with the key of
/// `disk`: then each page and frame of the log that still opens is gathered first, and rows on
/// pages that no other page leads to any more are found too.
Result<SalvagedDatabase> salvage_database(const std::filesystem::path& from,
                                          const std::filesystem::path& to, Disk& disk);

}  // namespace s3oram
