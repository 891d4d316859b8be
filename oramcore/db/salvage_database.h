// Salvages a whole database, sealed or plain, into a new one.
#pragma once

#include <filesystem>
#include <vector>

#include "oramcore/base/disk.h"
#include "oramcore/db/gather_pages.h"
#include "oramcore/db/salvage.h"

namespace s3oram {

struct SalvagedDatabase {
  std::vector<SalvagedTable> tables;
  GatheredPages pages;  // filled only for a sealed database
};

/// Does what salvage() does, with the same errors. `to` is sealed exactly if `from` is, with the
/// key of `disk`. From a sealed database it first gathers each page and frame of the log that still
/// opens, and also finds rows on pages that no other page leads to.
Result<SalvagedDatabase> salvage_database(const std::filesystem::path& from,
                                          const std::filesystem::path& to, Disk& disk);

}  // namespace s3oram
