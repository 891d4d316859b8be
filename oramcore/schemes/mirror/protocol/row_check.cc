// Computes the digests of an eviction's rows, and a server's report about them.
#include "oramcore/schemes/mirror/protocol/row_check.h"

#include <sodium.h>

#include "oramcore/schemes/mirror/protocol/layers.h"

namespace s3oram::mirror {
namespace {

constexpr std::size_t kWord = sizeof(gf128::Element);
static_assert(kEntry == kWord);

std::vector<gf128::Element> drawn(const Seed& seed, std::string_view purpose, std::size_t count) {
  std::vector<gf128::Element> elements(count);
  Prg prg(seed, as_bytes(purpose));
  prg.fill({reinterpret_cast<std::uint8_t*>(elements.data()), count * kWord});
  return elements;
}

}  // namespace

RowDigest::RowDigest(const Seed& seed, std::size_t slot_size, std::size_t kept)
    : coefficients_(drawn(seed, "row digest", slot_size / kWord)),
      sigmas_(drawn(seed, "row sum", kept)) {}

gf128::Element RowDigest::of_old(const std::uint8_t* row) const {
  const std::span all(coefficients_);
  gf128::Sum sum;
  gf128::multiply_add(all.subspan(1, kLayers - 1), {row, kHeader - kEntry}, sum);
  gf128::multiply_add(all.subspan(kLayers), {row + kHeader, all.size() * kWord - kHeader}, sum);
  return gf128::reduce(sum);
}

gf128::Element RowDigest::of_new(const std::uint8_t* row) const {
  const std::span behind = std::span(coefficients_).subspan(1);
  gf128::Sum sum;
  gf128::multiply_add(behind, {row + kEntry, behind.size() * kWord}, sum);
  return gf128::reduce(sum);
}

RowReport::RowReport(const Seed& seed, std::size_t slot_size, std::size_t rows, std::size_t kept)
    : digest_(seed, slot_size, kept), old_(rows), new_(kept) {}

void RowReport::add_old(std::size_t index, const std::uint8_t* row) {
  if (row) old_[index] = digest_.of_old(row);
}

void RowReport::add_new(std::size_t place, const std::uint8_t* row) {
  new_[place] = gf128::multiply(digest_.sigma(place), digest_.of_new(row));
}

CertifyAnswer RowReport::answer(bool with_list) const {
  gf128::Element sum;
  for (const gf128::Element& each : new_) sum += each;
  Bytes list;
  for (const gf128::Element& each : old_) {
    const auto bytes = gf128::to_bytes(each);
    list.insert(list.end(), bytes.begin(), bytes.end());
  }
  CertifyAnswer answer{.sum = gf128::to_bytes(sum), .list = {}, .list_digest = digest_of(list)};
  if (with_list) answer.list = std::move(list);
  return answer;
}

Digest digest_of(ByteSpan list) {
  Digest digest;
  crypto_generichash(digest.data(), digest.size(), list.data(), list.size(), nullptr, 0);
  return digest;
}

}  // namespace s3oram::mirror
