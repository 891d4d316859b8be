#include "oramcore/base/ballast.h"

#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"

namespace s3oram {

Result<std::unique_ptr<Ballast>> Ballast::open(Disk& disk, const std::filesystem::path& path,
                                               std::uint64_t bytes) {
  auto file = disk.open(path);
  if (!file) return fail(file.error());
  std::unique_ptr<Ballast> ballast(new Ballast(std::move(*file), bytes));
  ballast->restore();
  return ballast;
}

bool Ballast::release() {
  if (!whole_) return false;
  whole_ = false;
  const auto given = file_->truncate(0);
  spdlog::error("the disk is full: {}",
                given ? "room that was kept back is used" : given.error().message);
  return given.has_value();
}

bool Ballast::restore() {
  if (!whole_ && rule_holds(Rule::ballast)) whole_ = file_->reserve(bytes_) && file_->sync();
  return whole_;
}

}  // namespace s3oram
