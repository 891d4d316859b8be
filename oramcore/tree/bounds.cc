#include "oramcore/tree/bounds.h"

#include <cmath>

namespace s3oram {
namespace {

// log P[Poisson(mean) > z], by the series of the tail, which converges fast for z > mean.
long double log_tail(long double mean, unsigned z) {
  long double sum = 0, term = 1;
  for (unsigned k = z + 1; term > sum * 1e-18L; ++k) {
    sum += term;
    term *= mean / (k + 1);
  }
  return -mean + (z + 1) * std::log(mean) - std::lgamma(z + 2.0L) + std::log(sum);
}

}  // namespace

std::uint16_t min_bucket_size(unsigned evict_every, unsigned bits) {
  unsigned z = evict_every;
  while (log_tail(evict_every, z) > -static_cast<long double>(bits) * std::log(2.0L)) ++z;
  return static_cast<std::uint16_t>(z);
}

}  // namespace s3oram
