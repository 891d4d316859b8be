// Makes and opens boxes, with libsodium.
#include "oramcore/vault/key_wrap.h"

#include <sodium.h>

#include <algorithm>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/memory_limit.h"

namespace s3oram {
namespace {

constexpr std::size_t kBoxNonce = crypto_secretbox_NONCEBYTES;
constexpr std::size_t kLargestKeyFile = 1 << 20;

static_assert(kSealedKey == kBoxNonce + crypto_secretbox_MACBYTES + std::tuple_size_v<Seed>);
static_assert(std::tuple_size_v<Seed> == crypto_secretbox_KEYBYTES);
static_assert(std::tuple_size_v<decltype(KeyWrap::salt)> == crypto_pwhash_SALTBYTES);

void hash(ByteSpan content, MutableByteSpan out) {
  crypto_generichash(out.data(), out.size(), content.data(), content.size(), nullptr, 0);
}

// Returns the key under which the box is sealed.
Result<Seed> wrapping_key(const KeyWrap& wrap, const Credential& credential) {
  Seed key;
  if (wrap.kind == KeyWrap::Kind::passphrase) {
    // In a control group, the kernel would kill this process instead of refusing the memory.
    if (const MemoryRoom room = memory_room(); room.left < wrap.limits.memory)
      return fail(Errc::failed,
                  "not enough memory: the passphrase needs {} MiB, and {} are left of {}",
                  wrap.limits.memory >> 20, human_size(room.left), human_size(room.limit));
    if (crypto_pwhash(key.data(), key.size(), credential.passphrase.data(),
                      credential.passphrase.size(), wrap.salt.data(), wrap.limits.passes,
                      wrap.limits.memory, crypto_pwhash_ALG_ARGON2ID13) != 0)
      return fail(Errc::failed, "not enough memory: the passphrase needs {} MiB",
                  wrap.limits.memory >> 20);
    return key;
  }
  if (!credential.content.empty()) {
    hash(credential.content, key);
    return key;
  }
  S3O_ASSIGN(auto content, read_key_content(credential.keyfile));
  hash(content, key);
  sodium_memzero(content.data(), content.size());
  return key;
}

}  // namespace

Bytes seal_key(const Seed& secret, Seed& key, Random& random) {
  Bytes sealed(kSealedKey);
  random.fill(MutableByteSpan(sealed).first(kBoxNonce));
  crypto_secretbox_easy(sealed.data() + kBoxNonce, secret.data(), secret.size(), sealed.data(),
                        key.data());
  sodium_memzero(key.data(), key.size());
  return sealed;
}

std::optional<Seed> open_key(ByteSpan sealed, Seed& key) {
  Seed secret;
  const int opened =
      crypto_secretbox_open_easy(secret.data(), sealed.data() + kBoxNonce,
                                 sealed.size() - kBoxNonce, sealed.data(), key.data());
  sodium_memzero(key.data(), key.size());
  if (opened != 0) return std::nullopt;
  return secret;
}

Credential::~Credential() {
  sodium_memzero(passphrase.data(), passphrase.size());
  sodium_memzero(content.data(), content.size());
}

Result<Bytes> read_key_content(const std::filesystem::path& path) {
  auto content = read_small_file(path, kLargestKeyFile);
  if (content && content->empty()) return fail(Errc::failed, "{}: empty key file", path.string());
  return content;
}

bool KdfLimits::possible() const {
  return passes >= crypto_pwhash_OPSLIMIT_MIN && passes <= 1000 &&
         memory >= crypto_pwhash_MEMLIMIT_MIN && memory <= std::uint64_t{16} << 30;
}

KeyWrap::Kind kind_of(const Credential& credential) {
  if (credential.kind == Credential::Kind::passphrase) return KeyWrap::Kind::passphrase;
  const bool has_key_file = !credential.keyfile.empty() || !credential.content.empty();
  return has_key_file ? KeyWrap::Kind::key_file : KeyWrap::Kind::plain;
}

KeyWrap make_key_wrap(const Credential& credential, const KdfLimits& limits, Random& random) {
  KeyWrap wrap;
  wrap.kind = kind_of(credential);
  if (wrap.kind == KeyWrap::Kind::passphrase) {
    wrap.limits = limits;
    random.fill(wrap.salt);
  }
  return wrap;
}

std::size_t box_size(KeyWrap::Kind kind) {
  return kind == KeyWrap::Kind::plain ? std::tuple_size_v<Seed> : kSealedKey;
}

Result<Bytes> make_box(const Seed& master, const KeyWrap& wrap, const Credential& credential,
                       Random& random) {
  if (wrap.kind == KeyWrap::Kind::plain) return Bytes(master.begin(), master.end());
  S3O_ASSIGN(auto key, wrapping_key(wrap, credential));
  return seal_key(master, key, random);
}

Result<Seed> open_box(ByteSpan box, const KeyWrap& wrap, const Credential& credential) {
  if (wrap.kind == KeyWrap::Kind::plain) {
    Seed master;
    std::copy(box.begin(), box.end(), master.begin());
    return master;
  }
  S3O_ASSIGN(auto key, wrapping_key(wrap, credential));
  if (auto master = open_key(box, key)) return *master;
  if (wrap.kind == KeyWrap::Kind::passphrase)
    return fail(Errc::wrong_passphrase, "wrong passphrase");
  if (credential.keyfile.empty()) return fail(Errc::wrong_passphrase, "not this vault's key file");
  return fail(Errc::wrong_passphrase, "{}: not this vault's key file", credential.keyfile.string());
}

}  // namespace s3oram
