// Decides how many inode numbers each commit reserves.
#include "fused/files/inode_allocator.h"

#include <algorithm>

namespace s3oram {

void InodeAllocator::reset(Ino last, Ino reserved) {
  reserved_ = reserved;
  next_ = std::max(last + 1, reserved);
}

std::optional<Ino> InodeAllocator::begin_commit(bool last) {
  reserving_ = reserved_;
  if (!wanted_) return std::nullopt;
  if (last)
    reserving_ = next_;
  else if (next_ + kReservedAtOnce / 2 > reserved_)
    reserving_ = next_ + kReservedAtOnce;
  return reserving_ == reserved_ ? std::nullopt : std::optional(reserving_);
}

void InodeAllocator::end_commit(bool succeeded) {
  if (succeeded) reserved_ = reserving_;
}

}  // namespace s3oram
