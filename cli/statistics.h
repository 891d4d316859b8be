// Tests whether numbers could come from the same distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace s3oram {

/// Returns the probability that a chi-square variable with `degrees` degrees of freedom is at least
/// `value`.
double chi_square_tail(double value, unsigned degrees);

/// Tests (chi-square) whether places were chosen uniformly; `counts` says how often each was
/// chosen. Returns the probability of counts at least as uneven; 1 if there are fewer than two
/// places, or if none was chosen.
double uniform_p(std::span<const std::uint64_t> counts);

/// Tests (chi-square) whether two samples come from the same distribution. Each sample says how
/// often each place was chosen; places that neither sample has are left out. Returns the
/// probability that such samples differ at least as much by chance.
double same_p(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b);

/// Returns how many of these positions, each in [0, 1), fall into each of `bins` equal bins.
std::vector<std::uint64_t> binned(std::span<const double> positions, std::size_t bins);

/// Returns the part of the values that equal the previous value, from 0 to 1.
double repeated_part(std::span<const double> values);

}  // namespace s3oram
