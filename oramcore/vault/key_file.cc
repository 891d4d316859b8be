// Reads and writes vault.key, and opens its slots.
#include "oramcore/vault/key_file.h"

#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "oramcore/base/format_number.h"

namespace s3oram {
namespace {

constexpr std::string_view kMagic = "s3oramfs keys 1\n";
constexpr std::string_view kAnyMagic = kMagic.substr(0, 14);
constexpr std::size_t kCheck = crypto_generichash_BYTES_MIN;
constexpr std::size_t kSalt = std::tuple_size_v<decltype(KeyWrap::salt)>;
constexpr std::size_t kHeader = kMagic.size() + 2;
constexpr std::size_t kSlot = 1 + 1 + kSalt + 8 + 8 + kSealedKey;
constexpr std::size_t kClientKey = 1 + kSealedKey;
constexpr std::uint8_t kInUse = 1, kNext = 2;

std::array<std::uint8_t, kCheck> check_of(ByteSpan content) {
  std::array<std::uint8_t, kCheck> check;
  crypto_generichash(check.data(), check.size(), content.data(), content.size(), nullptr, 0);
  return check;
}

Status verify(ByteSpan content, const std::filesystem::path& path) {
  if (content.size() < kCheck)
    return fail(Errc::damaged_vault, "{}: {} bytes are too few", path.string(), content.size());
  const auto check = check_of(content.first(content.size() - kCheck));
  if (!std::equal(check.begin(), check.end(), content.end() - kCheck))
    return fail(Errc::damaged_vault, "{}: damaged (its checksum does not match)", path.string());
  return {};
}

void append(Bytes& bytes, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}
void append(Bytes& bytes, ByteSpan more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

// Takes bytes from the front. The caller has checked the size.
class SlotReader {
 public:
  explicit SlotReader(ByteSpan content) : content_(content) {}
  ByteSpan take(std::size_t size) {
    const ByteSpan taken = content_.first(size);
    content_ = content_.subspan(size);
    return taken;
  }
  std::uint8_t byte() { return take(1)[0]; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    const ByteSpan bytes = take(8);
    for (int i = 7; i >= 0; --i) value = value << 8 | bytes[i];
    return value;
  }
  Bytes bytes(std::size_t size) {
    const ByteSpan taken = take(size);
    return {taken.begin(), taken.end()};
  }

 private:
  ByteSpan content_;
};

// Returns the number at the end of the first line.
std::int64_t format_of(ByteSpan content) {
  std::int64_t format = 0;
  for (const std::uint8_t digit : content.subspan(kAnyMagic.size())) {
    if (digit < '0' || digit > '9' || format > 1'000'000) break;
    format = 10 * format + digit - '0';
  }
  return format;
}

Result<KeySlot> read_slot(SlotReader& reader, const std::filesystem::path& path) {
  KeySlot slot;
  slot.number = reader.byte();
  const std::uint8_t kind = reader.byte();
  slot.wrap.kind = static_cast<KeyWrap::Kind>(kind);
  const ByteSpan salt = reader.take(kSalt);
  std::copy(salt.begin(), salt.end(), slot.wrap.salt.begin());
  const KdfLimits limits{reader.number(), reader.number()};
  slot.box = reader.bytes(kSealedKey);
  if (slot.number == 0 || kind > static_cast<std::uint8_t>(KeyWrap::Kind::key_file))
    return fail(Errc::damaged_vault, "{}: slot {} has the unknown kind {}", path.string(),
                slot.number, kind);
  if (slot.wrap.kind == KeyWrap::Kind::passphrase) {
    if (!limits.possible())
      return fail(Errc::damaged_vault, "{}: slot {} has impossible limits", path.string(),
                  slot.number);
    slot.wrap.limits = limits;
  }
  slot.box.resize(box_size(slot.wrap.kind));
  return slot;
}

// Returns an error that names the kind of credential that the vault needs, because it has no slot
// of the given kind.
tl::unexpected<Error> wrong_kind(const KeyFile& file) {
  const auto has = [&](KeyWrap::Kind kind) {
    return std::any_of(file.slots.begin(), file.slots.end(),
                       [&](const KeySlot& slot) { return slot.wrap.kind == kind; });
  };
  if (has(KeyWrap::Kind::plain))
    return fail(Errc::wrong_passphrase, "this vault has no passphrase or key file: give none");
  if (has(KeyWrap::Kind::passphrase))
    return fail(Errc::wrong_passphrase, "this vault is opened by a passphrase, not by a key file");
  return fail(Errc::wrong_passphrase, "this vault is opened by its key file: give --keyfile");
}

}  // namespace

KeyFile::~KeyFile() {
  for (KeySlot& slot : slots) sodium_memzero(slot.box.data(), slot.box.size());
}

OpenedSlot::~OpenedSlot() { sodium_memzero(master.data(), master.size()); }

Bytes to_bytes(const KeyFile& file) {
  Bytes bytes;
  // Reserves room for the whole file, because a reallocation would leave copies of keys behind.
  bytes.reserve(kHeader + kMostSlots * kSlot + 2 * kClientKey + kCheck);
  append(bytes, as_bytes(kMagic));
  bytes.push_back(static_cast<std::uint8_t>(file.slots.size()));
  bytes.push_back(
      static_cast<std::uint8_t>(!file.client_key.empty() + !file.next_client_key.empty()));
  for (const KeySlot& slot : file.slots) {
    bytes.push_back(static_cast<std::uint8_t>(slot.number));
    bytes.push_back(static_cast<std::uint8_t>(slot.wrap.kind));
    append(bytes, slot.wrap.salt);
    append(bytes, slot.wrap.limits.passes);
    append(bytes, slot.wrap.limits.memory);
    append(bytes, slot.box);
    bytes.resize(bytes.size() + kSealedKey - slot.box.size());
  }
  for (const auto& [use, sealed] :
       {std::pair<std::uint8_t, const Bytes&>(kInUse, file.client_key),
        std::pair<std::uint8_t, const Bytes&>(kNext, file.next_client_key)}) {
    if (sealed.empty()) continue;
    bytes.push_back(use);
    append(bytes, sealed);
  }
  append(bytes, check_of(bytes));
  return bytes;
}

bool has_slots(ByteSpan content) {
  return content.size() >= kAnyMagic.size() &&
         std::equal(kAnyMagic.begin(), kAnyMagic.end(), content.begin());
}

Result<KeyFile> parse_key_file(ByteSpan content, const std::filesystem::path& path) {
  S3O_TRY(verify(content, path));
  content = content.first(content.size() - kCheck);
  if (!std::equal(kMagic.begin(), kMagic.end(), content.begin(),
                  content.begin() + std::min(content.size(), kMagic.size())))
    return unknown_format(path.string(), format_of(content), 1);
  SlotReader reader(content.subspan(kMagic.size()));
  const std::size_t counts = content.size() - kMagic.size();
  const std::size_t slots = counts < 2 ? 0 : reader.byte();
  const std::size_t client_keys = counts < 2 ? 0 : reader.byte();
  if (slots == 0 || slots > kMostSlots || client_keys > 2 ||
      content.size() != kHeader + slots * kSlot + client_keys * kClientKey)
    return fail(Errc::damaged_vault, "{}: damaged (it has the wrong size)", path.string());
  KeyFile file;
  for (std::size_t i = 0; i < slots; ++i) {
    S3O_ASSIGN(auto slot, read_slot(reader, path));
    file.slots.push_back(std::move(slot));
  }
  for (std::size_t i = 0; i < client_keys; ++i) {
    const std::uint8_t use = reader.byte();
    if (use != kInUse && use != kNext)
      return fail(Errc::damaged_vault, "{}: a client key with an unknown use", path.string());
    (use == kInUse ? file.client_key : file.next_client_key) = reader.bytes(kSealedKey);
  }
  return file;
}

Result<KeyFile> parse_old_key_file(ByteSpan content, const KeyWrap& wrap,
                                   const std::filesystem::path& path) {
  const std::size_t size = box_size(wrap.kind) + kCheck;
  if (content.size() != size)
    return fail(Errc::damaged_vault, "{}: {} bytes instead of {}", path.string(), content.size(),
                size);
  S3O_TRY(verify(content, path));
  KeyFile file;
  file.slots.push_back({1, wrap, Bytes(content.begin(), content.end() - kCheck)});
  return file;
}

Result<KeyFile> parse_keys(ByteSpan content, const std::optional<KeyWrap>& wrap,
                           const std::filesystem::path& path) {
  return wrap && !has_slots(content) ? parse_old_key_file(content, *wrap, path)
                                     : parse_key_file(content, path);
}

Result<OpenedSlot> open_slot(const KeyFile& file, const Credential& credential) {
  Status refused = wrong_kind(file);
  for (const KeySlot& slot : file.slots) {
    if (slot.wrap.kind != kind_of(credential)) continue;
    auto master = open_box(slot.box, slot.wrap, credential);
    if (master) {
      OpenedSlot opened;
      opened.number = slot.number;
      opened.master = *master;
      sodium_memzero(master->data(), master->size());
      return opened;
    }
    if (master.error().code != Errc::wrong_passphrase) return fail(std::move(master).error());
    refused = fail(std::move(master).error());
  }
  return fail(std::move(refused).error());
}

Bytes seal_client_key(const Seed& master, const Seed& secret, Random& random) {
  Seed key = derive_secret(master, 3);
  return seal_key(secret, key, random);
}

Result<Seed> open_client_key(const Seed& master, ByteSpan sealed) {
  if (sealed.empty()) return fail(Errc::usage, "vault.key: there is no pending new client key");
  Seed key = derive_secret(master, 3);
  const auto secret = open_key(sealed, key);
  if (!secret)
    return fail(Errc::damaged_vault, "vault.key: the client's key does not belong to this vault");
  return *secret;
}

Result<Seed> client_secret(const KeyFile& file, const Seed& master) {
  if (file.client_key.empty()) return derive_secret(master, 2);
  return open_client_key(master, file.client_key);
}

Seed derive_secret(const Seed& master, std::uint64_t number) {
  static_assert(crypto_kdf_KEYBYTES == std::tuple_size_v<Seed>);
  static constexpr char kContext[crypto_kdf_CONTEXTBYTES + 1] = "s3oramfs";
  Seed secret;
  crypto_kdf_derive_from_key(secret.data(), secret.size(), number, kContext, master.data());
  return secret;
}

}  // namespace s3oram
