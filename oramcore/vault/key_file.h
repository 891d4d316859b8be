// vault.key: the master key in slots, each opened by a credential of its own, and this client's
// keys towards the servers, sealed under the master key. It is one file, only ever replaced as a
// whole, so that its parts always belong together.
//
//   "s3oramfs keys 1\n" (16) | slots (1) | client keys (1)
//   each slot        number (1) | kind (1) | salt (16) | passes (8) | memory (8) | box (72)
//   each client key  use (1) | nonce (24) | box (32 + 16)
//   check (16)
//
// Numbers are little-endian. Kinds: 0 plain, 1 passphrase, 2 key file. A box is that of key_wrap.h;
// zeros follow a plain one. Uses: 1 the key in use, 2 the next one. Without a use 1, the key in use
// is derived from the master key. The check is BLAKE2b over everything before it, and tells a
// damaged file from a wrong passphrase.
//
// Before there were slots, the file held one box and its check, and vault.json (format 2) the wrap.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "oramcore/vault/key_wrap.h"

namespace s3oram {

struct KeySlot {
  unsigned number = 0;  // from 1; names the slot for as long as it exists
  KeyWrap wrap;
  Bytes box;
};

inline constexpr std::size_t kMostSlots = 16;

/// The content of vault.key. The destructor wipes the boxes, of which a plain one is the key
/// itself.
struct KeyFile {
  std::vector<KeySlot> slots;
  Bytes client_key;       // sealed; empty: derived from the master key
  Bytes next_client_key;  // sealed; empty: none is waiting

  KeyFile() = default;
  KeyFile(KeyFile&&) = default;
  KeyFile& operator=(KeyFile&&) = default;
  ~KeyFile();
};

Bytes to_bytes(const KeyFile& file);

/// Whether the content is in this format, and not in the one before slots.
bool has_slots(ByteSpan content);
/// Reads the format with slots. `path` is for messages only. Errors: damaged_vault, unsupported (a
/// newer format).
Result<KeyFile> parse_key_file(ByteSpan content, const std::filesystem::path& path);
/// Reads the format before slots. Errors: damaged_vault.
Result<KeyFile> parse_old_key_file(ByteSpan content, const KeyWrap& wrap,
                                   const std::filesystem::path& path);
/// Reads either format. `wrap` is what a vault.json of the format before slots holds. That file may
/// be older than vault.key, if the first change of a credential was cut short.
Result<KeyFile> parse_keys(ByteSpan content, const std::optional<KeyWrap>& wrap,
                           const std::filesystem::path& path);

struct OpenedSlot {
  unsigned number = 0;
  Seed master{};
  ~OpenedSlot();
};
/// Opens the first slot that `credential` can open. Errors: wrong_passphrase (also if another kind
/// of credential is needed: the message says which); the key file cannot be read, not enough
/// memory.
Result<OpenedSlot> open_slot(const KeyFile& file, const Credential& credential);

/// Seals a client's secret key under the master key, and opens it. Errors: damaged_vault, usage
/// (there is none).
Bytes seal_client_key(const Seed& master, const Seed& secret, Random& random);
Result<Seed> open_client_key(const Seed& master, ByteSpan sealed);

/// Returns the client's secret key that is in use. Errors: damaged_vault.
Result<Seed> client_secret(const KeyFile& file, const Seed& master);

/// Derives a secret from the master key by its number: 1 seals blocks, 2 is the client's first key,
/// 3 seals its later ones, 4 seals the pages of vault.db.
Seed derive_secret(const Seed& master, std::uint64_t number);

}  // namespace s3oram
