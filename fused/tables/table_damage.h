// Collects the damage that a mount finds in its file tables. The log reports each case once, and
// status shows the damage as long as the mount lasts. Meanwhile no backup of the tables is made, so
// that the last good one is kept. Not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace s3oram {

class TableDamage {
 public:
  /// Adds damage. `what` names the row or table and says what is wrong. Repetitions are ignored.
  void note(const std::string& what);
  bool any() const { return count_ > 0; }
  /// Returns the number of different notes, up to a bound.
  std::uint64_t count() const { return count_; }
  /// Returns the first note; empty if there is none.
  const std::string& first() const { return first_; }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
  std::set<std::string> told_;
};

}  // namespace s3oram
