#include "oramcore/state/key_wrap.h"

#include <sodium.h>

#include <algorithm>

#include "oramcore/state/durable_file.h"

namespace s3oram {
namespace {

constexpr std::size_t kNonce = crypto_secretbox_NONCEBYTES;
constexpr std::size_t kCheck = crypto_generichash_BYTES_MIN;
constexpr std::size_t kLargestKeyFile = 1 << 20;

static_assert(std::tuple_size_v<Seed> == crypto_secretbox_KEYBYTES);
static_assert(std::tuple_size_v<decltype(KeyWrap::salt)> == crypto_pwhash_SALTBYTES);

void hash(View content, MutView out) {
  crypto_generichash(out.data(), out.size(), content.data(), content.size(), nullptr, 0);
}

void append_check(Bytes& content) {
  std::array<std::uint8_t, kCheck> check;
  hash(content, check);
  content.insert(content.end(), check.begin(), check.end());
}

// The key that the box is made under.
Result<Seed> wrapping_key(const KeyWrap& wrap, const Credential& credential) {
  Seed key;
  if (wrap.kind == KeyWrap::Kind::passphrase) {
    if (crypto_pwhash(key.data(), key.size(), credential.passphrase.data(),
                      credential.passphrase.size(), wrap.salt.data(), wrap.limits.passes,
                      wrap.limits.memory, crypto_pwhash_ALG_ARGON2ID13) != 0)
      return fail(Errc::failed, "not enough memory: the passphrase needs {} MiB",
                  wrap.limits.memory >> 20);
    return key;
  }
  auto content = read_small_file(credential.keyfile, kLargestKeyFile);
  if (!content) return fail(std::move(content).error());
  if (content->empty())
    return fail(Errc::failed, "{}: empty key file", credential.keyfile.string());
  hash(*content, key);
  sodium_memzero(content->data(), content->size());
  return key;
}

// Bytes before the check.
std::size_t wrapped_size(const KeyWrap& wrap) {
  const std::size_t key = std::tuple_size_v<Seed>;
  return wrap.kind == KeyWrap::Kind::plain ? key : kNonce + crypto_secretbox_MACBYTES + key;
}

// Says which credential the vault wants where it is not of the kind given.
Status check_kind(const KeyWrap& wrap, const Credential& credential) {
  const bool passphrase = credential.kind == Credential::Kind::passphrase;
  const bool keyfile = !passphrase && !credential.keyfile.empty();
  switch (wrap.kind) {
    case KeyWrap::Kind::passphrase:
      if (passphrase) return {};
      return fail(Errc::wrong_passphrase,
                  "this vault is opened by a passphrase, not by a key file");
    case KeyWrap::Kind::key_file:
      if (keyfile) return {};
      return fail(Errc::wrong_passphrase, "this vault is opened by its key file: give --keyfile");
    case KeyWrap::Kind::plain:
      if (!passphrase && !keyfile) return {};
      return fail(Errc::wrong_passphrase, "this vault has no passphrase or key file: give none");
  }
  return {};
}

}  // namespace

bool KdfLimits::possible() const {
  return passes >= crypto_pwhash_OPSLIMIT_MIN && passes <= 1000 &&
         memory >= crypto_pwhash_MEMLIMIT_MIN && memory <= std::uint64_t{16} << 30;
}

KeyWrap make_key_wrap(const Credential& credential, const KdfLimits& limits, Random& random) {
  KeyWrap wrap;
  if (credential.kind == Credential::Kind::passphrase) {
    wrap.kind = KeyWrap::Kind::passphrase;
    wrap.limits = limits;
    random.fill(wrap.salt);
  } else if (!credential.keyfile.empty()) {
    wrap.kind = KeyWrap::Kind::key_file;
  }
  return wrap;
}

Result<Bytes> wrap_key(const Seed& master, const KeyWrap& wrap, const Credential& credential,
                       Random& random) {
  Bytes content;
  if (wrap.kind == KeyWrap::Kind::plain) {
    content.assign(master.begin(), master.end());
  } else {
    auto key = wrapping_key(wrap, credential);
    if (!key) return fail(std::move(key).error());
    content.resize(kNonce + crypto_secretbox_MACBYTES + master.size());
    random.fill(MutView(content).first(kNonce));
    crypto_secretbox_easy(content.data() + kNonce, master.data(), master.size(), content.data(),
                          key->data());
    sodium_memzero(key->data(), key->size());
  }
  append_check(content);
  return content;
}

Status check_wrapped_key(View content, const std::filesystem::path& path, const KeyWrap& wrap) {
  const std::size_t size = wrapped_size(wrap);
  if (content.size() != size + kCheck)
    return fail(Errc::damaged_vault, "{}: {} bytes instead of {}", path.string(), content.size(),
                size + kCheck);
  std::array<std::uint8_t, kCheck> check;
  hash(content.first(size), check);
  if (!std::equal(check.begin(), check.end(), content.begin() + size))
    return fail(Errc::damaged_vault, "{}: damaged (its checksum does not match)", path.string());
  return {};
}

Result<Seed> unwrap_key(View content, const std::filesystem::path& path, const KeyWrap& wrap,
                        const Credential& credential) {
  S3O_TRY(check_wrapped_key(content, path, wrap));
  Seed master;
  const bool plain = wrap.kind == KeyWrap::Kind::plain;
  const std::size_t size = wrapped_size(wrap);
  S3O_TRY(check_kind(wrap, credential));
  if (plain) {
    std::copy_n(content.begin(), size, master.begin());
    return master;
  }
  auto key = wrapping_key(wrap, credential);
  if (!key) return fail(std::move(key).error());
  const int opened = crypto_secretbox_open_easy(master.data(), content.data() + kNonce,
                                                size - kNonce, content.data(), key->data());
  sodium_memzero(key->data(), key->size());
  if (opened == 0) return master;
  if (wrap.kind == KeyWrap::Kind::passphrase)
    return fail(Errc::wrong_passphrase, "wrong passphrase");
  return fail(Errc::wrong_passphrase, "{}: not this vault's key file", credential.keyfile.string());
}

}  // namespace s3oram
