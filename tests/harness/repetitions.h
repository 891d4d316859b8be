// Says how often tests that make random choices repeat their work.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace s3oram::test {

/// Returns `usual`, which suffices for each run of all tests, times S3O_REPEAT if that is set
/// (ninja repeat).
inline unsigned repetitions(unsigned usual) {
  const char* times = std::getenv("S3O_REPEAT");
  return usual * (times ? std::max(1u, static_cast<unsigned>(std::atoi(times))) : 1u);
}

}  // namespace s3oram::test
