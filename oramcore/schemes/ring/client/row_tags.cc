// The secret linear map and the masks of row tags.
#include "oramcore/schemes/ring/client/row_tags.h"

#include <sodium.h>

#include <cassert>
#include <cstring>

#include "oramcore/base/codec.h"
#include "oramcore/field/gf256.h"
#include "oramcore/field/scalar.h"

namespace s3oram::ring {
namespace {

constexpr std::size_t kPiece = 128;

}  // namespace

RowTags::RowTags(const Seed& key, std::size_t slot_size) : slot_size_(slot_size) {
  Prg prg(key, as_bytes("ring row tags"));
  prg.fill(prf_key_);
  of_pieces_.resize((slot_size + kPiece - 1) / kPiece * kTag);
  of_bytes_.resize(kTag * kPiece);
  prg.fill(of_pieces_);
  prg.fill(of_bytes_);
}

RowTags::~RowTags() {
  sodium_memzero(prf_key_.data(), prf_key_.size());
  sodium_memzero(of_pieces_.data(), of_pieces_.size());
  sodium_memzero(of_bytes_.data(), of_bytes_.size());
}

Tag RowTags::map(ByteSpan slot) const {
  assert(slot.size() == slot_size_);
  const std::size_t whole = slot.size() / kPiece, rest = slot.size() % kPiece;
  std::vector<const std::uint8_t*> pieces;
  for (std::size_t i = 0; i < whole; ++i) pieces.push_back(slot.data() + i * kPiece);
  std::array<std::uint8_t, kTag * kPiece> sums{};
  std::array<std::uint8_t*, kTag> outs;
  for (std::size_t k = 0; k < kTag; ++k) outs[k] = sums.data() + k * kPiece;
  const ByteSpan weights = of_pieces_;
  gf::matrix_product(weights.first(whole * kTag), pieces, outs, kPiece);
  if (rest > 0) {
    const std::uint8_t* const last = slot.data() + whole * kPiece;
    gf::matrix_product(weights.subspan(whole * kTag), {&last, 1}, outs, rest);
  }
  Tag tag{};
  for (std::size_t k = 0; k < kTag; ++k) {
    std::uint8_t sum = 0;
    for (std::size_t i = 0; i < kPiece; ++i)
      sum ^= gf::product(of_bytes_[k * kPiece + i], sums[k * kPiece + i]);
    tag[k] = sum;
  }
  return tag;
}

Bytes RowTags::masks(BucketIndex bucket, VersionStamp stamp, std::size_t rows) const {
  Writer context;
  context(as_bytes("ring row masks"), bucket, stamp);
  Bytes masks(rows * kTag);
  Prg(prf_key_, context.take()).fill(masks);
  return masks;
}

void RowTags::put(BucketIndex bucket, VersionStamp stamp,
                  std::span<std::uint8_t* const> rows) const {
  const Bytes all = masks(bucket, stamp, rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tag mapped = map({rows[i], slot_size_});
    for (std::size_t k = 0; k < kTag; ++k)
      rows[i][slot_size_ + k] = static_cast<std::uint8_t>(mapped[k] ^ all[i * kTag + k]);
  }
}

bool RowTags::fits(BucketIndex bucket, VersionStamp stamp, Point x, std::size_t rows,
                   ByteSpan answer) const {
  if (answer.size() != slot_size_ + kTag) return false;
  const Bytes all = masks(bucket, stamp, rows);
  std::vector<const std::uint8_t*> each;
  for (std::size_t i = 0; i < rows; ++i) each.push_back(all.data() + i * kTag);
  Tag expected = map(answer.first(slot_size_));
  gf::inner_product(powers(x, rows), each, expected);
  return sodium_memcmp(expected.data(), answer.data() + slot_size_, kTag) == 0;
}

bool RowTags::fit(BucketIndex bucket, VersionStamp stamp,
                  std::span<const std::uint8_t* const> rows) const {
  const Bytes all = masks(bucket, stamp, rows.size());
  bool fit = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Tag expected = map({rows[i], slot_size_});
    for (std::size_t k = 0; k < kTag; ++k) expected[k] ^= all[i * kTag + k];
    fit &= sodium_memcmp(expected.data(), rows[i] + slot_size_, kTag) == 0;
  }
  return fit;
}

}  // namespace s3oram::ring
