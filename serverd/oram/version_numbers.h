// Keeps track of which numbers of bucket versions are in use. Each number has a place in the store,
// which may be overwritten once nothing refers to the number.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "serverd/store/bucket_store.h"

namespace s3oram {

/// Used by one thread at a time.
class VersionNumbers {
 public:
  /// Reserves an unused number until it is given back. A prepared eviction that refers to it by
  /// then keeps it in use.
  BucketVersionNumber allocate() {
    if (users_.empty()) users_.resize(1, 0);
    const BucketVersionNumber number =
        free_.empty() ? static_cast<BucketVersionNumber>(users_.size()) : *free_.begin();
    return use(number);
  }
  /// Counts one more use of the number, and returns it. 0 is no number, and is not counted.
  BucketVersionNumber use(BucketVersionNumber number) {
    if (number == 0) return number;
    if (number >= users_.size()) users_.resize(number + 1, 0);
    ++users_[number];
    free_.erase(number);
    return number;
  }
  /// Ends one use of the number.
  void give_back(BucketVersionNumber number) {
    if (number == 0 || --users_[number] > 0) return;
    free_.insert(number);
    freed_.push_back(number);
  }
  /// Call it once everything that was loaded has been counted. Frees the unused numbers below the
  /// highest one.
  void find_free() {
    for (BucketVersionNumber number = 1; number < users_.size(); ++number)
      if (users_[number] == 0) free_.insert(number);
  }
  /// Returns the numbers that went out of use since the last call. (Some may be in use again.)
  std::vector<BucketVersionNumber> take_freed() { return std::exchange(freed_, {}); }

 private:
  std::vector<std::uint32_t> users_;  // how many users each number has
  std::set<BucketVersionNumber> free_;
  std::vector<BucketVersionNumber> freed_;
};

}  // namespace s3oram
