// Changes the credentials that open a vault, and the keys with which client and servers
// authenticate each other.
#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"
#include "oramcore/vault/vault.h"

namespace s3oram {
namespace {

bool has_plain_slot(const KeyFile& keys) {
  return keys.slots.front().wrap.kind == KeyWrap::Kind::plain;
}

auto find_slot(KeyFile& keys, unsigned number) {
  return std::ranges::find(keys.slots, number, &KeySlot::number);
}

/// Refuses a second slot for the same credential, because changing one of the two would not shut
/// anyone out.
Status check_opens_none(const KeyFile& keys, const Credential& credential,
                        const std::filesystem::path& vault, const char* advice) {
  if (keys.slots.empty()) return {};
  const auto opened = open_slot(keys, credential);
  if (opened)
    return fail(Errc::usage, "{}: this passphrase or key file opens slot {} too: {}",
                vault.string(), opened->number, advice);
  if (opened.error().code != Errc::wrong_passphrase) return fail(opened.error());
  return {};
}

PublicKey public_key_of(Seed& secret) {
  const KeyPair pair = key_pair_of(secret);
  sodium_memzero(secret.data(), secret.size());
  return pair.public_key;
}

}  // namespace

/// A change under way: the lock, the current keys, and the slot that the known credential opens.
struct Vault::KeyChange {
  Descriptor lock;
  KeyFile keys;
  OpenedSlot opened;
};

Result<Descriptor> Vault::lock_files() const {
  // Locks the directory itself, because the files in it are replaced.
  Descriptor lock(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0) return system_failure(errno, "{}", directory_.string());
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) return system_failure(errno, "{}: cannot be locked", directory_.string());
  return lock;
}

Result<Vault::KeyChange> Vault::start_change(const Credential& known) {
  S3O_ASSIGN(auto lock, lock_files());
  S3O_TRY(reread());
  S3O_ASSIGN(auto keys, read_keys());
  auto opened = open_slot(keys, known);
  if (!opened)
    return fail(opened.error().code, "{}: {}", directory_.string(), opened.error().message);
  return KeyChange{std::move(lock), std::move(keys), *opened};
}

// vault.key is written first, because it can be read beside a vault.json of the format before
// slots.
Status Vault::write_keys(const KeyFile& keys) {
  Bytes content = to_bytes(keys);
  Status written = write_durably(directory_ / "vault.key", content);
  sodium_memzero(content.data(), content.size());
  if (!written || !old_wrap_) return written;
  old_wrap_.reset();
  Status renewed = write_config(config_);
  if (renewed) return renewed;
  return fail(renewed.error().code,
              "the change is made, but vault.json could not be brought up to date: {}",
              renewed.error().message);
}

Status Vault::add_slot(KeyChange& change, unsigned number, const Credential& credential,
                       Random& random, const KdfLimits& limits) {
  std::vector<KeySlot>& slots = change.keys.slots;
  S3O_TRY(check_opens_none(change.keys, credential, directory_, "give another one"));
  KeySlot slot{number, make_key_wrap(credential, limits, random), {}};
  S3O_ASSIGN(auto box, make_box(change.opened.master, slot.wrap, credential, random));
  slot.box = std::move(box);
  slots.insert(std::ranges::upper_bound(slots, number, {}, &KeySlot::number), std::move(slot));
  return write_keys(change.keys);
}

Result<std::vector<Vault::Slot>> Vault::slots() const {
  S3O_ASSIGN(auto keys, read_keys());
  std::vector<Slot> slots;
  for (const KeySlot& slot : keys.slots) slots.push_back({slot.number, slot.wrap});
  return slots;
}

Result<unsigned> Vault::change_credential(const Credential& known, const Credential& fresh,
                                          Random& random, const KdfLimits& limits) {
  S3O_ASSIGN(auto change, start_change(known));
  if (kind_of(fresh) == KeyWrap::Kind::plain && change.keys.slots.size() > 1)
    return fail(Errc::usage,
                "{}: other passphrases or key files open it too; remove their slots first",
                directory_.string());
  const unsigned number = change.opened.number;
  change.keys.slots.erase(find_slot(change.keys, number));
  S3O_TRY(check_opens_none(change.keys, known, directory_,
                           "remove one of them (passwd --remove) first"));
  S3O_TRY(add_slot(change, number, fresh, random, limits));
  return number;
}

Result<unsigned> Vault::add_credential(const Credential& known, const Credential& fresh,
                                       Random& random, const KdfLimits& limits) {
  S3O_ASSIGN(auto change, start_change(known));
  KeyFile& keys = change.keys;
  if (has_plain_slot(keys))
    return fail(Errc::usage,
                "{}: nothing protects this vault yet: 's3oramfs passwd {}' without --add gives it "
                "its first passphrase or key file",
                directory_.string(), shell_word(directory_));
  if (kind_of(fresh) == KeyWrap::Kind::plain)
    return fail(Errc::usage,
                "{}: a vault with a passphrase or key file cannot also have a slot without one: if "
                "nothing is to protect the vault, remove all slots but one and change that",
                directory_.string());
  if (keys.slots.size() >= kMostSlots)
    return fail(Errc::usage, "{}: all {} slots are taken; remove one first", directory_.string(),
                kMostSlots);
  unsigned number = 1;
  while (find_slot(keys, number) != keys.slots.end()) ++number;
  S3O_TRY(add_slot(change, number, fresh, random, limits));
  return number;
}

Status Vault::remove_slot(unsigned number, const Credential& remaining) {
  S3O_ASSIGN(auto change, start_change(remaining));
  KeyFile& keys = change.keys;
  const auto slot = find_slot(keys, number);
  if (slot == keys.slots.end())
    return fail(Errc::usage, "{}: there is no slot {} (see: s3oramfs passwd --list {})",
                directory_.string(), number, shell_word(directory_));
  if (keys.slots.size() == 1)
    return fail(Errc::usage,
                "{}: slot {} is the last: without it nothing would open the vault ever again",
                directory_.string(), number);
  keys.slots.erase(slot);
  if (change.opened.number == number && !open_slot(keys, remaining))
    return fail(Errc::usage,
                "{}: this passphrase or key file opens slot {} itself; give one that opens a slot "
                "that stays",
                directory_.string(), number);
  return write_keys(keys);
}

Result<PublicKey> Vault::next_client_key(const Credential& known, Random& random) {
  S3O_ASSIGN(auto change, start_change(known));
  KeyFile& keys = change.keys;
  const Seed& master = change.opened.master;
  if (!keys.next_client_key.empty()) {
    S3O_ASSIGN(auto waiting, open_client_key(master, keys.next_client_key));
    return public_key_of(waiting);
  }
  Seed secret = random.seed();
  keys.next_client_key = seal_client_key(master, secret, random);
  const PublicKey key = public_key_of(secret);
  S3O_TRY(write_keys(keys));
  return key;
}

Result<Vault::ClientKeys> Vault::use_next_client_key(const Credential& known) {
  S3O_ASSIGN(auto change, start_change(known));
  KeyFile& keys = change.keys;
  const Seed& master = change.opened.master;
  if (keys.next_client_key.empty())
    return fail(Errc::usage, "{}: no new key is waiting: s3oramfs rekey {} makes one",
                directory_.string(), shell_word(directory_));
  S3O_ASSIGN(auto former, client_secret(keys, master));
  S3O_ASSIGN(auto next, open_client_key(master, keys.next_client_key));
  keys.client_key = std::move(keys.next_client_key);
  keys.next_client_key.clear();
  S3O_TRY(write_keys(keys));
  return ClientKeys{public_key_of(former), public_key_of(next)};
}

Status Vault::set_server(Party number, const ServerAddress& address) {
  return set_server_of(Part::present, number, address);
}

Status Vault::set_source_server(Party number, const ServerAddress& address) {
  return set_server_of(Part::source, number, address);
}

Status Vault::set_server_of(Part part, Party number, const ServerAddress& address) {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  if (part == Part::source && !config_.source)
    return fail(Errc::usage, "{}: no migration is under way", directory_.string());
  VaultConfig config = config_;
  MigrationSource source = config.source ? *config.source : MigrationSource();
  VaultConfig& changed = part == Part::source ? source.volume : config;
  if (changed.local)
    return fail(Errc::usage, "{}: its servers run on this machine: they have no address",
                directory_.string());
  if (number < 1 || number > changed.servers.size())
    return fail(Errc::usage, "{}: there is no server {}: they are 1 to {}", directory_.string(),
                unsigned{number}, changed.servers.size());
  for (const VaultConfig* volume : {&config, &source.volume})
    for (std::size_t i = 0; i < volume->servers.size(); ++i) {
      if (volume == &changed && i + 1 == number) continue;
      const ServerAddress& other = volume->servers[i];
      if (other.host_port != address.host_port && other.key != address.key) continue;
      return fail(Errc::usage, "{}: {}server {} has that address or key: {}", directory_.string(),
                  volume == &config ? "" : "source ", i + 1,
                  volume == &changed ? "one server with two shares would learn everything"
                                     : "a server holds one volume");
    }
  changed.servers[number - 1] = address;
  if (part == Part::source)
    config.source = std::make_shared<const MigrationSource>(std::move(source));
  return write_config(std::move(config));
}

Status Vault::set_security(Security security) {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  const SchemeKind kind = config_.params.kind();
  if (kind != SchemeKind::s3oram)
    return fail(Errc::usage, "{}: a {}'s client checks every answer in any case",
                directory_.string(), name_of(kSchemes, kind));
  VaultConfig config = config_;
  config.params.security = security;
  S3O_TRY(check_params(config.params));
  return write_config(std::move(config));
}

Status Vault::set_params(const VolumeParams& params) {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  if (config_.ready || params.scheme != config_.params.scheme)
    return fail(Errc::usage, "{}: the numbers of its volume can no longer change",
                directory_.string());
  if (params == config_.params) return {};
  VaultConfig config = config_;
  config.params = params;
  S3O_TRY(check_params(config.params));
  return write_config(std::move(config));
}

}  // namespace s3oram
