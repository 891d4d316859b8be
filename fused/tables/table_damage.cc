// Remembers damage in the file tables, and logs each case once.
#include "fused/tables/table_damage.h"

#include <spdlog/spdlog.h>

namespace s3oram {
namespace {

constexpr std::size_t kMostTold = 10'000;

}  // namespace

void TableDamage::note(const std::string& what) {
  if (told_.size() >= kMostTold || !told_.insert(what).second) return;
  if (count_++ == 0) first_ = what;
  spdlog::error("{}: run s3oramfs fsck", what);
}

}  // namespace s3oram
