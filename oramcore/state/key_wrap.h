// How vault.key holds the master key: plain, or in a crypto_secretbox under a key that comes from
// a passphrase (Argon2id) or from the content of a key file (BLAKE2b).
//
//   plain      key (32) | check (16)
//   wrapped    nonce (24) | box (32 + 16) | check (16)
//
// The check is BLAKE2b over what precedes it: it tells a damaged file from a wrong passphrase.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"
#include "oramcore/base/random.h"

namespace s3oram {

/// What opens the master key.
struct Credential {
  enum class Kind { passphrase, key_file } kind = Kind::key_file;
  std::string passphrase;         // for Kind::passphrase
  std::filesystem::path keyfile;  // for Kind::key_file; empty: vault.key itself is the key
};

/// What guessing a passphrase costs, and opening the vault once: Argon2id's passes over the memory,
/// and its bytes. The default is libsodium's "moderate": about 0.7 s and 256 MiB.
struct KdfLimits {
  std::uint64_t passes = 3;
  std::uint64_t memory = 256 << 20;
  /// Whether Argon2id takes these, and no vault was ever made with more.
  bool possible() const;
};

/// The public part, kept in vault.json.
struct KeyWrap {
  enum class Kind { plain, passphrase, key_file } kind = Kind::plain;
  std::array<std::uint8_t, 16> salt{};  // for Kind::passphrase, as are the limits
  KdfLimits limits;
};

/// The wrap that `credential` asks for, with a fresh salt.
KeyWrap make_key_wrap(const Credential& credential, const KdfLimits& limits, Random& random);

/// The content of vault.key. Errors: the key file cannot be read.
Result<Bytes> wrap_key(const Seed& master, const KeyWrap& wrap, const Credential& credential,
                       Random& random);

/// Whether `content` of the file `path` (for messages only) is what was written once; needs no
/// credential. Errors: damaged_vault.
Status check_wrapped_key(View content, const std::filesystem::path& path, const KeyWrap& wrap);

/// The master key back from `content` of the file `path` (for messages only). Errors:
/// wrong_passphrase (also where another kind of credential is needed), damaged_vault.
Result<Seed> unwrap_key(View content, const std::filesystem::path& path, const KeyWrap& wrap,
                        const Credential& credential);

}  // namespace s3oram
