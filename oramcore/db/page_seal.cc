// Seals and opens the pages of a database, and of its log, with libsodium.
#include "oramcore/db/page_seal.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace s3oram {
namespace {

constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kContent = kPageBytes - kSealBytes;
constexpr std::size_t kPrefix = 8;  // bytes of a nonce: the id or the count; the rest is random
static_assert(kNonce + kTag == kSealBytes);
static_assert(std::tuple_size_v<Seed> == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

constexpr std::string_view kPageUse = "s3opage1", kFrameUse = "s3ofram1", kMarkUse = "s3omark1";

/// The associated data of a seal.
class Binding {
 public:
  explicit Binding(std::string_view use) { add(as_bytes(use)); }
  Binding& add(ByteSpan bytes) {
    std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += bytes.size();
    return *this;
  }
  Binding& add(std::uint32_t number) {
    for (int i = 0; i < 4; ++i) bytes_[size_++] = static_cast<std::uint8_t>(number >> (8 * i));
    return *this;
  }
  ByteSpan view() const { return ByteSpan(bytes_).first(size_); }

 private:
  std::array<std::uint8_t, 8 + 4 + kClearHeaderBytes> bytes_{};
  std::size_t size_ = 0;
};

std::array<std::uint8_t, kPrefix> prefix_of(std::uint32_t durable) {
  return {static_cast<std::uint8_t>(durable), static_cast<std::uint8_t>(durable >> 8),
          static_cast<std::uint8_t>(durable >> 16), static_cast<std::uint8_t>(durable >> 24)};
}
std::uint32_t durable_of(ByteSpan nonce) {
  return nonce[0] | nonce[1] << 8 | nonce[2] << 16 | static_cast<std::uint32_t>(nonce[3]) << 24;
}

/// Seals `page` in place, except for its first `clear` bytes.
void seal(const PageKey& key, const Binding& binding, ByteSpan prefix, std::size_t clear,
          MutableByteSpan page) {
  std::uint8_t* nonce = page.data() + kContent;
  std::ranges::copy(prefix, nonce);
  key.draw({nonce + kPrefix, kNonce - kPrefix});
  crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
      page.data() + clear, nonce + kNonce, nullptr, page.data() + clear, kContent - clear,
      binding.view().data(), binding.view().size(), nullptr, nonce, key.secret().data());
}

bool open(const PageKey& key, const Binding& binding, std::size_t clear, MutableByteSpan page) {
  std::uint8_t* nonce = page.data() + kContent;
  return crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
             page.data() + clear, nullptr, page.data() + clear, kContent - clear, nonce + kNonce,
             binding.view().data(), binding.view().size(), nonce, key.secret().data()) == 0;
}

void clear_seal(MutableByteSpan page) {
  std::ranges::fill(page.subspan(kContent), std::uint8_t{0});
}

std::size_t clear_bytes(std::uint32_t number) { return number == 1 ? kClearHeaderBytes : 0; }

Binding page_binding(std::uint32_t number, ByteSpan page) {
  return Binding(kPageUse).add(number).add(page.first(clear_bytes(number)));
}

Binding frame_binding(const DatabaseId& id, const FramePlace& place) {
  return Binding(kFrameUse)
      .add(ByteSpan(id))
      .add(ByteSpan(place.salts))
      .add(place.index)
      .add(place.page);
}

Binding mark_binding(const DatabaseId& id, const std::array<std::uint8_t, 8>& salts) {
  return Binding(kMarkUse).add(ByteSpan(id)).add(ByteSpan(salts));
}

constexpr std::size_t kIdRandom = 4;

void add_proof(DatabaseId& id, const PageKey& key) {
  std::array<std::uint8_t, crypto_generichash_BYTES_MIN> proof{};
  constexpr std::string_view kUse = "s3oramfs: the key of this database's pages";
  std::array<std::uint8_t, kIdRandom + kUse.size()> message{};
  std::copy_n(id.begin(), kIdRandom, message.begin());
  std::ranges::copy(as_bytes(kUse), message.begin() + kIdRandom);
  crypto_generichash(proof.data(), proof.size(), message.data(), message.size(),
                     key.secret().data(), key.secret().size());
  std::copy_n(proof.begin(), id.size() - kIdRandom, id.begin() + kIdRandom);
}

/// Tries each bit of `page`. `opens` returns whether a copy with that bit flipped opens.
template <class Opens>
bool mend_bit(MutableByteSpan page, Opens opens) {
  Page attempt;
  for (std::size_t bit = 0; bit < 8 * kPageBytes; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1u << bit % 8);
    std::ranges::copy(page, attempt.begin());
    attempt[bit / 8] ^= mask;
    if (!opens(MutableByteSpan(attempt))) continue;
    std::ranges::copy(attempt, page.begin());
    return true;
  }
  return false;
}

}  // namespace

PageKey::PageKey(const Seed& secret, std::unique_ptr<Random> random)
    : secret_(secret), random_(random ? std::move(random) : std::make_unique<SystemRandom>()) {}

PageKey::~PageKey() { sodium_memzero(secret_.data(), secret_.size()); }

void PageKey::draw(MutableByteSpan out) const {
  const std::lock_guard lock(mutex_);
  random_->fill(out);
}

DatabaseId make_database_id(const PageKey& key) {
  DatabaseId id{};
  key.draw(MutableByteSpan(id).first(kIdRandom));
  add_proof(id, key);
  return id;
}

bool is_of_key(const DatabaseId& id, const PageKey& key) {
  DatabaseId right = id;
  add_proof(right, key);
  return id == right;
}

Page seal_page(const PageKey& key, const DatabaseId& id, std::uint32_t number, ByteSpan page) {
  Page sealed;
  std::ranges::copy(page, sealed.begin());
  seal(key, page_binding(number, page), id, clear_bytes(number), sealed);
  return sealed;
}

bool open_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page) {
  if (database_of(page) != id || !open(key, page_binding(number, page), clear_bytes(number), page))
    return false;
  clear_seal(page);
  return true;
}

DatabaseId database_of(ByteSpan sealed_page) {
  DatabaseId id;
  std::ranges::copy(sealed_page.subspan(kContent, id.size()), id.begin());
  return id;
}

Page seal_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                std::uint32_t durable, ByteSpan page) {
  Page sealed;
  std::ranges::copy(page, sealed.begin());
  seal(key, frame_binding(id, place), prefix_of(durable), 0, sealed);
  return sealed;
}

std::optional<std::uint32_t> open_frame(const PageKey& key, const DatabaseId& id,
                                        const FramePlace& place, MutableByteSpan page) {
  const std::uint32_t durable = durable_of(page.subspan(kContent));
  if (!open(key, frame_binding(id, place), 0, page)) return std::nullopt;
  clear_seal(page);
  return durable;
}

LogMark make_log_mark(const PageKey& key, const DatabaseId& id,
                      const std::array<std::uint8_t, 8>& salts, std::uint32_t durable) {
  LogMark mark{};
  std::uint8_t* nonce = mark.data() + kMarkUse.size() + salts.size();
  std::ranges::copy(as_bytes(kMarkUse), mark.begin());
  std::ranges::copy(salts, mark.begin() + kMarkUse.size());
  std::ranges::copy(prefix_of(durable), nonce);
  key.draw({nonce + kPrefix, kNonce - kPrefix});
  const Binding binding = mark_binding(id, salts);
  crypto_aead_xchacha20poly1305_ietf_encrypt_detached(nonce, nonce + kNonce, nullptr, nonce, 0,
                                                      binding.view().data(), binding.view().size(),
                                                      nullptr, nonce, key.secret().data());
  return mark;
}

std::optional<std::uint32_t> read_log_mark(const PageKey& key, const DatabaseId& id,
                                           const std::array<std::uint8_t, 8>& salts,
                                           ByteSpan mark) {
  const ByteSpan nonce = mark.subspan(kMarkUse.size() + salts.size());
  if (!std::ranges::equal(mark.first(kMarkUse.size()), as_bytes(kMarkUse)) ||
      !std::ranges::equal(mark.subspan(kMarkUse.size(), salts.size()), salts))
    return std::nullopt;
  const Binding binding = mark_binding(id, salts);
  std::uint8_t nothing = 0;
  if (crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
          &nothing, nullptr, &nothing, 0, nonce.data() + kNonce, binding.view().data(),
          binding.view().size(), nonce.data(), key.secret().data()) != 0)
    return std::nullopt;
  return durable_of(nonce);
}

bool mend_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page) {
  return mend_bit(page,
                  [&](MutableByteSpan attempt) { return open_page(key, id, number, attempt); });
}

bool mend_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                MutableByteSpan page) {
  return mend_bit(page, [&](MutableByteSpan attempt) {
    return open_frame(key, id, place, attempt).has_value();
  });
}

}  // namespace s3oram
