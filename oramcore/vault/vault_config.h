// vault.json, format 4: a VaultConfig as text.
//
//   {"format": 4, "ready": true, "volume": HEX16, "local": true,
//    "privacy": 1, "block_size": 32768, "bucket_size": 16, "evict_every": 20,
//    "evictor": "shuffle" | "matrix", "stash_slots": 96,
//    "sharing": "computational" | "information-theoretic", "first_height": 1,
//    "servers": [{"address": "host:port", "key": KEY}, ...]}    (local: {} for each)
//
// Format 3 says the same of a vault whose vault.db is not sealed yet. Format 2 had one member more,
// which said how vault.key was wrapped before it had slots:
//
//    "key": {"wrap": "passphrase", "salt": HEX16, "passes": 3, "memory": 268435456}
//                     "key_file" and "plain" have no further members
//
// A member that a reader does not know is an error: it would be lost at the next write.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/vault/vault.h"

namespace s3oram {

struct VaultFile {
  VaultConfig config;
  std::optional<KeyWrap> wrap;  // of format 2; written in that format again if it is there
};

std::string to_json(const VaultFile& file);

/// Errors name `path` (for messages only) and what is wrong: unsupported (a newer format),
/// damaged_vault.
Result<VaultFile> parse_vault(const std::string& text, const std::filesystem::path& path);

// The text that a vault is recovered from, in one line:
//
//   {"s3oramfs recovery": 1, "vault": {as above}, "keys": BASE64 of vault.key}

struct VaultRecovery {
  VaultFile file;
  Bytes keys;  // vault.key
};
std::string to_recovery(const VaultFile& file, ByteSpan keys);
Result<VaultRecovery> parse_recovery(const std::string& text, const std::filesystem::path& path);

}  // namespace s3oram
