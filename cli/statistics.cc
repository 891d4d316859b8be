// The chi-square tests, by the incomplete gamma function (Abramowitz and Stegun, 6.5.29
// and 6.5.31).
#include "cli/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace s3oram {
namespace {

constexpr int kMostTerms = 10'000;

/// Returns the lower regularized function P(a, x) as a series, which converges fast for x < a + 1.
double lower_by_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < kMostTerms && term > sum * 1e-15; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}

/// Returns the upper regularized function Q(a, x) as a continued fraction (Lentz), for x >= a + 1.
double upper_by_fraction(double a, double x) {
  constexpr double kTiny = std::numeric_limits<double>::min() / 1e-15;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, value = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double step = -n * (n - a);
    b += 2;
    d = step * d + b;
    if (std::abs(d) < kTiny) d = kTiny;
    c = b + step / c;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return value * std::exp(a * std::log(x) - x - std::lgamma(a));
}

double sum_of(std::span<const std::uint64_t> counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

}  // namespace

double chi_square_tail(double value, unsigned degrees) {
  if (degrees == 0 || !(value > 0)) return 1;
  const double a = degrees / 2.0, x = value / 2;
  return std::clamp(x < a + 1 ? 1 - lower_by_series(a, x) : upper_by_fraction(a, x), 0.0, 1.0);
}

double uniform_p(std::span<const std::uint64_t> counts) {
  const double total = sum_of(counts);
  if (counts.size() < 2 || total == 0) return 1;
  const double expected = total / static_cast<double>(counts.size());
  double value = 0;
  for (const std::uint64_t count : counts)
    value += std::pow(static_cast<double>(count) - expected, 2) / expected;
  return chi_square_tail(value, static_cast<unsigned>(counts.size() - 1));
}

double same_p(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  const double of_a = sum_of(a), of_b = sum_of(b);
  if (a.size() != b.size() || of_a == 0 || of_b == 0) return 1;
  const double weight_a = std::sqrt(of_b / of_a), weight_b = std::sqrt(of_a / of_b);
  double value = 0;
  unsigned places = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto in_a = static_cast<double>(a[i]), in_b = static_cast<double>(b[i]);
    if (in_a + in_b == 0) continue;
    ++places;
    value += std::pow(weight_a * in_a - weight_b * in_b, 2) / (in_a + in_b);
  }
  return places < 2 ? 1 : chi_square_tail(value, places - 1);
}

std::vector<std::uint64_t> binned(std::span<const double> positions, std::size_t bins) {
  std::vector<std::uint64_t> counts(bins);
  for (const double position : positions) {
    const auto bin = static_cast<std::size_t>(position * static_cast<double>(bins));
    ++counts[std::min(bin, bins - 1)];
  }
  return counts;
}

double repeated_part(std::span<const double> values) {
  if (values.size() < 2) return 0;
  std::size_t repeats = 0;
  for (std::size_t i = 1; i < values.size(); ++i) repeats += values[i] == values[i - 1] ? 1 : 0;
  return static_cast<double>(repeats) / static_cast<double>(values.size() - 1);
}

}  // namespace s3oram
