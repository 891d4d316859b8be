// Gets a mount from the kernel, or from the daemon that was locked, and serves it.
#include "fused/daemon/mount_vault.h"

#include <spdlog/spdlog.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>

#include "fused/daemon/daemon_log.h"
#include "fused/daemon/guarded.h"
#include "fused/daemon/locked_mount.h"
#include "fused/daemon/mount_limits.h"
#include "fused/daemon/mount_rights.h"
#include "fused/daemon/mounts.h"
#include "fused/daemon/open_and_serve.h"
#include "fused/daemon/signal_watch.h"
#include "fused/daemon/unlock_vault.h"
#include "fused/kernel/fuse_mount.h"
#include "fused/kernel/guard.h"
#include "fused/kernel/kernel_mount.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/system_error.h"
#include "oramcore/service/manager.h"
#include "oramcore/vault/vault.h"

namespace s3oram {
namespace {

FuseMountOptions mount_options(const MountCommand& command, const Vault& vault) {
  return {command.mountpoint.string(), vault.directory().string(), command.fuse_options,
          largest_request(usable_memory())};
}

/// Changes to the directory of sockets and logs. A socket's path must be short, so it is relative
/// to this directory.
Status enter_run_directory(const Vault& vault) {
  std::error_code error;
  const std::filesystem::path run_directory = vault.run_directory();
  std::filesystem::create_directories(run_directory, error);
  if (!error) std::filesystem::current_path(run_directory, error);
  return error ? Status(system_failure(error.value(), "{}", run_directory.string())) : Status();
}

/// Tries to open the vault of a locked mount. Once `locked` has handed the mount over, answers the
/// attempt, sets `locked` to null, and serves the mount until it ends or is locked again.
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
    locked.reset();  // closes its control socket, to make way for ours
    return mount;
  };
  entrance.ready = [&]() -> Status {
    spdlog::info("unlocked: {} is at {}", vault.directory().string(), command.mountpoint.string());
    return {};
  };
  return open_and_serve(command, vault, keys, entrance, audience);
}

}  // namespace

Result<std::optional<LockedState>> mount_vault(const MountCommand& command, Audience& audience) {
  if (!command.fake) S3O_TRY(clear_dead_mount(command.mountpoint));
  S3O_ASSIGN(auto rights, MountRights::settle(command));
  auto vault = Vault::find(rights.vault());
  if (!vault) return fail(vault.error());
  if (command.fake) return std::optional<LockedState>();
  S3O_TRY(check_vault(rights.vault()));
  if (!command.nonempty && !rights.is_for_other())  // otherwise MountRights has checked
    S3O_TRY(check_hides_nothing(command.mountpoint));
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
    S3O_ASSIGN(auto by_descriptor, rights.mount(command));
    const bool ours = by_descriptor.has_value();
    KernelMount mounted = std::move(by_descriptor).value_or(KernelMount());
    auto mount =
        FuseMount::create(files, mount_options(command, *vault), std::move(mounted.device));
    if (!mount && ours) static_cast<void>(unmount(command.mountpoint));  // nothing serves it
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

}  // namespace s3oram
