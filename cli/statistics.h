// Tests of whether numbers could have come from one distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace s3oram {

/// The probability that a chi-square variable with so many degrees of freedom is at least `value`.
double chi_square_tail(double value, unsigned degrees);

/// The chi-square test of whether places were chosen uniformly: `counts` says how often each was.
/// Returns the probability of counts at least as uneven; 1 of fewer than two places, or of none.
double uniform_p(std::span<const std::uint64_t> counts);

/// The chi-square test of whether two samples are of one distribution, each given by how often each
/// place was chosen. Places that neither has are left out. Returns the probability of samples at
/// least as different.
double same_p(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b);

/// How many of these positions, each in [0, 1), fall into each of so many equal bins.
std::vector<std::uint64_t> binned(std::span<const double> positions, std::size_t bins);

/// The part of the values that equal the one before them: 0 to 1.
double repeated_part(std::span<const double> values);

}  // namespace s3oram
