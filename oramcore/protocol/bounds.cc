// Computes the bounds of buckets and of the stash part.
#include "oramcore/protocol/bounds.h"

#include <algorithm>
#include <cmath>

namespace s3oram {
namespace {

// Returns log P[Poisson(mean) > z], from the series of the tail, which converges fast for z > mean.
long double log_tail(long double mean, unsigned z) {
  long double sum = 0, term = 1;
  for (unsigned k = z + 1; term > sum * 1e-18L; ++k) {
    sum += term;
    term *= mean / (k + 1);
  }
  return -mean + (z + 1) * std::log(mean) - std::lgamma(z + 2.0L) + std::log(sum);
}

/// Ring ORAM's table for 2^-80.
struct KnownStash {
  unsigned bucket_size, evict_every, stash;
};
constexpr KnownStash kKnown[] = {{8, 8, 41}, {16, 20, 65}, {32, 46, 113}};

}  // namespace

std::uint16_t min_bucket_size(unsigned evict_every, unsigned bits) {
  unsigned z = evict_every;
  while (log_tail(evict_every, z) > -static_cast<long double>(bits) * std::log(2.0L)) ++z;
  return static_cast<std::uint16_t>(z);
}

std::uint16_t min_stash_slots(unsigned bucket_size, unsigned evict_every, unsigned bits) {
  const auto whole_buckets = [&](double stash) {
    const auto buckets = static_cast<unsigned>(std::ceil(1 + stash / bucket_size));
    return static_cast<std::uint16_t>(std::min(buckets * bucket_size, 0xffffu));
  };
  for (const KnownStash& known : kKnown)
    if (bits == kOverflowBits && known.bucket_size == bucket_size &&
        known.evict_every == evict_every)
      return whole_buckets(known.stash);
  // P[stash > R] <= sum over n >= 1 of e^(-q n) * (A / 2Z)^R.
  const double z = bucket_size, a = evict_every;
  const double q = z * std::log(2 * z / a) + a / 2 - z - std::log(4.0);
  if (q <= 0 || 2 * z <= a) return 0;
  const double log_of_sum = -q - std::log1p(-std::exp(-q));  // logarithm of 1 / (e^q - 1)
  return whole_buckets(std::max(0.0, (bits * std::log(2.0) + log_of_sum) / std::log(2 * z / a)));
}

}  // namespace s3oram
