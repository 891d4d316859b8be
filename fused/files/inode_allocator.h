// Gives out inode numbers, each once, and only after a commit has reserved it (inode_numbers.h).
// Not thread-safe.
#pragma once

#include <optional>

#include "fused/tables/inode_numbers.h"

namespace s3oram {

class InodeAllocator {
 public:
  /// Begins above `last`, the largest number in use, and at `reserved` or above, which is the first
  /// number that is not reserved.
  void reset(Ino last, Ino reserved);

  /// Asks the commits to come to reserve numbers. A mount that makes no inode reserves none.
  void want() { wanted_ = true; }
  /// Returns whether next() is reserved, so that an inode may have it.
  bool is_ready() const { return next_ < reserved_; }
  Ino next() const { return next_; }
  /// Uses next() up.
  void take() { ++next_; }

  /// Returns the first number that the beginning commit must leave unreserved; std::nullopt if it
  /// is what it was. `last`: no inode is made after the commit, so unused numbers are given back.
  std::optional<Ino> begin_commit(bool last);
  void end_commit(bool succeeded);

 private:
  Ino next_ = kRootIno;
  Ino reserved_ = 0, reserving_ = 0;  // numbers below are reserved; reserving_: by the commit
  bool wanted_ = false;
};

}  // namespace s3oram
