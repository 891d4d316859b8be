// CURVE (X25519) keys, with which parties authenticate each other.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// In text, 43 characters of unpadded base64url, which are safe in a shell.
using PublicKey = std::array<std::uint8_t, 32>;
using SecretKey = std::array<std::uint8_t, 32>;

/// A key pair. The secret key is wiped on destruction.
struct KeyPair {
  PublicKey public_key{};
  SecretKey secret_key{};
  ~KeyPair();
};

KeyPair generate_key_pair();
/// Returns the key pair for a secret key.
KeyPair key_pair_of(const SecretKey& secret);

std::string to_text(const PublicKey& key);
/// Reads a key from text. Errors: usage (not 43 characters of base64url).
Result<PublicKey> parse_public_key(const std::string& text);

}  // namespace s3oram
