// Heals and opens the database, the volume and the files; closes them in the reverse order.
#include "fused/daemon/open_and_serve.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "fused/daemon/free_space.h"
#include "fused/daemon/guarded.h"
#include "fused/daemon/migration_watch.h"
#include "fused/daemon/mount_limits.h"
#include "fused/daemon/raise.h"
#include "fused/files/file_system.h"
#include "fused/kernel/fuse_loop.h"
#include "fused/kernel/id_map.h"
#include "fused/kernel/kernel_mount.h"
#include "fused/tables/heal.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/protocol/sizing.h"
#include "oramcore/vault/advice.h"
#include "oramcore/volume/volume.h"

namespace s3oram {
namespace {

/// After this time the user is told what the mount is waiting for.
constexpr auto kTakesLong = std::chrono::seconds(2);

/// Bytes of vault.db for each block of data.
constexpr std::uint64_t kDatabaseBytes = 128;

/// Heals a damaged vault.db. It must be neither searched nor written before that.
Status heal(const Vault& vault, const MountCommand& command, SealedDisk& disk) {
  // If vault.db does not exist, the vault is new, or the next step reports the loss. While blocks
  // move, vault.db is not healed, because a lost row of a block's place would bring back older
  // content of the block.
  if (!std::filesystem::exists(vault.database()) || vault.config().source) return {};
  auto healed = heal_database(vault.database(), HealFor::order, disk);
  if (!healed) return fail(advise_on_database(std::move(healed).error(), command.vault));
  if (!*healed) return {};
  spdlog::error(
      "vault.db was damaged ({}), and was recreated from the rows that could be read; "
      "the damaged file is kept as {}",
      (*healed)->damage, (*healed)->copy.string());
  if ((*healed)->mended > 0)
    spdlog::warn("{} rows had each changed by one bit, and were corrected", (*healed)->mended);
  if ((*healed)->gaps > 0)
    spdlog::error(
        "rows may be lost at {} places of vault.db: run s3oramfs fsck or s3oramfs restore",
        (*healed)->gaps);
  return {};
}

Result<std::unique_ptr<Volume>> open_volume(Vault& vault, const VaultKeys& keys,
                                            const MountCommand& command, Metrics& metrics,
                                            const Background& waiting) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
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
    return fail(Errc::usage,
                "-o uid, -o gid: outside of this user namespace that id does not exist");
  return options;
}

/// Tells the file system how much room the device and the vault's disk have for it. The arguments
/// must outlive the file system. `height` is the height that the tree had a moment ago; the volume
/// itself must not be asked under the lock of the file system.
void bound_by_room(FileSystemOptions& options, Volume& volume, FreeSpace& space,
                   const std::atomic<unsigned>& height) {
  const std::uint64_t block = volume.device().block_size();
  options.cache.free_bytes = [&volume, &space, &height, block] {
    const Room room = volume.device().room();
    std::uint64_t growth = room.more * block;
    // Local servers share one disk, and each of them reports all of its free room.
    if (const auto local = volume.local())
      growth =
          std::min(growth, growth_that_fits(*local, local->scheme.servers, height, space.bytes()));
    return room.blocks * block + growth;
  };
  options.database_room = [&space, block] { return space.bytes() / kDatabaseBytes * block; };
}

/// Closes the files that serve() has used. Returns the kernel's references if the mount is held.
Result<KernelReferences> close_files(FileSystem& files, bool held) {
  spdlog::info("writing everything that is not yet durable");
  if (held) return files.suspend();
  S3O_TRY(files.unmount());
  return KernelReferences();
}

/// Serves the files, and closes them. If the mount is to be locked, returns what is left of it.
Result<std::optional<LockedState>> serve_and_close(const MountCommand& command,
                                                   const Watched& watched,
                                                   MigrationWatch& migration, Entrance& entrance,
                                                   Audience& audience) {
  auto held = guarded([&] { return serve(command, watched, entrance, audience); });
  const bool is_held = held && *held;
  migration.leave_files();
  auto references = close_files(watched.files, is_held);
  if (is_held && !references) {
    held->reset();  // closes the device, so that no program waits for an answer
    if (const Status gone = unmount(command.mountpoint); !gone)
      spdlog::warn("{}", gone.error().message);
  }
  if (!held) return fail(std::move(held).error());
  if (!references) return fail(std::move(references).error());
  if (!is_held) return std::optional<LockedState>();
  LockedState locked;
  locked.mount = std::move(**held);
  locked.references = std::move(*references);
  return locked;
}

/// Closes the volume after its files. `served` is their outcome; a failure of the volume itself
/// becomes the outcome only if the files are durable and may have changed.
void close_volume(const MountCommand& command, Volume& volume,
                  Result<std::optional<LockedState>>& served) {
  const auto closed = volume.close();
  if (closed) return;
  if (command.read_only || (served && *served))  // no file data can be lost
    spdlog::warn("{}", closed.error().message);
  else if (served)
    served = fail(closed.error().code,
                  "all files are durable, but the volume could not be closed properly: {}",
                  closed.error().message);
}

}  // namespace

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
  std::atomic<unsigned> height = volume->status().height;
  S3O_ASSIGN(auto options, file_system_options(command));
  options.references = entrance.references;
  bound_by_room(options, *volume, space, height);
  const std::string database = vault.database().string();
  auto files =
      guarded([&] { return FileSystem::mount(volume->device(), database, options, disk); });
  const auto serve_them = [&]() -> Result<std::optional<LockedState>> {
    if (!files) return fail(advise_on_database(files.error(), command.vault));
    S3O_ASSIGN(const auto migration, MigrationWatch::start(*volume, **files));
    const Watched watched{{command.mountpoint.string(), entrance.since},
                          *volume,
                          **files,
                          *migration,
                          metrics,
                          height};
    return serve_and_close(command, watched, *migration, entrance, audience);
  };
  auto served = serve_them();
  close_volume(command, *volume, served);
  volume.reset();  // no callback into the files comes after this
  if (!served || !*served) return served;
  LockedState& locked = **served;
  locked.vault_lock = vault.lend_lock();
  locked.vault = vault.directory().string();
  locked.mountpoint = command.mountpoint.string();
  locked.since = entrance.since;
  return served;
}

}  // namespace s3oram
