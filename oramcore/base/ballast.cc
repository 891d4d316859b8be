// Keeps room in a file, and gives it up when the disk is full.
#include "oramcore/base/ballast.h"

#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

constexpr std::uintmax_t kHardlyAny = 1 << 20;

void tell(const std::string& outcome) { spdlog::error("the disk is full: {}", outcome); }
constexpr const char* kUsed = "the reserve on the disk is now in use";

}  // namespace

void Ballast::release_if_full(const std::filesystem::path& path) {
  std::error_code error;
  const auto space = std::filesystem::space(path, error);
  if (error || space.available >= kHardlyAny || std::filesystem::file_size(path, error) == 0 ||
      error)
    return;
  std::filesystem::resize_file(path, 0, error);
  tell(error ? error.message() : kUsed);
}

Result<std::unique_ptr<Ballast>> Ballast::open(Disk& disk, const std::filesystem::path& path,
                                               std::uint64_t bytes) {
  S3O_ASSIGN(auto file, disk.open(path));
  std::unique_ptr<Ballast> ballast(new Ballast(std::move(file), bytes));
  ballast->restore();
  return ballast;
}

bool Ballast::release() {
  if (!whole_) return false;
  whole_ = false;
  const auto given = file_->truncate(0);
  tell(given ? kUsed : given.error().message);
  return given.has_value();
}

bool Ballast::restore() {
  if (!whole_ && rule_holds(Rule::ballast)) whole_ = file_->reserve(bytes_) && file_->sync();
  return whole_;
}

bool Ballast::enlarge(std::uint64_t bytes) {
  if (!restore() || bytes <= bytes_) return whole_;
  if (rule_holds(Rule::ballast) && !(file_->reserve(bytes) && file_->sync())) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace s3oram
