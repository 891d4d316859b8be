// Judges what the servers report about an eviction's rows.
#include "oramcore/schemes/mirror/client/row_verdict.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oramcore/schemes/mirror/protocol/row_check.h"

namespace s3oram::mirror {
namespace {

constexpr std::size_t kRowDigest = sizeof(gf128::Element);

/// Returns "server 2" or "servers 2 and 3".
std::string name(const Bytes& servers) {
  return fmt::format("{} {}", servers.size() == 1 ? "server" : "servers",
                     fmt::join(servers, " and "));
}

/// Returns the most common of the digests of the old rows' lists, and how many servers report it.
std::pair<Digest, std::size_t> usual_list(const std::vector<CertifyAnswer>& answers) {
  std::pair<Digest, std::size_t> usual;
  for (const CertifyAnswer& one : answers) {
    const auto same = std::ranges::count(answers, one.list_digest, &CertifyAnswer::list_digest);
    if (static_cast<std::size_t>(same) > usual.second)
      usual = {one.list_digest, static_cast<std::size_t>(same)};
  }
  return usual;
}

/// Returns what the new rows must add up to, given the list of the old rows' digests.
gf128::Element prescribed_sum(const Prescribed& prescribed, const gf128::Element& masks,
                              const Seed& seed, ByteSpan list) {
  const RowDigest digest(seed, prescribed.slot_size, prescribed.selection.size());
  gf128::Element sum = masks;
  for (std::size_t place = 0; place < prescribed.selection.size(); ++place)
    if (const auto from = prescribed.selection[place])
      sum += gf128::multiply(digest.sigma(place),
                             gf128::from_bytes(list.subspan(*from * kRowDigest, kRowDigest)));
  return sum;
}

Status disagree(std::string_view what, std::string_view why) {
  return fail(Errc::servers_disagree, "{} {}", what, why);
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

RowsVerdict judge_rows(const Prescribed& prescribed, const gf128::Element& masks, const Seed& seed,
                       ByteSpan servers, const std::vector<CertifyAnswer>& answers, Party lister) {
  RowsVerdict verdict;
  Bytes different;
  const auto [usual, count] = usual_list(answers);
  const Bytes* list = nullptr;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].list_digest != usual) different.push_back(servers[i]);
    if (servers[i] != lister) continue;
    const Bytes& sent = answers[i].list;
    if (sent.size() != prescribed.rows * kRowDigest || digest_of(sent) != answers[i].list_digest)
      verdict.false_list.push_back(lister);
    else if (answers[i].list_digest == usual)
      list = &sent;
  }
  if (!different.empty())
    verdict.status = disagree(name(different),
                              "had another path before an eviction than the others: one of the "
                              "servers is faulty or lies");
  if (!verdict.false_list.empty())
    verdict.status = disagree(name(verdict.false_list),
                              "does not list the path before an eviction as it should: it is "
                              "faulty or lies");
  const bool settled = count >= prescribed.workers;  // one of these servers is honest
  if (settled) verdict.other_path = different;
  if (!list) {
    if (verdict.status) verdict.status = disagree("no server", "lists the path before an eviction");
    return verdict;
  }
  const auto right = gf128::to_bytes(prescribed_sum(prescribed, masks, seed, *list));
  Bytes wrong;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (answers[i].sum != right) wrong.push_back(servers[i]);
  if (!wrong.empty() && verdict.status)
    verdict.status = fail(Errc::servers_disagree,
                          "the rows that {} stored in an eviction are not those that the servers "
                          "were told to make: one of the servers is faulty or lies",
                          wrong.size() == answers.size() ? "all servers" : name(wrong));
  if (settled) verdict.other_rows = std::move(wrong);
  return verdict;
}

}  // namespace s3oram::mirror
