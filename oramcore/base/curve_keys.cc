// Makes CURVE keys and writes them as text, with libsodium.
#include "oramcore/base/curve_keys.h"

#include <sodium.h>

namespace s3oram {
namespace {

constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

}  // namespace

KeyPair::~KeyPair() { sodium_memzero(secret_key.data(), secret_key.size()); }

KeyPair generate_key_pair() {
  KeyPair pair;
  crypto_box_keypair(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

KeyPair key_pair_of(const SecretKey& secret) {
  KeyPair pair;
  pair.secret_key = secret;
  crypto_scalarmult_base(pair.public_key.data(), secret.data());
  return pair;
}

std::string to_text(const PublicKey& key) {
  std::string text(sodium_base64_encoded_len(key.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), key.data(), key.size(), kVariant);
  text.pop_back();  // the terminating zero that libsodium writes
  return text;
}

Result<PublicKey> parse_public_key(const std::string& text) {
  PublicKey key;
  std::size_t size = 0;
  const char* end = nullptr;
  const int rc = sodium_base642bin(key.data(), key.size(), text.data(), text.size(), nullptr, &size,
                                   &end, kVariant);
  if (rc != 0 || size != key.size() || end != text.data() + text.size())
    return fail(Errc::usage,
                "'{}' is not a key: a key is 43 characters of A-Z a-z 0-9 - _, as keygen prints it",
                text);
  return key;
}

}  // namespace s3oram
