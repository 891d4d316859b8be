// s3oramfs-fused [options] VAULT MOUNTPOINT: opens the vault's volume, mounts its files, serves
// them until they are unmounted, and makes everything durable. The exit code is an Errc.
#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "fused/daemon/background.h"
#include "fused/daemon/control_socket.h"
#include "fused/daemon/free_space.h"
#include "fused/daemon/health_watch.h"
#include "fused/daemon/idle_watch.h"
#include "fused/daemon/locked_mount.h"
#include "fused/daemon/locked_state.h"
#include "fused/daemon/metrics_endpoint.h"
#include "fused/daemon/mount_rights.h"
#include "fused/daemon/mount_status.h"
#include "fused/daemon/mounts.h"
#include "fused/daemon/options.h"
#include "fused/daemon/raise.h"
#include "fused/daemon/signal_watch.h"
#include "fused/files/file_system.h"
#include "fused/kernel/fuse_loop.h"
#include "fused/kernel/fuse_mount.h"
#include "fused/kernel/guard.h"
#include "fused/kernel/id_map.h"
#include "fused/tables/heal.h"
#include "fused/tables/metadata.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/identity.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/memory.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/memory_watch.h"
#include "oramcore/base/output.h"
#include "oramcore/base/process.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/protocol/sizing.h"
#include "oramcore/service/log.h"
#include "oramcore/service/manager.h"
#include "oramcore/vault/advice.h"
#include "oramcore/vault/credential.h"
#include "oramcore/vault/vault.h"
#include "oramcore/volume/volume.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

constexpr auto kControlSocket = "control.sock";

/// After this time the user is told what the mount waits for.
constexpr auto kTakesLong = std::chrono::seconds(2);

/// Bytes of vault.db for each block of data.
constexpr std::uint64_t kDatabaseBytes = 128;

// ---- limits ------------------------------------------------------------------------------------

std::size_t cache_of(const MountCommand& command) {
  return command.cache.value_or(default_file_cache(usable_memory()));
}

/// Returns the largest request: smaller if there is little memory, because dozens are under way.
unsigned largest_request(std::uint64_t usable) {
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  return usable <= kLittle ? 128u << 10 : 1u << 20;
}

/// Checks the limits of resources. The log of vault.db must hold a whole commit.
Status check_limits_of(const MountCommand& command, const Vault& vault, const Background& waiting) {
  constexpr std::uint64_t kLargestLog = 128 << 20, kProgram = std::uint64_t{448} << 20;
  std::error_code none;
  const std::uint64_t database = stdfs::file_size(vault.database(), none);
  const Needs needs{.file_bytes = kLargestLog + (none ? 0 : database),
                    .open_files = 128,
                    .address_space = kProgram + cache_of(command)};
  const std::string refusal = vault.directory().string() + ": not mounted";
  S3O_TRY(check_limits(refusal, needs));
  S3O_TRY(check_memory(refusal, vault.config().local ? kLeastLocalMount : kLeastMount));
  const auto tell = [&waiting](const std::string& text) {
    spdlog::warn("{}", text);
    waiting.say("warning: " + text);
  };
  if (const auto most = file_size_limit(); most != kNoLimit)
    tell(
        fmt::format("files of this mount may not exceed {} (ulimit -f, LimitFSIZE=): no more than "
                    "fits is taken",
                    human_size(most)));
  if (const auto seconds = processor_time_limit(); seconds != kNoLimit)
    tell(fmt::format(
        "after {} s of processor time the mount ends, in order: that is its limit (ulimit -t, "
        "LimitCPU=)",
        seconds));
  return {};
}

/// Lowers the bounds of names and attributes in memory if there is little memory.
void fit_into_memory(std::uint64_t usable, FileSystemOptions& options) {
  constexpr std::uint64_t kNode = 1 << 10;
  const std::uint64_t part = usable / 16;
  options.most_uncommitted = std::min<std::uint64_t>(options.most_uncommitted, part);
  options.most_nodes = std::min<std::uint64_t>(options.most_nodes, part / kNode);
}

// ---- steps before the mount --------------------------------------------------------------------

Status lock_vault(Vault& vault) {
  return vault.lock_when_left([&, told = false]() mutable {
    if (!std::exchange(told, true))
      spdlog::info(
          "waiting for another process, perhaps an unmounted daemon that still writes, "
          "to leave the vault {}",
          vault.directory().string());
  });
}

/// Locks the vault and checks its format. Both come before the volume is opened, which already
/// changes the vault and the servers.
Result<Vault> take_vault(const stdfs::path& directory) {
  auto vault = Vault::find(directory);
  if (!vault) return vault;
  S3O_TRY(lock_vault(*vault));
  const std::string database = vault->database().string();
  if (vault->config().ready && !stdfs::exists(database))
    return fail(advise_on_database({Errc::damaged_vault, database + ": it is gone"}, directory));
  if (auto known = Metadata::require_known_format(database); !known)
    return fail(advise_on_database(std::move(known).error(), directory));
  return vault;
}

/// Checks that take_vault() would succeed, before the user is asked for the passphrase. Does not
/// keep the lock, so that other commands can run while the user types.
Status check_vault(const stdfs::path& directory) {
  const auto vault = take_vault(directory);
  return vault ? Status() : Status(fail(vault.error()));
}

/// Returns the content of vault.key, to see later whether it has changed.
std::optional<Bytes> key_file_of(const Vault& vault) {
  constexpr std::size_t kLargest = 1 << 16;
  auto content = read_small_file(vault.directory() / "vault.key", kLargest);
  return content ? std::optional(std::move(*content)) : std::nullopt;
}

Result<Credential> ask_for_credential(const Vault& vault, const MountCommand& command,
                                      const EarlySecret& early) {
  for (const auto& secret : {command.passphrase.passfile, command.keyfile})
    if (const std::string exposure = exposure_of(secret); !exposure.empty())
      spdlog::warn("{}", exposure);
  return existing_credential(command.passphrase, command.keyfile, vault, early);
}

/// Unlocks a locked vault. `asked` is the content of vault.key when the user was asked for the
/// credential.
Result<VaultKeys> unlock_vault(const Vault& vault, const Credential& credential,
                               const std::optional<Bytes>& asked) {
  auto keys = vault.unlock(credential);
  if (keys || keys.error().code != Errc::wrong_passphrase || key_file_of(vault) == asked)
    return keys;
  return fail(keys.error().code, "{}; it was changed while you were asked for it: mount it again",
              keys.error().message);
}

/// Heals a damaged vault.db, which must be neither searched nor written before.
Status heal(const Vault& vault, const MountCommand& command, SealedDisk& disk) {
  if (!stdfs::exists(vault.database())) return {};  // a new vault, or the next step reports it
  auto healed = heal_database(vault.database(), HealFor::order, disk);
  if (!healed) return fail(advise_on_database(std::move(healed).error(), command.vault));
  if (!*healed) return {};
  spdlog::error(
      "vault.db was damaged ({}), and was made again from the rows that could be read; "
      "the damaged one is kept as {}",
      (*healed)->damage, (*healed)->copy.string());
  if ((*healed)->mended > 0)
    spdlog::warn("{} rows had each changed by one bit, and were put right", (*healed)->mended);
  if ((*healed)->gaps > 0)
    spdlog::error("rows may be lost at {} places of vault.db: run s3oramfs fsck, or restore",
                  (*healed)->gaps);
  return {};
}

Result<std::unique_ptr<Volume>> open_volume(Vault& vault, const VaultKeys& keys,
                                            const MountCommand& command, Metrics& metrics,
                                            const Background& waiting) {
  std::error_code error;
  const stdfs::path self = stdfs::read_symlink("/proc/self/exe", error);
  if (error) return fail(Errc::failed, "/proc/self/exe: {}", error.message());
  VolumeOptions options;
  options.serverd = self.parent_path() / "s3oramfs-serverd";
  options.deadline = command.timeout;
  options.progress = [&waiting, start = std::chrono::steady_clock::now(),
                      told = std::string()](const std::string& doing) mutable {
    if (doing == told || std::chrono::steady_clock::now() - start < kTakesLong) return;
    told = doing;
    spdlog::info("{}", doing);
    waiting.say(doing);
  };
  options.metrics = &metrics;
  return Volume::open(vault, keys, options);
}

void set_log_level(const MountCommand& command) {
  const auto level = spdlog::level::from_str(command.log_level);
  spdlog::set_level(level);
  spdlog::flush_on(std::min(level, spdlog::level::info));
}

void log_to_terminal(const MountCommand& command) {
  log_to_stderr("fused");
  set_log_level(command);
}

/// Logs to a regular file of ours: a link would lead elsewhere, and a pipe could block.
Status log_to_file(const MountCommand& command, const stdfs::path& path) {
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor file(::open(path.c_str(), kHow, 0600));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return system_failure(errno, "{}: remove it", path.string());
  if (!S_ISREG(status.st_mode))
    return fail(Errc::failed, "{}: is no ordinary file: remove it", path.string());
  spdlog::drop("fused");
  spdlog::set_default_logger(
      spdlog::basic_logger_mt("fused", fmt::format("/proc/self/fd/{}", file.get())));
  set_log_level(command);
  return {};
}

// ---- seen from outside -------------------------------------------------------------------------

/// What the control socket and the metrics report on.
struct Watched {
  MountIdentity identity;
  Volume& volume;
  FileSystem& files;
  Metrics& metrics;
};

MountState state_of(const Watched& watched) {
  BlockDevice& device = watched.volume.device();
  const auto disk = watched.files.statfs();
  return {watched.volume.status(), watched.files.status(), device.room(), device.block_size(),
          disk ? disk->f_bavail * disk->f_frsize : 0};
}

std::vector<Problem> look_at_health(const Watched& watched) {
  static_cast<void>(watched.volume.server_traffic());  // a server shows as silent only if asked
  auto problems = find_problems(state_of(watched));
  std::erase_if(problems,
                [](const Problem& problem) { return problem.warning; });  // logged elsewhere
  return problems;
}

std::string metrics_page(const Watched& watched) {
  const auto links = watched.volume.server_traffic();  // a silent server shows in the state
  gauge(watched.identity, state_of(watched), links, watched.metrics);
  return watched.metrics.text();
}

Status sync(FileSystem& files) {
  const auto synced = files.sync_all();
  if (synced) return {};
  return fail(code_of_barrier(synced.error()),
              "not everything is durable yet ({}); it stays in memory and is tried again",
              std::strerror(synced.error()));
}

/// Makes everything durable, has the kernel drop what it has cached, and ends the serving of the
/// mount. Called by two threads: of the control socket, and of signals.
class Locker {
 public:
  Locker(FuseMount& mount, FileSystem& files) : mount_(mount), files_(files) {}
  /// Errors: those of sync(); then nothing has changed.
  Status lock() {
    const std::lock_guard guard(mutex_);
    if (done_) return {};
    S3O_TRY(sync(files_));
    mount_.withdraw();
    if (auto synced = sync(files_); !synced) {
      mount_.readmit();
      return synced;
    }
    mount_.suspend();
    done_ = true;
    return {};
  }

 private:
  std::mutex mutex_;
  FuseMount& mount_;
  FileSystem& files_;
  bool done_ = false;
};

ControlHandler control_handler(const Watched& watched, Locker& locker) {
  return [&watched, &locker](const std::string& request) -> std::string {
    if (request == "status") {
      const auto links = watched.volume.server_traffic();
      return control_answer(status_json(watched.identity, state_of(watched), links));
    }
    if (request == "hurry") {
      watched.files.hurry();
      return control_answer({{"ok", true}});
    }
    if (request == "drop") {
      watched.files.drop_clean();
      return control_answer({{"ok", true}});
    }
    if (request == "scrub") {
      watched.volume.begin_scrub();
      return control_answer({{"ok", true}});
    }
    if (request == "backup") {
      const auto made = watched.files.back_up();
      if (!made && made.error() == EROFS)
        return control_failure({Errc::unsupported, "no backup is made: it is mounted read-only"});
      if (!made && made.error() == EUCLEAN)
        return control_failure(
            {Errc::damaged_vault,
             fmt::format("no backup is made, because vault.db is damaged ({}), and the last one "
                         "stays as it is: unmount, and run s3oramfs fsck --repair",
                         watched.files.status().first_damage)});
      if (!made)
        return control_failure({code_of_barrier(made.error()),
                                fmt::format("no backup could be made: {}; it is tried again",
                                            std::strerror(made.error()))});
      return control_answer({{"ok", true}});
    }
    if (request.starts_with("unlock "))
      return control_failure({Errc::failed, watched.identity.mountpoint + " is not locked"});
    if (request != "sync" && request != "lock")
      return control_failure({Errc::bad_request, fmt::format("no such request: {}", request)});
    const Status done = request == "lock" ? locker.lock() : sync(watched.files);
    return done ? control_answer({{"ok", true}}) : control_failure(done.error());
  };
}

// ---- the daemon --------------------------------------------------------------------------------

/// Processes to notify when the mount succeeds, fails or ends.
struct Audience {
  Background command;   // the command that started the daemon, until it is ready
  LastWord at_the_end;  // commands that unmount
};

/// Makes the cache shrink and grow with the free memory.
Result<std::unique_ptr<MemoryWatch>> watch_memory(FileSystem& files, std::size_t cache) {
  return MemoryWatch::start([&files, cache](unsigned shift) {
    files.set_cache_limit(std::max(cache >> shift, std::min(cache, kLeastFileCache)));
    give_back_freed_memory();
  });
}

/// How an open file system gets a mount, and whom it tells.
struct Entrance {
  std::function<Result<std::unique_ptr<FuseMount>>(FileSystem&)> mount;
  /// Called when requests are answered. Errors: nobody wants the mount any more.
  std::function<Status()> ready;
  KernelReferences references;  // of a mount that the kernel has already
  Descriptor cpu_latency;
  std::int64_t since = 0;  // s since 1970
};

void act_on_signal(int signal, FuseMount& mount, Locker& locker) {
  if (signal == SIGXCPU) spdlog::warn("the limit of processor time is near: the mount ends");
  if (signal != SIGUSR1) return mount.stop();
  if (const Status locked = locker.lock(); !locked)
    spdlog::error("the mount is not locked: {}", locked.error().message);
}

bool unmount_idle(const std::filesystem::path& mountpoint) {
  const auto unmounted = unmount_if_unused(mountpoint);
  if (!unmounted) spdlog::warn("{}", unmounted.error().message);
  if (unmounted && *unmounted) spdlog::info("nobody uses it: unmounted");
  if (unmounted && !*unmounted) spdlog::debug("idle, but in use");
  return unmounted && *unmounted;
}

/// Everything between an open volume and a closed one. Returns the mount if it is being locked.
Result<std::optional<HeldMount>> serve(const MountCommand& command, const Watched& watched,
                                       Entrance& entrance, Audience& audience) {
  S3O_ASSIGN(const auto mount, entrance.mount(watched.files));
  Locker locker(*mount, watched.files);
  S3O_ASSIGN(
      const auto control,
      ControlSocket::create(kControlSocket, control_handler(watched, locker), audience.at_the_end));
  std::unique_ptr<MetricsEndpoint> metrics;
  if (!command.metrics.empty()) {
    auto opened =
        MetricsEndpoint::open(command.metrics, [&watched] { return metrics_page(watched); });
    if (!opened) return fail(opened.error());
    metrics = std::move(*opened);
    spdlog::info("metrics are at http://{}/metrics", metrics->address());
  }
  S3O_ASSIGN(const auto memory, watch_memory(watched.files, cache_of(command)));
  SignalWatch signals;
  S3O_TRY(signals.start([&](int signal) { act_on_signal(signal, *mount, locker); }));
  IdleWatch idle;
  if (command.idle)
    S3O_TRY(idle.start(*command.idle, {[&] { return mount->last_use(); },
                                       [&] { return unmount_idle(command.mountpoint); }}));
  const HealthWatch health([&watched] { return look_at_health(watched); });
  S3O_TRY(mount->start(std::move(entrance.cpu_latency)));
  const Status told = entrance.ready();
  if (!told) SignalWatch::end_mount();
  S3O_TRY(mount->wait());
  S3O_TRY(told);
  return mount->hold();
}

/// Returns what `work` returns, or an error if it throws (no memory, no more threads ...), so that
/// everything opened before is closed in order.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail(Errc::failed, "{}", reason_of(error));
  }
}

FuseMountOptions mount_options(const MountCommand& command, const Vault& vault) {
  return {command.mountpoint.string(), vault.directory().string(), command.fuse_options,
          largest_request(usable_memory())};
}

/// Goes to the directory of sockets and logs. A socket's path must be short, so it is relative to
/// this directory.
Status enter_run_directory(const Vault& vault) {
  std::error_code error;
  const stdfs::path run_directory = vault.run_directory();
  stdfs::create_directories(run_directory, error);
  if (!error) stdfs::current_path(run_directory, error);
  return error ? Status(system_failure(error.value(), "{}", run_directory.string())) : Status();
}

/// Options of the file system that do not depend on the open volume.
Result<FileSystemOptions> file_system_options(const MountCommand& command) {
  FileSystemOptions options;
  options.cache.timing = &fuse_timing();
  fit_into_memory(usable_memory(), options);
  options.cache.limit = cache_of(command);
  options.cache.deadline = command.timeout;
  options.back_up_every = command.back_up_every;
  options.update_atime = command.update_atime;
  options.read_only = command.read_only;
  const IdMaps ids = IdMaps::of_this_process();
  options.root_uid = ids.users.outside(command.root_uid.value_or(::getuid()));
  options.root_gid = ids.groups.outside(command.root_gid.value_or(::getgid()));
  if (options.root_uid == kNoId || options.root_gid == kNoId)
    return fail(Errc::usage, "-o uid, -o gid: this user namespace has no such id outside of it");
  return options;
}

/// Closes what serve() has used. Returns the references of the kernel if the mount is held.
Result<KernelReferences> close_files(FileSystem& files, bool held) {
  spdlog::info("writing everything that is not yet durable");
  if (held) return files.suspend();
  S3O_TRY(files.unmount());
  return KernelReferences();
}

/// Opens the vault's volume and files, and serves them. Returns what is left of a mount that is to
/// be locked.
Result<std::optional<LockedState>> open_and_serve(const MountCommand& command, Vault& vault,
                                                  const VaultKeys& keys, Entrance& entrance,
                                                  Audience& audience) {
  S3O_TRY(check_limits_of(command, vault, audience.command));
  SealedDisk disk(keys.pages);
  S3O_TRY(heal(vault, command, disk));
  if (auto plain = raise_database(vault, disk); !plain) return fail(plain.error());
  Metrics metrics;
  S3O_ASSIGN(auto volume, open_volume(vault, keys, command, metrics, audience.command));
  FreeSpace space(vault.directory());
  S3O_ASSIGN(auto options, file_system_options(command));
  options.references = entrance.references;
  options.cache.free_bytes = [&, config = vault.config()] {
    const Room room = volume->device().room();
    const std::uint64_t block = config.params.block_size;
    std::uint64_t growth = room.more * block;
    if (config.local)  // its servers share one disk, and each reports all of it as free
      growth = std::min(growth, space.bytes() / disk_expansion(config.params));
    return room.blocks * block + growth;
  };
  options.database_room = [&, block = vault.config().params.block_size] {
    return space.bytes() / kDatabaseBytes * block;
  };
  const std::string database = vault.database().string();
  auto files =
      guarded([&] { return FileSystem::mount(volume->device(), database, options, disk); });
  Status outcome;
  std::optional<LockedState> locked;
  if (files) {
    const Watched watched{{command.mountpoint.string(), entrance.since}, *volume, **files, metrics};
    auto held = guarded([&] { return serve(command, watched, entrance, audience); });
    if (!held) outcome = fail(held.error());
    const bool is_held = held && *held;
    auto references = close_files(**files, is_held);
    if (!references && outcome) outcome = fail(references.error());
    if (references && is_held) {
      locked.emplace();
      locked->mount = std::move(**held);
      locked->references = std::move(*references);
    } else if (is_held) {
      held->reset();  // closes the device, so that nobody waits for an answer
      if (const Status gone = unmount(command.mountpoint); !gone)
        spdlog::warn("{}", gone.error().message);
    }
  } else {
    outcome = fail(advise_on_database(files.error(), command.vault));
  }
  auto closed = volume->close();
  if (!closed && (command.read_only || locked))  // no file data can be lost
    spdlog::warn("{}", closed.error().message);
  else if (!closed && outcome)
    outcome = fail(closed.error().code,
                   "all files are durable, but the volume could not be closed in order: {}",
                   closed.error().message);
  volume.reset();  // no callback into the files comes after this
  if (!outcome) return fail(std::move(outcome).error());
  if (!locked) return std::optional<LockedState>();
  locked->vault_lock = vault.lend_lock();
  locked->vault = vault.directory().string();
  locked->mountpoint = command.mountpoint.string();
  locked->since = entrance.since;
  return locked;
}

/// Asks the user for the credential, locks the vault, and returns its keys. rights.secret() has
/// what only root could read.
Result<VaultKeys> unlock_when_told(const MountCommand& command, const MountRights& rights,
                                   Vault& vault) {
  for (unsigned left =
           credential_tries(command.passphrase, command.keyfile, vault, rights.secret());
       ;) {
    const auto asked = key_file_of(vault);
    S3O_ASSIGN(auto credential, ask_for_credential(vault, command, rights.secret()));
    S3O_ASSIGN(vault, take_vault(rights.vault()));  // other commands may have changed it meanwhile
    if (!command.nonempty && !rights.is_for_other())
      S3O_TRY(check_hides_nothing(command.mountpoint));
    auto keys = unlock_vault(vault, credential, asked);
    if (keys || keys.error().code != Errc::wrong_passphrase || --left == 0) return keys;
    std::fputs("s3oramfs: wrong passphrase, try again\n", stderr);
    S3O_ASSIGN(vault, Vault::find(rights.vault()));  // not locked while the user types
  }
}

/// Mounts a vault for the first time, and serves it.
Result<std::optional<LockedState>> mount_vault(const MountCommand& command, Audience& audience) {
  if (!command.fake) S3O_TRY(clear_dead_mount(command.mountpoint));
  S3O_ASSIGN(auto rights, MountRights::settle(command));
  auto vault = Vault::find(rights.vault());
  if (!vault) return fail(vault.error());
  if (command.fake) return std::optional<LockedState>();
  S3O_TRY(check_vault(rights.vault()));
  S3O_ASSIGN(auto keys, unlock_when_told(command, rights, *vault));
  const bool in_background = audience.command.is_background();
  ServiceManager manager(in_background ? ServiceManager::Whose::another
                                       : ServiceManager::Whose::ours);
  S3O_TRY(enter_run_directory(*vault));
  if (in_background) S3O_TRY(log_to_file(command, vault->run_directory() / "fused.log"));
  S3O_TRY(SignalWatch::install());
  Entrance entrance;
  entrance.since = std::time(nullptr);
  entrance.cpu_latency = rights.take_cpu_latency();
  entrance.mount = [&](FileSystem& files) -> Result<std::unique_ptr<FuseMount>> {
    // Checked again, because unlocking the vault and opening the volume took a while.
    if (!command.nonempty && !rights.is_for_other())
      S3O_TRY(check_hides_nothing(command.mountpoint));
    S3O_ASSIGN(auto by_descriptor, rights.mount(command));
    const bool ours = by_descriptor.has_value();
    KernelMount mounted = std::move(by_descriptor).value_or(KernelMount());
    auto mount =
        FuseMount::create(files, mount_options(command, *vault), std::move(mounted.device));
    if (!mount && ours) static_cast<void>(unmount(command.mountpoint));  // nobody serves it
    if (!mount) return mount;
    Guard::start(ours ? std::move(mounted.abort) : Guard::abort_of(command.mountpoint));
    return mount;
  };
  entrance.ready = [&]() -> Status {
    S3O_TRY(audience.command.ready());
    spdlog::info("{} is mounted at {}", vault->directory().string(), command.mountpoint.string());
    manager.ready(fmt::format("{} is mounted", vault->directory().string()));
    return {};
  };
  auto locked = open_and_serve(command, *vault, keys, entrance, audience);
  if (locked && *locked) (*locked)->background = in_background;
  if (!locked || !*locked) manager.stopping();
  return locked;
}

/// Tries to open the vault of a locked mount. Answers the attempt when that has failed, or when
/// `locked` has handed the mount over; then it is null, and the mount is served until it ends or is
/// locked again.
Result<std::optional<LockedState>> try_to_unlock(const MountCommand& command, Vault& vault,
                                                 std::int64_t since,
                                                 std::unique_ptr<LockedMount>& locked,
                                                 LockedMount::Attempt& attempt,
                                                 Audience& audience) {
  S3O_ASSIGN(const auto keys, vault.unlock(attempt.credential()));
  Entrance entrance;
  entrance.since = since;
  entrance.references = locked->references();
  entrance.mount = [&](FileSystem& files) -> Result<std::unique_ptr<FuseMount>> {
    auto mount = FuseMount::resume(files, mount_options(command, vault), locked->hand_over(files));
    attempt.answer(mount ? Status() : Status(fail(mount.error())));
    locked.reset();  // its control socket makes way for ours
    return mount;
  };
  entrance.ready = [&]() -> Status {
    spdlog::info("unlocked: {} is at {}", vault.directory().string(), command.mountpoint.string());
    return {};
  };
  return open_and_serve(command, vault, keys, entrance, audience);
}

/// Holds a locked mount until it is unlocked, and then serves it.
Result<std::optional<LockedState>> serve_locked(const MountCommand& command, LockedState state,
                                                Audience& audience) {
  S3O_ASSIGN(auto vault, Vault::find(state.vault));
  vault.adopt_lock(std::move(state.vault_lock));
  const bool background = state.background;
  const std::int64_t since = state.since;
  S3O_TRY(SignalWatch::install());
  S3O_TRY(enter_run_directory(vault));
  if (background) S3O_TRY(log_to_file(command, vault.run_directory() / "fused.log"));
  S3O_ASSIGN(auto locked, LockedMount::start(std::move(state), largest_request(usable_memory()),
                                             kControlSocket, audience.at_the_end));
  spdlog::info("locked: {} at {}", vault.directory().string(), command.mountpoint.string());
  for (;;) {
    std::shared_ptr<LockedMount::Attempt> attempt;
    {
      SignalWatch signals;
      S3O_TRY(signals.start([&](int signal) {
        if (signal != SIGUSR1) locked->end();
      }));
      attempt = locked->next();
    }
    if (!attempt) break;
    auto outcome =
        guarded([&] { return try_to_unlock(command, vault, since, locked, *attempt, audience); });
    if (outcome && *outcome) (*outcome)->background = background;
    if (!locked) return outcome;
    attempt->answer(outcome ? Status() : Status(fail(outcome.error())));
    if (!outcome) spdlog::warn("not unlocked: {}", outcome.error().message);
  }
  const bool gone = locked->is_unmounted();
  locked.reset();
  if (!gone) S3O_TRY(unmount(command.mountpoint));
  return std::optional<LockedState>();
}

int main(int argc, char** argv) {
  auto resumed = take_locked_state(argc, argv);
  if (!resumed) {
    std::fprintf(stderr, "s3oramfs: %s\n", resumed.error().message.c_str());
    return static_cast<int>(resumed.error().code);
  }
  auto parsed = parse_mount_command(argc, argv);
  if (!parsed) {
    std::fprintf(stderr, "s3oramfs: %s\n", parsed.error().message.c_str());
    return static_cast<int>(parsed.error().code);
  }
  if (const auto* help = std::get_if<std::string>(&*parsed)) {
    std::fputs(help->c_str(), stdout);
    const Status written = output_written();
    if (written) return 0;
    std::fprintf(stderr, "s3oramfs: %s\n", written.error().message.c_str());
    return static_cast<int>(written.error().code);
  }
  auto& command = std::get<MountCommand>(*parsed);
  Audience audience;
  if (*resumed) {  // its arguments may have been relative to another directory
    command.vault = (*resumed)->vault;
    command.mountpoint = (*resumed)->mountpoint;
  } else if (!command.foreground) {
    auto started = Background::start([&command] {
      if (command.fake) return;
      const Status noted = note_umount_helper(command.vault, command.mountpoint);
      if (!noted) std::fprintf(stderr, "s3oramfs: warning: %s\n", noted.error().message.c_str());
    });
    if (!started) {
      std::fprintf(stderr, "s3oramfs: %s\n", started.error().message.c_str());
      return static_cast<int>(started.error().code);
    }
    audience.command = std::move(*started);
  }
  log_to_terminal(command);
  Status outcome;
  if (auto locked = guarded([&] {
        return *resumed ? serve_locked(command, std::move(**resumed), audience)
                        : mount_vault(command, audience);
      });
      !locked) {
    outcome = fail(locked.error());
  } else if (*locked) {
    SignalWatch::hold();
    outcome = fail(execute_locked(**locked, argc, argv));
    locked->reset();
    static_cast<void>(unmount(command.mountpoint));  // nobody serves it
  }
  if (outcome && command.fake) {
    outcome = audience.command.ready();
    return outcome ? 0 : static_cast<int>(outcome.error().code);
  }
  if (outcome)
    spdlog::info("unmounted; everything is durable");
  else if (audience.command.is_background())
    audience.command.failed(outcome.error());
  else
    spdlog::error("{}", outcome.error().message);
  audience.at_the_end.say(outcome);
  if (outcome) return 0;
  return static_cast<int>(outcome.error().code);
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  s3oram::open_standard_streams();
  if (argc == 2 && s3oram::Guard::kName == argv[0]) return s3oram::Guard::run(argv[1]);
  s3oram::forbid_core_dumps();
  s3oram::settle_limits();
  s3oram::keep_freed_memory(s3oram::usable_memory());
  return s3oram::main(argc, argv);
}
