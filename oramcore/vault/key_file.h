// vault.key: the master key in slots, each opened by a credential of its own, and this client's
// keys towards the servers, sealed under the master key. One file, so that nothing in it can fail
// to belong together: it is only ever replaced as a whole.
//
//   "s3oramfs keys 1\n" (16) | slots (1) | client keys (1)
//   each slot        number (1) | kind (1) | salt (16) | passes (8) | memory (8) | box (72)
//   each client key  use (1) | nonce (24) | box (32 + 16)
//   check (16)
//
// Numbers are little-endian. Kinds: 0 plain, 1 passphrase, 2 key file; a box is that of key_wrap.h,
// zeros after a plain one. Uses: 1 the key in use, 2 the next one; without the first, the key in
// use comes from the master key. The check is BLAKE2b over what precedes it: it tells a damaged
// file from a wrong passphrase.
//
// Before there were slots the file held one box and its check, and vault.json (format 2) the wrap.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "oramcore/vault/key_wrap.h"

namespace s3oram {

struct KeySlot {
  unsigned number = 0;  // from 1; names the slot for as long as it is there
  KeyWrap wrap;
  Bytes box;
};

inline constexpr std::size_t kMostSlots = 16;

/// What vault.key holds. A plain slot is wiped with it.
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

/// Whether the content is of this format, and not of the one before slots.
bool has_slots(ByteSpan content);
/// `path` is for messages only. Errors: damaged_vault, unsupported (a newer format).
Result<KeyFile> parse_key_file(ByteSpan content, const std::filesystem::path& path);
/// From the format before slots. Errors: damaged_vault.
Result<KeyFile> parse_old_key_file(ByteSpan content, const KeyWrap& wrap,
                                   const std::filesystem::path& path);
/// From either format. `wrap`: what a vault.json of the format before slots says. It may be the
/// older one of the two files, if the first change of a credential was cut short.
Result<KeyFile> parse_keys(ByteSpan content, const std::optional<KeyWrap>& wrap,
                           const std::filesystem::path& path);

struct OpenedSlot {
  unsigned number = 0;
  Seed master{};
  ~OpenedSlot();
};
/// The first slot that `credential` opens. Errors: wrong_passphrase (also where another kind of
/// credential is needed: it says which); the key file cannot be read, not enough memory.
Result<OpenedSlot> open_slot(const KeyFile& file, const Credential& credential);

/// A client's secret key, sealed under the master key, and back. Errors: damaged_vault, usage
/// (there is none).
Bytes seal_client_key(const Seed& master, const Seed& secret, Random& random);
Result<Seed> open_client_key(const Seed& master, ByteSpan sealed);

/// The client's secret key that is in use. Errors: damaged_vault.
Result<Seed> client_secret(const KeyFile& file, const Seed& master);

/// Each secret has its own number under the master key: 1 seals blocks, 2 is the client's first
/// key, 3 seals its later ones, 4 seals the pages of vault.db.
Seed derive_secret(const Seed& master, std::uint64_t number);

}  // namespace s3oram
