// s3oramfs-fused [options] VAULT MOUNTPOINT: opens the vault's volume, mounts its files, serves
// them until they are unmounted, and makes everything durable. Exits with an Errc.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "fused/background.h"
#include "fused/control.h"
#include "fused/cpu_latency.h"
#include "fused/file_system.h"
#include "fused/free_space.h"
#include "fused/fuse_loop.h"
#include "fused/fuse_mount.h"
#include "fused/guard.h"
#include "fused/heal.h"
#include "fused/metadata.h"
#include "fused/metrics_endpoint.h"
#include "fused/mount_status.h"
#include "fused/mounts.h"
#include "fused/options.h"
#include "fused/raise.h"
#include "oramcore/base/identity.h"
#include "oramcore/base/memory.h"
#include "oramcore/base/output.h"
#include "oramcore/base/process.h"
#include "oramcore/base/system_error.h"
#include "oramcore/client/volume.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/service/log.h"
#include "oramcore/service/manager.h"
#include "oramcore/state/advice.h"
#include "oramcore/state/credential.h"
#include "oramcore/state/vault.h"
#include "oramcore/tree/choose.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

constexpr auto kControlSocket = "control.sock";

/// After so long a user is told what is waited for.
constexpr auto kTakesLong = std::chrono::seconds(2);

/// Bytes of vault.db for each block of data.
constexpr std::uint64_t kDatabaseBytes = 128;

// ---- signals -----------------------------------------------------------------------------------

int signal_pipe[2] = {-1, -1};

/// Ends the mount on SIGTERM and SIGINT, from a thread of its own.
class SignalWatch {
 public:
  explicit SignalWatch(FuseMount& mount) {
    thread_ = std::thread([&mount] {
      char which = 0;
      while (::read(signal_pipe[0], &which, 1) < 0 && errno == EINTR) continue;
      if (which != 0) mount.stop();
    });
  }
  ~SignalWatch() {
    notify(0);
    thread_.join();
  }
  static Status install() {
    if (::pipe2(signal_pipe, O_CLOEXEC) != 0) return system_failure(errno, "pipe");
    struct sigaction action {};
    action.sa_flags = SA_RESTART;
    action.sa_handler = [](int number) { notify(static_cast<char>(number)); };
    for (const int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
    for (const int number : {SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
    return {};
  }

 private:
  static void notify(char which) {
    const int saved = errno;
    // The pipe holds thousands of signals; a lost one is a repeated one.
    [[maybe_unused]] const ssize_t sent = ::write(signal_pipe[1], &which, 1);
    errno = saved;
  }
  std::thread thread_;
};

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

Result<VaultKeys> unlock_vault(const Vault& vault, const MountCommand& command) {
  for (const auto& secret : {command.passphrase.passfile, command.keyfile})
    if (const std::string exposure = exposure_of(secret); !exposure.empty())
      spdlog::warn("{}", exposure);
  auto credential = existing_credential(command.passphrase, command.keyfile, vault);
  if (!credential) return fail(std::move(credential).error());
  return vault.unlock(*credential);
}

/// A damaged vault.db must not be searched, and not be written to.
Status heal(const Vault& vault, const MountCommand& command, SealedDisk& disk) {
  if (!stdfs::exists(vault.database())) return {};  // a new vault, or the next step tells
  auto healed = heal_database(vault.database(), HealFor::order, disk);
  if (!healed) return fail(advise_on_database(std::move(healed).error(), command.vault));
  if (!*healed) return {};
  spdlog::error(
      "vault.db was damaged ({}), and has been made again of the rows that could be read; "
      "as it was it is kept: {}",
      (*healed)->damage, (*healed)->copy.string());
  if ((*healed)->mended > 0)
    spdlog::warn("{} rows had each changed by one bit, and are as they were written again",
                 (*healed)->mended);
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

void log_to(const MountCommand& command, const stdfs::path& file, bool background) {
  if (background) {
    spdlog::drop("fused");
    spdlog::set_default_logger(spdlog::basic_logger_mt("fused", file.string()));
  } else {
    log_to_stderr("fused");
  }
  spdlog::set_level(spdlog::level::from_str(command.log_level));
  spdlog::flush_on(spdlog::level::info);
}

// ---- seen from outside -------------------------------------------------------------------------

/// What the control socket and the metrics tell of.
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

std::string metrics_page(const Watched& watched) {
  const auto links = watched.volume.server_traffic();  // whoever does not answer shows below
  gauge(watched.identity, state_of(watched), links, watched.metrics);
  return watched.metrics.text();
}

ControlHandler control_handler(const Watched& watched) {
  return [&watched](const std::string& request) -> std::string {
    if (request == "status") {
      const auto links = watched.volume.server_traffic();
      return control_answer(status_json(watched.identity, state_of(watched), links));
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
    if (request != "sync")
      return control_failure({Errc::bad_request, fmt::format("no such request: {}", request)});
    if (const auto synced = watched.files.sync_all(); !synced)
      return control_failure(
          {code_of_barrier(synced.error()),
           fmt::format("not everything is durable yet ({}); it stays in memory and is tried again",
                       std::strerror(synced.error()))});
    return control_answer({{"ok", true}});
  };
}

// ---- the daemon --------------------------------------------------------------------------------

/// Who waits for what becomes of it.
struct Audience {
  Background command;   // that started it, until it is ready
  LastWord at_the_end;  // those who unmount
};

/// Everything between an open volume and a closed one.
Status serve(const MountCommand& command, const Vault& vault, Identity& identity,
             const Watched& watched, Audience& audience, ServiceManager& manager) {
  Result<std::unique_ptr<FuseMount>> mount;
  Descriptor cpu_latency, abort;
  const auto mount_it = [&]() -> Status {
    // Once more: to unlock the vault and to open the volume took a while.
    S3O_TRY(check_mountpoint(command.mountpoint, vault.directory()));
    if (identity.is_for_other()) S3O_TRY(check_empty(command.mountpoint));
    mount = FuseMount::create(watched.files, {command.mountpoint.string(),
                                              vault.directory().string(), command.fuse_options});
    if (!mount) return fail(mount.error());
    cpu_latency = CpuLatency::of_this_machine();
    abort = Guard::abort_of(command.mountpoint);
    return {};
  };
  S3O_TRY(identity.as_root(mount_it));
  S3O_TRY(identity.settle());
  Guard::start(std::move(abort));
  auto control =
      ControlSocket::create(kControlSocket, control_handler(watched), audience.at_the_end);
  if (!control) return fail(control.error());
  std::unique_ptr<MetricsEndpoint> metrics;
  if (!command.metrics.empty()) {
    auto opened =
        MetricsEndpoint::open(command.metrics, [&watched] { return metrics_page(watched); });
    if (!opened) return fail(opened.error());
    metrics = std::move(*opened);
    spdlog::info("metrics are at http://{}/metrics", metrics->address());
  }
  const SignalWatch signals(**mount);
  S3O_TRY(audience.command.ready());
  spdlog::info("{} is mounted at {}", vault.directory().string(), command.mountpoint.string());
  manager.ready(fmt::format("{} is mounted", vault.directory().string()));
  return (*mount)->run(std::move(cpu_latency));
}

Status mount_vault(const MountCommand& command, Audience& audience) {
  auto vault = Vault::find(command.vault);
  if (!vault) return fail(vault.error());
  S3O_TRY(check_mountpoint(command.mountpoint, vault->directory()));
  if (command.fake) return {};
  S3O_TRY(lock_vault(*vault));
  const std::string database = vault->database().string();
  if (vault->config().ready && !stdfs::exists(database))
    return fail(
        advise_on_database({Errc::damaged_vault, database + ": it is gone"}, command.vault));
  // Opening the volume is a change already, at the servers too.
  if (auto known = Metadata::require_known_format(database); !known)
    return fail(advise_on_database(std::move(known).error(), command.vault));
  // By whoever mounts: a passphrase in /etc/fstab may be for root's eyes only.
  auto keys = unlock_vault(*vault, command);
  if (!keys) return fail(keys.error());
  const bool in_background = audience.command.is_background();
  ServiceManager manager(in_background ? ServiceManager::Whose::another
                                       : ServiceManager::Whose::ours);
  auto identity = Identity::become_owner_of(vault->directory());
  if (!identity) return fail(identity.error());
  // A socket's path must be short: it is named from its folder.
  std::error_code error;
  const stdfs::path run_directory = vault->run_directory();
  stdfs::create_directories(run_directory, error);
  if (!error) stdfs::current_path(run_directory, error);
  if (error) return system_failure(error.value(), "{}", run_directory.string());
  log_to(command, run_directory / "fused.log", in_background);
  S3O_TRY(SignalWatch::install());

  SealedDisk disk(keys->pages);
  S3O_TRY(heal(*vault, command, disk));
  if (auto plain = raise_database(*vault, disk); !plain) return fail(plain.error());
  Metrics metrics;
  auto volume = open_volume(*vault, *keys, command, metrics, audience.command);
  if (!volume) return fail(volume.error());
  FreeSpace space(vault->directory());
  FileSystemOptions options;
  options.cache.timing = &fuse_timing();
  options.cache.limit = command.cache;
  options.cache.deadline = command.timeout;
  options.cache.free_bytes = [&, config = vault->config()] {
    const Room room = (*volume)->device().room();
    const std::uint64_t block = config.params.block_size;
    std::uint64_t growth = room.more * block;
    if (config.local)  // each of its servers finds the whole disk
      growth = std::min(growth, space.bytes() / disk_expansion(config.params));
    return room.blocks * block + growth;
  };
  options.database_room = [&, block = vault->config().params.block_size] {
    return space.bytes() / kDatabaseBytes * block;
  };
  options.back_up_every = command.back_up_every;
  options.update_atime = command.update_atime;
  options.read_only = command.read_only;
  options.root_uid = command.root_uid.value_or(::getuid());
  options.root_gid = command.root_gid.value_or(::getgid());
  auto files = FileSystem::mount((*volume)->device(), database, options, disk);
  Status outcome;
  if (files) {
    const Watched watched{
        {command.mountpoint.string(), std::time(nullptr)}, **volume, **files, metrics};
    outcome = serve(command, *vault, *identity, watched, audience, manager);
    manager.stopping();
    spdlog::info("writing what is left");
    if (auto ended = (*files)->unmount(); outcome) outcome = std::move(ended);
  } else {
    outcome = fail(advise_on_database(files.error(), command.vault));
  }
  auto closed = (*volume)->close();
  if (!closed && command.read_only)  // nothing of the files is lost with it
    spdlog::warn("{}", closed.error().message);
  else if (!closed && outcome)
    outcome = fail(closed.error().code,
                   "all files are durable, but the volume could not be closed in order: {}",
                   closed.error().message);
  volume->reset();  // no callback into the files comes after this
  return outcome;
}

Status run_or_say_why(const MountCommand& command, Audience& audience) {
  try {
    return mount_vault(command, audience);
  } catch (const std::exception& error) {  // no memory, no more threads, and their like
    return fail(Errc::failed, "{}", error.what());
  }
}

int main(int argc, char** argv) {
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
  const auto& command = std::get<MountCommand>(*parsed);
  Audience audience;
  if (!command.foreground) {
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
  log_to(command, {}, false);
  Status outcome = run_or_say_why(command, audience);
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
  s3oram::keep_freed_memory();
  return s3oram::main(argc, argv);
}
