// vault.key: the master key in slots, each opened by its own credential, and this client's keys for
// the servers, sealed under the master key. It is a single file, and always replaced as a whole, so
// that its parts belong together.
//
//   "s3oramfs keys 1\n" (16) | slots (1) | client keys (1)
//   each slot        number (1) | kind (1) | salt (16) | passes (8) | memory (8) | box (72)
//   each client key  use (1) | nonce (24) | box (32 + 16)
//   check (16)
//
// Numbers are little-endian. Kinds: 0 plain, 1 passphrase, 2 key file. A box is that of key_wrap.h;
// a plain one is padded with zeros. Uses: 1 the key in use, 2 the next one. If no key has use 1,
// the key in use is derived from the master key. The check is BLAKE2b over everything before it,
// and distinguishes a damaged file from a wrong passphrase.
//
// Before there were slots, the file held one box and its check, and vault.json (format 2) held the
// wrap.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "oramcore/vault/key_wrap.h"

namespace s3oram {

struct KeySlot {
  unsigned number = 0;  // counted from 1; identifies the slot for as long as it exists
  KeyWrap wrap;
  Bytes box;
};

inline constexpr std::size_t kMostSlots = 16;

/// The content of vault.key. The destructor wipes the boxes, because a plain box is the key itself.
struct KeyFile {
  std::vector<KeySlot> slots;
  Bytes client_key;       // sealed; derived from the master key if empty
  Bytes next_client_key;  // sealed; empty if none is waiting

  KeyFile() = default;
  KeyFile(KeyFile&&) = default;
  KeyFile& operator=(KeyFile&&) = default;
  ~KeyFile();
};

Bytes to_bytes(const KeyFile& file);

/// Returns whether the content is in this format, and not in the one before slots.
bool has_slots(ByteSpan content);
/// Reads the format with slots. `path` is only for messages. Errors: damaged_vault, unsupported (a
/// newer format).
Result<KeyFile> parse_key_file(ByteSpan content, const std::filesystem::path& path);
/// Reads the format before slots. Errors: damaged_vault.
Result<KeyFile> parse_old_key_file(ByteSpan content, const KeyWrap& wrap,
                                   const std::filesystem::path& path);
/// Reads either format. `wrap` comes from a vault.json in the format before slots. That file may be
/// older than vault.key, if the first change of a credential was interrupted.
Result<KeyFile> parse_keys(ByteSpan content, const std::optional<KeyWrap>& wrap,
                           const std::filesystem::path& path);

struct OpenedSlot {
  unsigned number = 0;
  Seed master{};
  ~OpenedSlot();
};
/// Opens the first slot that `credential` can open. Errors: wrong_passphrase (also if another kind
/// of credential is needed, which the message names), failed (the key file cannot be read, or there
/// is not enough memory).
Result<OpenedSlot> open_slot(const KeyFile& file, const Credential& credential);

/// Seal a client's secret key under the master key, and open it. Errors: damaged_vault, usage
/// (there is no such key).
Bytes seal_client_key(const Seed& master, const Seed& secret, Random& random);
Result<Seed> open_client_key(const Seed& master, ByteSpan sealed);

/// Returns the client's secret key that is in use. Errors: damaged_vault.
Result<Seed> client_secret(const KeyFile& file, const Seed& master);

/// Derives a secret from the master key by its number: 1 seals blocks, 2 is the client's first key,
/// 3 seals its later keys, 4 seals the pages of vault.db.
Seed derive_secret(const Seed& master, std::uint64_t number);

}  // namespace s3oram
