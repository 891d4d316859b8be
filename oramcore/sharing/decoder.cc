// Decodes single bytes with Gao's algorithm, and vectors by decoding as many of their bytes as
// necessary.
#include "oramcore/sharing/decoder.h"

#include <NTL/GF2EX.h>

#include <algorithm>

#include "oramcore/sharing/ntl_field.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

NTL::Vec<NTL::GF2E> elements(ByteSpan bytes) {
  NTL::Vec<NTL::GF2E> all;
  for (const std::uint8_t each : bytes) NTL::append(all, ntl::element(each));
  return all;
}

/// Returns the polynomial of degree below `enough` that takes the most of these values, if it
/// differs from at most (values - enough) / 2 of them. Steps of the extended Euclidean algorithm
/// divide the error locator out of the interpolation polynomial.
std::optional<NTL::GF2EX> nearest(long enough, const NTL::Vec<NTL::GF2E>& at,
                                  const NTL::Vec<NTL::GF2E>& values) {
  NTL::GF2EX before = NTL::BuildFromRoots(at), now = NTL::interpolate(at, values);
  NTL::GF2EX factor_before, factor(1);  // factors of the first `now` in `before` and `now`
  while (2 * NTL::deg(now) >= at.length() + enough) {
    NTL::GF2EX quotient, rest;
    NTL::DivRem(quotient, rest, before, now);
    before = std::exchange(now, rest);
    rest = factor_before + quotient * factor;
    factor_before = std::exchange(factor, rest);
  }
  NTL::GF2EX found;
  if (!NTL::divide(found, now, factor) || NTL::deg(found) >= enough) return std::nullopt;
  return found;
}

/// Returns the first place in which the shares listed in `chosen` are inconsistent.
std::optional<std::size_t> first_misfit(std::size_t enough, ByteSpan points,
                                        std::span<const ByteSpan> shares,
                                        const std::vector<std::size_t>& chosen) {
  Bytes few;
  std::vector<ByteSpan> first;
  for (std::size_t i = 0; i < enough; ++i) {
    few.push_back(points[chosen[i]]);
    first.push_back(shares[chosen[i]]);
  }
  std::optional<std::size_t> place;
  for (std::size_t i = enough; i < chosen.size(); ++i) {
    const ByteSpan share = shares[chosen[i]];
    const Bytes expected = recover_at(points[chosen[i]], few, first);
    const auto at = std::ranges::mismatch(expected, share).in2 - share.begin();
    if (static_cast<std::size_t>(at) < place.value_or(share.size()))
      place = static_cast<std::size_t>(at);
  }
  return place;
}

}  // namespace

std::optional<std::vector<std::size_t>> wrong_values(std::size_t enough, ByteSpan points,
                                                     ByteSpan values) {
  const NTL::GF2EPush push(ntl::field());
  const auto at = elements(points), given = elements(values);
  const auto polynomial = nearest(static_cast<long>(enough), at, given);
  if (!polynomial) return std::nullopt;
  const auto right = NTL::eval(*polynomial, at);
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (right[static_cast<long>(i)] != given[static_cast<long>(i)]) wrong.push_back(i);
  return wrong;
}

std::optional<std::vector<std::size_t>> wrong_shares(std::size_t enough, ByteSpan points,
                                                     std::span<const ByteSpan> shares,
                                                     std::size_t most) {
  std::vector<std::size_t> wrong, chosen;
  for (std::size_t i = 0; i < shares.size(); ++i) chosen.push_back(i);
  // Each place shows some shares that are wrong there. These are left out; the number of wrong
  // shares falls by as many, so the remaining shares are still enough.
  while (const auto place = first_misfit(enough, points, shares, chosen)) {
    Bytes at, values;
    for (const std::size_t i : chosen) {
      at.push_back(points[i]);
      values.push_back(shares[i][*place]);
    }
    const auto found = wrong_values(enough, at, values);
    if (!found || wrong.size() + found->size() > most) return std::nullopt;
    for (const std::size_t i : *found) wrong.push_back(chosen[i]);
    std::erase_if(chosen, [&](std::size_t i) { return std::ranges::count(wrong, i) > 0; });
  }
  std::ranges::sort(wrong);
  return wrong;
}

}  // namespace s3oram
