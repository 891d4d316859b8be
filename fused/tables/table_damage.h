// What a mount knows of damage in the tables of its files. The log says it once, status names it as
// long as the mount lasts, and no backup of the tables is made: the last good one stays.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace s3oram {

class TableDamage {
 public:
  /// `what` says which row or table, and what is wrong with it; once is enough.
  void note(const std::string& what);
  bool any() const { return count_ > 0; }
  /// Different ones, about.
  std::uint64_t count() const { return count_; }
  /// The first one; empty if there is none.
  const std::string& first() const { return first_; }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
  std::set<std::string> told_;
};

}  // namespace s3oram
