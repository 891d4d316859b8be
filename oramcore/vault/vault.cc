// Makes, finds, locks and recovers a vault, and opens its keys.
#include "oramcore/vault/vault.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/base/system_error.h"
#include "oramcore/vault/advice.h"
#include "oramcore/vault/vault_config.h"
#include "oramcore/vault/vault_draft.h"
#include "oramcore/vault/vault_place.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestConfig = 1 << 20;
constexpr std::size_t kLargestKey = 4096;
/// Bytes. A restore, a repair and a migration make databases below the directory with names of up
/// to 26 bytes, and SQLite opens none whose path is longer than 504.
constexpr std::size_t kLongestDirectory = 470;
constexpr std::chrono::seconds kUnmounted{20}, kKilled{1};  // the time to release the lock
constexpr std::chrono::milliseconds kPoll{20};

fs::path config_file(const fs::path& directory) { return directory / "vault.json"; }
fs::path key_file(const fs::path& directory) { return directory / "vault.key"; }
fs::path lock_file(const fs::path& directory) { return directory / "lock"; }

/// Opens the lock file; returns a descriptor below 0, with errno set, if that fails. It is closed
/// on exec, because a server started from here must not hold the vault after we have ended. Root
/// may lock another user's vault, so links are not followed, and a new file is given to the vault's
/// owner.
Descriptor open_lock(const fs::path& directory) {
  constexpr int kHow = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat stat {};
  if (folder.get() < 0 || ::fstat(folder.get(), &stat) != 0) return {};
  Descriptor made(::openat(folder.get(), "lock", kHow | O_CREAT | O_EXCL, 0600));
  if (made.get() < 0 && errno == EEXIST) return Descriptor(::openat(folder.get(), "lock", kHow));
  if (made.get() >= 0 && ::geteuid() == 0 && ::fchown(made.get(), stat.st_uid, stat.st_gid) != 0)
    return {};
  return made;
}

/// Returns "process 12 (s3oramfs-fused)", if the kernel says so, or "another process".
std::string lock_holder(const struct stat& file) {
  const auto locked =
      fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  // ID: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE FIRST LAST
  for (std::string line, word; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string pid, inode, name;
    words >> word >> word >> word >> word >> pid >> inode;
    if (inode != locked) continue;
    std::ifstream("/proc/" + pid + "/comm") >> name;
    if (!name.empty()) return fmt::format("process {} ({})", pid, name);
  }
  return "another process";
}

Status make_directory(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  return system_failure(errno, "{}: cannot be made", path.string());
}

bool was_vault(const fs::path& directory) {
  std::error_code error;  // after an error it is not known to be a vault
  const auto has = [&](const fs::path& file) { return fs::is_regular_file(file, error); };
  return has(lock_file(directory)) && has(directory / "vault.db");
}

/// Gives `file`, if it exists, a second name, so that it can be replaced.
Status keep_damaged(const fs::path& file) {
  const fs::path aside = free_path(fs::path(file) += ".damaged");
  if (::link(file.c_str(), aside.c_str()) == 0 || errno == ENOENT) return {};
  return system_failure(errno, "{}: cannot be kept as {}", file.string(), aside.string());
}

Status write_first_key(const fs::path& directory, const Credential& credential,
                       const KdfLimits& limits, Random& random) {
  const KeyWrap wrap = make_key_wrap(credential, limits, random);
  Seed master = random.seed();
  auto box = make_box(master, wrap, credential, random);
  sodium_memzero(master.data(), master.size());
  if (!box) return fail(std::move(box).error());
  KeyFile keys;
  keys.slots.push_back({1, wrap, std::move(*box)});
  Bytes content = to_bytes(keys);
  Status written = write_durably(key_file(directory), content);
  sodium_memzero(content.data(), content.size());
  return written;
}

/// Reads vault.key. `wrap` is that of a vault from before there were slots.
Result<KeyFile> read_key_file(const fs::path& path, const std::optional<KeyWrap>& wrap) {
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0)
    return fail(Errc::damaged_vault, "{}: {}", path.string(), std::strerror(errno));
  if ((stat.st_mode & 077) != 0)
    return fail(Errc::failed,
                "{}: others may read or change it (mode {:04o}); if no one has used that, run: "
                "chmod 600 {}",
                path.string(), stat.st_mode & 07777, shell_word(path));
  S3O_ASSIGN(auto content, read_small_file(path, kLargestKey, FileKinds::regular));
  auto keys = parse_keys(content, wrap, path);
  sodium_memzero(content.data(), content.size());
  return keys;
}

}  // namespace

VaultKeys::~VaultKeys() {
  for (Seed* secret : {&sealing, &first, &later}) sodium_memzero(secret->data(), secret->size());
  sodium_memzero(pages.data(), pages.size());
  sodium_memzero(curve.secret_key.data(), curve.secret_key.size());
}

Result<Vault> Vault::create(const fs::path& directory, const VaultConfig& config,
                            const Credential& credential, Random& random, const KdfLimits& limits) {
  if (config.servers.size() != config.params.scheme.servers)
    return fail(Errc::usage, "{} servers are given, but {} are needed", config.servers.size(),
                config.params.scheme.servers);
  S3O_TRY(check_params(config.params));
  Vault vault;
  S3O_TRY(vault.set_directory(directory));
  if (vault.directory_.native().size() > kLongestDirectory)
    return fail(Errc::usage, "{}: its path is too long for a vault (more than {} bytes)",
                vault.directory_.string(), kLongestDirectory);
  vault.config_ = config;

  S3O_ASSIGN(auto draft, VaultDraft::start(vault.directory_));
  S3O_TRY(make_directory(vault.run_directory()));
  if (config.local) {
    S3O_TRY(make_directory(vault.directory_ / "servers"));
    for (unsigned server = 1; server <= config.servers.size(); ++server)
      S3O_TRY(make_directory(vault.store(static_cast<Party>(server))));
  }
  S3O_TRY(write_durably(lock_file(vault.directory_), {}));
  S3O_TRY(write_first_key(vault.directory_, credential, limits, random));
  // Written last, because it makes the directory a vault.
  S3O_TRY(vault.write_config(config));
  S3O_TRY(sync_directory(vault.directory_.parent_path()));
  draft.keep();
  return vault;
}

Status Vault::set_directory(const fs::path& directory) {
  std::error_code error;
  directory_ = fs::absolute(directory, error).lexically_normal();
  if (error) return fail(Errc::failed, "{}: {}", directory.string(), error.message());
  if (!directory_.has_filename()) directory_ = directory_.parent_path();
  return {};
}

Status Vault::require_ready() const {
  if (config_.ready) return {};
  return fail(Errc::failed, "{}: not finished; first run the same 's3oramfs init' again",
              directory_.string());
}

Result<std::string> Vault::recovery() const {
  if (config_.local || (config_.source && config_.source->volume.local))
    return fail(Errc::usage,
                "{}: {} in the vault itself; copy the whole vault while it is not mounted",
                directory_.string(),
                config_.local ? "its servers are"
                              : "it is moving to its servers, and blocks that have not moved are");
  S3O_TRY(require_ready());
  S3O_TRY(check_key());
  S3O_ASSIGN(auto keys, read_small_file(key_file(directory_), kLargestKey, FileKinds::regular));
  const std::string text = to_recovery({config_, old_wrap_}, keys);
  sodium_memzero(keys.data(), keys.size());
  return text;
}

Result<Vault::Recovered> Vault::recover(const fs::path& directory, const std::string& text,
                                        const fs::path& source) {
  S3O_ASSIGN(auto recovery, parse_recovery(text, source));
  const bool has_database = was_vault(directory);
  if (auto begun = find(directory);
      begun && begun->config_.volume == recovery.file.config.volume &&
      difference(begun->config_.params, recovery.file.config.params).empty()) {
    const auto keys = read_small_file(key_file(begun->directory_), kLargestKey, FileKinds::regular);
    const bool same_keys = keys && *keys == recovery.keys;
    if (same_keys && (has_database || begun->config_.servers == recovery.file.config.servers))
      return Recovered{std::move(*begun)};
    if (!has_database)
      return fail(Errc::exists,
                  "{}: a restore was begun there from another file than {}; continue it with "
                  "'s3oramfs restore {}', or remove that directory to start over",
                  directory.string(), source.string(), shell_word(directory));
  }
  if (has_database)
    return put_back(directory, recovery.file.config, recovery.file.wrap, recovery.keys);
  Vault vault;
  S3O_TRY(vault.set_directory(directory));
  vault.old_wrap_ = recovery.file.wrap;
  S3O_ASSIGN(auto draft, VaultDraft::start(vault.directory_));
  S3O_TRY(make_directory(vault.run_directory()));
  S3O_TRY(write_durably(lock_file(vault.directory_), {}));
  const Status written = write_durably(key_file(vault.directory_), recovery.keys);
  sodium_memzero(recovery.keys.data(), recovery.keys.size());
  S3O_TRY(written);
  S3O_TRY(vault.write_config(recovery.file.config));
  S3O_TRY(sync_directory(vault.directory_.parent_path()));
  draft.keep();
  return Recovered{std::move(vault)};
}

Result<Vault::Recovered> Vault::put_back(const fs::path& directory, const VaultConfig& config,
                                         const std::optional<KeyWrap>& old_wrap, ByteSpan keys) {
  Vault vault;
  std::error_code error;
  vault.directory_ = fs::canonical(directory, error);
  if (error) return fail(Errc::failed, "{}: {}", directory.string(), error.message());
  S3O_TRY(vault.require_ours(directory));
  S3O_TRY(vault.lock());
  S3O_ASSIGN(const auto lock, vault.lock_files());
  const auto is_sound = [](const fs::path& file, const Status& checked) -> Result<bool> {
    if (checked) return true;
    std::error_code unknown;
    if (checked.error().code == Errc::damaged_vault || !fs::exists(file, unknown)) return false;
    return fail(checked.error());
  };
  const fs::path config_path = config_file(vault.directory_), key_path = key_file(vault.directory_);
  auto described = is_sound(config_path, vault.reread());
  if (!described) return fail(described.error());
  if (*described && vault.config_.volume != config.volume)
    return fail(Errc::exists,
                "{} is another vault, and is not overwritten (if only its vault.json has changed, "
                "move that away, and run this again)",
                directory.string());
  if (*described)  // or it was edited
    *described = difference(vault.config_.params, config.params).empty();
  if (!*described) vault.old_wrap_ = old_wrap;
  S3O_ASSIGN(const auto keyed, is_sound(key_path, vault.check_key()));
  if (*described && keyed)
    return fail(
        Errc::exists,
        "{} exists, and its vault.json and vault.key are sound, so nothing is overwritten (to "
        "restore one of them anyway, move it away; if vault.db is gone: s3oramfs restore {})",
        directory.string(), shell_word(directory));
  if (!keyed) {
    S3O_TRY(keep_damaged(key_path));
    S3O_TRY(write_durably(key_path, keys, FileOwner::of_directory));
  }
  if (!*described) {
    S3O_TRY(keep_damaged(config_path));
    S3O_TRY(write_durably(config_path, as_bytes(to_json({config, vault.old_wrap_})),
                          FileOwner::of_directory));
    vault.config_ = config;
  }
  return Recovered{std::move(vault), true};
}

/// Refuses another user's vault to root, which has to become that user first (VaultPlace).
Status Vault::require_ours(const fs::path& name) {
  if (::geteuid() != 0) return {};
  S3O_ASSIGN(auto place, VaultPlace::open(name));
  if (place.owner())
    return fail(Errc::failed, "{} is the vault of user {}; root does not read it",
                place.path().string(), place.owner()->uid);
  directory_ = place.path();
  return {};
}

Result<Vault> Vault::find(const fs::path& directory) {
  std::error_code error;
  Vault vault;
  vault.directory_ = fs::canonical(directory, error);
  if (error == std::errc::permission_denied)
    return system_failure(EACCES, "{}", directory.string());
  if (error)
    return fail(Errc::not_a_vault, "{}: not a vault: {}", directory.string(), error.message());
  const fs::path config = config_file(vault.directory_);
  struct stat stat {};
  if (::stat(config.c_str(), &stat) != 0) {
    const int why = errno;
    if (why == EACCES) return system_failure(why, "{}", config.string());
    if (why == ENOENT && was_vault(vault.directory_))
      return fail(
          advise_on_keys({Errc::damaged_vault, config.string() + " is gone"}, vault.directory_));
    return fail(Errc::not_a_vault, "{}: not a vault: its vault.json: {}", directory.string(),
                std::strerror(why));
  }
  S3O_TRY(vault.require_ours(directory));
  if (Status read = vault.reread(); !read)
    return fail(advise_on_keys(read.error(), vault.directory_));
  return vault;
}

Status Vault::reread() {
  const fs::path path = config_file(directory_);
  S3O_ASSIGN(auto text, read_small_file(path, kLargestConfig, FileKinds::regular));
  S3O_ASSIGN(auto file, parse_vault(std::string(text.begin(), text.end()), path));
  config_ = std::move(file.config);
  old_wrap_ = file.wrap;
  return {};
}

Status Vault::lock() {
  if (lock_.get() >= 0) return {};
  const fs::path path = lock_file(directory_);
  Descriptor lock = open_lock(directory_);
  if (lock.get() < 0 && errno == EROFS)
    return fail(Errc::failed, "{} is on a read-only disk; copy the vault to another one",
                directory_.string());
  struct stat file {};
  if (lock.get() < 0 || ::fstat(lock.get(), &file) != 0)
    return system_failure(errno, "{}", path.string());
  if (!S_ISREG(file.st_mode))
    return fail(Errc::damaged_vault, "{} is not a regular file; remove it", path.string());
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
    lock_ = std::move(lock);
    return {};
  }
  if (errno == EWOULDBLOCK)
    return fail(Errc::vault_in_use, "{}: in use by {}", directory_.string(), lock_holder(file));
  return system_failure(errno, "{}: cannot be locked", path.string());
}

Descriptor Vault::lend_lock() const { return Descriptor(::fcntl(lock_.get(), F_DUPFD_CLOEXEC, 0)); }

Status Vault::lock_when_left(const std::function<void()>& waiting) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    Status locked = lock();
    if (locked || locked.error().code != Errc::vault_in_use) return locked;
    const auto mounts = vault_mounts();
    const auto mount = std::ranges::find(mounts, directory_, &VaultMount::vault);
    const bool mounted = mount != mounts.end();
    if (std::chrono::steady_clock::now() - start >= (mounted ? kKilled : kUnmounted))
      return mounted ? fail(Errc::vault_in_use, "{} is already mounted at {}", directory_.string(),
                            mount->point.string())
                     : locked;
    waiting();
    std::this_thread::sleep_for(kPoll);
  }
}

Result<bool> Vault::is_in_use(const fs::path& directory) {
  const fs::path path = lock_file(directory);
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return false;
  if (fd.get() >= 0 && ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return false;
  if (fd.get() >= 0 && errno == EWOULDBLOCK) return true;
  return system_failure(errno, "{}", path.string());
}

Result<KeyFile> Vault::read_keys() const {
  auto keys = read_key_file(key_file(directory_), old_wrap_);
  if (!keys) return fail(advise_on_keys(keys.error(), directory_));
  return keys;
}

Status Vault::check_key() const {
  S3O_ASSIGN([[maybe_unused]] const auto keys, read_keys());
  return {};
}

Result<bool> Vault::wants_passphrase() const {
  S3O_ASSIGN(auto keys, read_keys());
  return std::any_of(keys.slots.begin(), keys.slots.end(), [](const KeySlot& slot) {
    return slot.wrap.kind == KeyWrap::Kind::passphrase;
  });
}

Result<VaultKeys> Vault::unlock(const Credential& credential, ClientKey which) const {
  S3O_ASSIGN(auto file, read_keys());
  auto opened = open_slot(file, credential);
  if (!opened)
    return fail(opened.error().code, "{}: {}", directory_.string(), opened.error().message);

  VaultKeys keys;
  keys.first = derive_secret(opened->master, 1);
  keys.pages = derive_secret(opened->master, 4);
  keys.later = derive_secret(opened->master, 5);
  keys = keys.of(config_);
  auto client = which == ClientKey::in_use ? client_secret(file, opened->master)
                                           : open_client_key(opened->master, file.next_client_key);
  if (!client)
    return fail(client.error().code, "{}: {}", directory_.string(), client.error().message);
  keys.curve = key_pair_of(*client);
  sodium_memzero(client->data(), client->size());
  return keys;
}

fs::path Vault::store(Party server) const {
  return directory_ / "servers" / std::to_string(unsigned{server});
}

Status Vault::make_store(Party server) const {
  const fs::path all = store(server).parent_path();
  std::error_code error;
  if (!fs::is_directory(all, error)) S3O_TRY(make_directory(all));
  S3O_TRY(make_directory(store(server)));
  return sync_directory(all);
}

Status Vault::write_config(VaultConfig config) {
  S3O_TRY(write_durably(config_file(directory_), as_bytes(to_json({config, old_wrap_}))));
  VaultDraft::forget_mark(directory_);
  config_ = std::move(config);
  return {};
}

Status Vault::mark_ready() {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  VaultConfig ready = config_;
  ready.ready = true;
  return write_config(std::move(ready));
}

Status Vault::mark_sealed() {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  if (config_.sealed) return {};
  VaultConfig sealed = config_;
  sealed.sealed = true;
  if (!old_wrap_) return write_config(std::move(sealed));
  // The format before slots cannot record this, so vault.key gets slots at the same time.
  S3O_ASSIGN(const auto keys, read_keys());
  config_ = std::move(sealed);
  return write_keys(keys);
}

}  // namespace s3oram
