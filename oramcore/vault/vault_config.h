// vault.json, format 5: a VaultConfig as text.
//
//   {"format": 4, "ready": true, "volume": HEX16, "local": true,
//    "privacy": 1, "block_size": 32768, "bucket_size": 16, "evict_every": 20,
//    "evictor": "shuffle" | "matrix", "stash_slots": 96,
//    "sharing": "computational" | "information-theoretic", "first_height": 1,
//    "security": "malicious" | "honest-but-curious",
//    "servers": [{"address": "host:port", "key": KEY}, ...]}    (local: {} for each)
//
// "own_key": true says that the vault has moved to this volume, and "moving_from" says from which
// volume blocks still move:
//
//    "moving_from": {"rate": 0, "volume": HEX16, ... all but "format" and "ready" ... }
//
// Format 4 has neither. Format 3 is like format 4, but without "security"; it is for a vault whose
// vault.db is not sealed yet, and whose security is honest-but-curious. Format 2 had one more
// member than format 3, which said how vault.key was wrapped before it had slots (format 4 has it
// too if vault.key has none):
//
//    "key": {"wrap": "passphrase", "salt": HEX16, "passes": 3, "memory": 268435456}
//                     "key_file" and "plain" have no further members
//
// An unknown member is an error, because it would be lost at the next write.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/vault/vault.h"

namespace s3oram {

struct VaultFile {
  VaultConfig config;
  std::optional<KeyWrap> wrap;  // wrap of a vault.key without slots
};

std::string to_json(const VaultFile& file);

/// Reads vault.json. `path` is only for messages. Errors: unsupported (a newer format),
/// damaged_vault.
Result<VaultFile> parse_vault(const std::string& text, const std::filesystem::path& path);

// The text from which a vault is recovered, in one line:
//
//   {"s3oramfs recovery": 2, "vault": {as above}, "keys": BASE64 of vault.key,
//    "checksum": HEX16 of BLAKE2b-128 of the line up to `,"checksum"`}
//
// Format 1 has no checksum.

struct VaultRecovery {
  VaultFile file;
  Bytes keys;              // vault.key
  bool as_written = true;  // its checksum matches, so it was not changed or damaged
};
std::string to_recovery(const VaultFile& file, ByteSpan keys);
Result<VaultRecovery> parse_recovery(const std::string& text, const std::filesystem::path& path);

}  // namespace s3oram
