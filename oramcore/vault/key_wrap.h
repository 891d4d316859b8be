// A box holds the master key for one credential. It is either plain, or a crypto_secretbox under a
// key that is derived from a passphrase (Argon2id) or from the content of a key file (BLAKE2b).
//
//   plain      key (32)
//   wrapped    nonce (24) | box (32 + 16)
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"
#include "oramcore/base/random.h"

namespace s3oram {

/// Bytes of a key sealed under another key: nonce and crypto_secretbox.
constexpr std::size_t kSealedKey = 24 + 16 + std::tuple_size_v<Seed>;
/// Seal `secret` under `key`, and open it again; open_key() returns std::nullopt if it was sealed
/// under another key. Both functions wipe `key`.
Bytes seal_key(const Seed& secret, Seed& key, Random& random);
std::optional<Seed> open_key(ByteSpan sealed, Seed& key);

/// A secret that opens the master key.
struct Credential {
  enum class Kind { passphrase, key_file } kind = Kind::key_file;
  std::string passphrase;  // only for Kind::passphrase
  // The key file; only for Kind::key_file. If path and content are empty, vault.key is the key.
  std::filesystem::path keyfile;
  Bytes content = {};  // content of the key file, if it has been read
  ~Credential();       // wipes the passphrase and the content
};

/// The cost of guessing a passphrase once, and of opening the vault: Argon2id's passes over the
/// memory, and the memory in bytes. The default is libsodium's "moderate": about 0.7 s and 256 MiB.
struct KdfLimits {
  std::uint64_t passes = 3;
  std::uint64_t memory = 256 << 20;
  /// Returns whether Argon2id accepts these limits, and a vault may have them.
  bool possible() const;
};

/// The public part of a box: how to open it.
struct KeyWrap {
  enum class Kind { plain, passphrase, key_file } kind = Kind::plain;
  std::array<std::uint8_t, 16> salt{};  // only for Kind::passphrase, like the limits
  KdfLimits limits;
};

/// Returns the wrap for `credential`, with a fresh salt.
KeyWrap make_key_wrap(const Credential& credential, const KdfLimits& limits, Random& random);

/// Makes the box that `credential` opens. Errors: failed (the key file cannot be read, or there is
/// not enough memory).
Result<Bytes> make_box(const Seed& master, const KeyWrap& wrap, const Credential& credential,
                       Random& random);
/// Returns the size of a box in bytes.
std::size_t box_size(KeyWrap::Kind kind);

/// Returns the master key. `credential` must be of the kind that the wrap needs. Errors:
/// wrong_passphrase, failed (the key file cannot be read, or there is not enough memory).
Result<Seed> open_box(ByteSpan box, const KeyWrap& wrap, const Credential& credential);

/// Reads a key file's content. Errors: failed (it is empty, cannot be read, ...).
Result<Bytes> read_key_content(const std::filesystem::path& keyfile);

/// Returns the kind of wrap that a credential opens.
KeyWrap::Kind kind_of(const Credential& credential);

}  // namespace s3oram
