// Judges what the servers report of an eviction's rows.
#include "oramcore/schemes/mirror/client/row_verdict.h"

#include "oramcore/schemes/mirror/protocol/row_check.h"

namespace s3oram::mirror {
namespace {

constexpr std::size_t kWord = sizeof(gf128::Element);

/// The list of old rows' digests that every server stands by; none if they differ.
const Bytes* agreed_list(const std::vector<CertifyAnswer>& answers, std::size_t rows) {
  const Bytes* list = nullptr;
  for (const CertifyAnswer& each : answers)
    if (!each.list.empty()) list = &each.list;
  if (!list || list->size() != rows * kWord) return nullptr;
  const Digest digest = digest_of(*list);
  for (const CertifyAnswer& each : answers)
    if (each.list_digest != digest) return nullptr;
  return list;
}

}  // namespace

Status judge_rows(const Prescribed& prescribed, const LayerKeys& keys, const Seed& seed,
                  const std::vector<CertifyAnswer>& answers) {
  for (const CertifyAnswer& each : answers)
    if (each.sum != answers.front().sum)
      return fail(Errc::failed, "the servers have stored different rows");
  const Bytes* const list = agreed_list(answers, prescribed.rows);
  if (!list) return fail(Errc::failed, "the servers do not agree on the path before the eviction");

  const RowDigest digest(seed, prescribed.slot_size, prescribed.selection.size());
  std::vector<std::unique_ptr<Mask>> masks;
  for (unsigned role = 1; role <= prescribed.workers; ++role)
    masks.push_back(std::make_unique<Mask>(keys.of(role, prescribed.attempt)));
  gf128::Element expected;
  Bytes row(prescribed.slot_size);
  for (std::size_t place = 0; place < prescribed.selection.size(); ++place) {
    std::ranges::fill(row, std::uint8_t{0});
    for (const auto& mask : masks) mask->add(static_cast<std::uint16_t>(place), 0, row);
    gf128::Element content = digest.of_new(row.data());
    if (const auto from = prescribed.selection[place])
      content += gf128::from_bytes(ByteSpan(*list).subspan(*from * kWord, kWord));
    expected += gf128::multiply(digest.sigma(place), content);
  }
  if (gf128::to_bytes(expected) != answers.front().sum)
    return fail(Errc::failed, "the rows that the servers made are not those of the plan");
  return {};
}

}  // namespace s3oram::mirror
