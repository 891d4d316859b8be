// Judges what the servers report about an eviction's rows.
#include "oramcore/schemes/mirror/client/row_verdict.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oramcore/schemes/mirror/protocol/row_check.h"

namespace s3oram::mirror {
namespace {

constexpr std::size_t kRowDigest = sizeof(gf128::Element);

/// Returns "servers 2 and 3": those whose answer differs from the most common one; empty if all
/// answers are equal.
template <class Of>
std::string others(ByteSpan servers, const std::vector<CertifyAnswer>& answers, Of of) {
  const auto same_as = [&](const CertifyAnswer& one) {
    return std::ranges::count_if(answers, [&](const auto& each) { return of(each) == of(one); });
  };
  const CertifyAnswer& usual = *std::ranges::max_element(answers, {}, same_as);
  std::vector<unsigned> different;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (of(answers[i]) != of(usual)) different.push_back(servers[i]);
  if (different.empty()) return {};
  return fmt::format("{} {}", different.size() == 1 ? "server" : "servers",
                     fmt::join(different, " and "));
}

/// Returns the list of the old rows' digests, which one server has sent, if it matches the digest
/// that this server gives for it; otherwise null.
const Bytes* list_in(const std::vector<CertifyAnswer>& answers, std::size_t rows) {
  for (const CertifyAnswer& each : answers)
    if (each.list.size() == rows * kRowDigest && each.list_digest == digest_of(each.list))
      return &each.list;
  return nullptr;
}

}  // namespace

gf128::Element sum_of_masks(const Prescribed& prescribed, const LayerKeys& keys, const Seed& seed) {
  const RowDigest digest(seed, prescribed.slot_size, prescribed.selection.size());
  std::vector<std::unique_ptr<Mask>> masks;
  for (unsigned role = 1; role <= prescribed.workers; ++role)
    masks.push_back(std::make_unique<Mask>(keys.of(role, prescribed.attempt)));
  gf128::Element sum;
  Bytes row(prescribed.slot_size);
  for (std::size_t place = 0; place < prescribed.selection.size(); ++place) {
    std::ranges::fill(row, std::uint8_t{0});
    for (const auto& mask : masks) mask->add(static_cast<std::uint16_t>(place), 0, row);
    sum += gf128::multiply(digest.sigma(place), digest.of_new(row.data()));
  }
  return sum;
}

Status judge_rows(const Prescribed& prescribed, const gf128::Element& masks, const Seed& seed,
                  ByteSpan servers, const std::vector<CertifyAnswer>& answers) {
  const auto list_of = [](const CertifyAnswer& each) { return each.list_digest; };
  const auto sum_of = [](const CertifyAnswer& each) { return each.sum; };
  const std::string lists = others(servers, answers, list_of),
                    sums = others(servers, answers, sum_of);
  if (!lists.empty())
    return fail(Errc::servers_disagree,
                "{} had another path before an eviction than the others: one of the servers is "
                "faulty or lies",
                lists);
  if (!sums.empty())
    return fail(Errc::servers_disagree,
                "{} stored other rows in an eviction than the others: one of the servers is "
                "faulty or lies, that one or one that sent it the rows",
                sums);
  const Bytes* const list = list_in(answers, prescribed.rows);
  if (!list)
    return fail(Errc::servers_disagree,
                "no server lists the path before an eviction as it should: it is faulty or lies");

  const RowDigest digest(seed, prescribed.slot_size, prescribed.selection.size());
  gf128::Element expected = masks;
  for (std::size_t place = 0; place < prescribed.selection.size(); ++place)
    if (const auto from = prescribed.selection[place])
      expected += gf128::multiply(digest.sigma(place), gf128::from_bytes(ByteSpan(*list).subspan(
                                                           *from * kRowDigest, kRowDigest)));
  if (gf128::to_bytes(expected) != answers.front().sum)
    return fail(Errc::servers_disagree,
                "the rows that the servers made in an eviction are not those that they were told "
                "to make: one of them is faulty or lies");
  return {};
}

}  // namespace s3oram::mirror
