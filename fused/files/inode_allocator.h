// Gives out inode numbers, each once, and only after a commit has reserved it (inode_numbers.h).
// Not thread-safe.
#pragma once

#include <optional>

#include "fused/tables/inode_numbers.h"

namespace s3oram {

class InodeAllocator {
 public:
  /// Starts above `last`, the largest number in use, and not below `reserved`, the first number
  /// that is not reserved.
  void reset(Ino last, Ino reserved);

  /// Makes the following commits reserve numbers. A mount that makes no inode reserves none.
  void want() { wanted_ = true; }
  /// Returns whether next() is reserved, so that an inode may get it.
  bool is_ready() const { return next_ < reserved_; }
  Ino next() const { return next_; }
  /// Uses up the number next().
  void take() { ++next_; }

  /// Returns the first number that stays unreserved after the commit that begins; std::nullopt if
  /// that number does not change. `last`: no inode is made after this commit, so it gives unused
  /// numbers back.
  std::optional<Ino> begin_commit(bool last);
  void end_commit(bool succeeded);

 private:
  Ino next_ = kRootIno;
  Ino reserved_ = 0, reserving_ = 0;  // numbers below are reserved: now; by the commit
  bool wanted_ = false;
};

}  // namespace s3oram
