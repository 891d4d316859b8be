// A hash over everything that a simulation does. Two runs with the same seed must have the same
// hash.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>

#include "oramcore/base/bytes.h"

namespace s3oram::test {

class Trace {
 public:
  void add(std::uint64_t number) {
    hash_ = XXH3_64bits_withSeed(&number, sizeof number, hash_);
    ++events_;
  }
  void add(ByteSpan bytes) {
    hash_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), hash_);
    ++events_;
  }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t events() const { return events_; }

 private:
  std::uint64_t hash_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace s3oram::test
