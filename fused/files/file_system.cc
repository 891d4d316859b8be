// Mounting, unmounting, barriers and commits.
#include "fused/files/file_system.h"

#include <spdlog/spdlog.h>

#include <cstring>
#include <utility>

#include "fused/files/attributes.h"
#include "fused/files/block_check.h"

namespace s3oram {
namespace {

constexpr std::size_t kSmallBackup = 64;  // blocks; an unmount waits for a backup of this size

}  // namespace

FileSystem::FileSystem(BlockDevice& device, const FileSystemOptions& options)
    : state_(device, options),
      backups_(state_.mutex, device, state_.cache, state_.metadata.damage, state_.timing),
      commits_(state_, numbers_, backups_),
      inodes_(state_, numbers_, commits_),
      directories_(state_, inodes_),
      xattrs_(state_),
      acls_(state_, xattrs_),
      flusher_(state_, commits_, inodes_, directories_),
      backup_thread_(state_, commits_, backups_) {}

FileSystem::~FileSystem() {
  {
    const Lock lock(state_.mutex);
    state_.stopping = true;
  }
  stop_threads();
}

void FileSystem::stop_threads() {
  flusher_.join();
  backup_thread_.join();
}

// ---- mount -------------------------------------------------------------------------------------

Result<std::unique_ptr<FileSystem>> FileSystem::mount(BlockDevice& device,
                                                      const std::string& database,
                                                      const FileSystemOptions& options,
                                                      Disk& disk) {
  std::unique_ptr<FileSystem> fs(new FileSystem(device, options));
  if (Status started = fs->start(database, disk); !started) {
    device.set_participant(nullptr);  // the device lives on, and will commit when it closes
    return fail(std::move(started).error());
  }
  return fs;
}

Status FileSystem::start(const std::string& database, Disk& disk) {
  const std::vector<BlockId> mapped = state_.device.mapped();
  Lock lock(state_.mutex);
  const bool read_only = state_.options.read_only;
  const auto damaged = [&](const Error& error) {
    if (error.code != Errc::damaged_vault && error.code != Errc::failed) return fail(error);
    return fail(Errc::damaged_vault, "{}", error.message);
  };
  if (auto opened = state_.metadata.open(database, disk); !opened) return damaged(opened.error());
  state_.device.set_participant(this);
  if (state_.metadata.is_new()) {
    if (!mapped.empty())
      return damaged({Errc::damaged_vault, database + ": the tables of its files are gone"});
    if (read_only)
      return fail(Errc::failed, "{} holds no files yet; mount the vault once without -o ro",
                  database);
    state_.store(inodes_.make_root());
    if (!commits_.commit(lock))
      return fail(Errc::failed, "{}: the file tables could not be made", database);
    if (auto opened = state_.metadata.open_tables(); !opened) return damaged(opened.error());
  }
  // A read-only mount must work even if the tables are not whole.
  if (auto opened = backups_.open(database, disk, mapped); !opened && !read_only)
    return damaged(opened.error());
  if (auto examined = state_.metadata.examine(); !examined && !read_only)
    return damaged(examined.error());
  if (auto root = inodes_.load_root(); !root) return damaged(root.error());
  if (auto numbered = inodes_.number(); !numbered && !read_only) return damaged(numbered.error());
  if (auto lost = check_blocks(state_, backups_, mapped); lost)
    lost_blocks_ = *lost;
  else if (!read_only)
    return damaged(lost.error());
  if (!read_only)
    if (auto freed = inodes_.free_orphans(lock); !freed) return damaged(freed.error());
  if (auto looked = xattrs_.look_for_labels(); !looked && !read_only)
    return damaged(looked.error());
  S3O_TRY(flusher_.start());
  return state_.options.own_ticker ? backup_thread_.start() : Status();
}

// ---- unmount -----------------------------------------------------------------------------------

void FileSystem::hurry() {
  const Lock lock(state_.mutex);
  state_.cache.waits.hurry();
}

void FileSystem::bear_with_device() {
  const Lock lock(state_.mutex);
  state_.cache.waits.wake(true);
}

Status FileSystem::unmount() { return finish(false); }

Result<KernelReferences> FileSystem::suspend() {
  S3O_TRY(finish(true));
  const Lock lock(state_.mutex);
  return inodes_.kept();
}

std::vector<Ino> FileSystem::referenced() {
  const Lock lock(state_.mutex);
  return inodes_.referenced();
}

/// Makes everything durable, and ends all work.
Status FileSystem::finish(bool keep_references) {
  Lock lock(state_.mutex);
  const auto begun = state_.timing.now();
  state_.stopping = true;
  backup_thread_.end_backups();
  lock.unlock();
  stop_threads();
  lock.lock();
  DataCache& cache = state_.cache;
  if (state_.options.read_only) {
    // Positions have changed, but need not commit, because the old ones are valid after a crash.
    if (!cache.waits.until(lock, [&] { return is_idle(); }))
      spdlog::warn("requests to the servers did not finish in time");
    return {};
  }
  cache.keeps_unlinked = keep_references;
  if (!keep_references) inodes_.free_nameless(lock);
  auto outcome = cache.flush(lock, inodes_.unflushed(), true);
  flusher_.settle([](const Node& node) { return node.unflushed == 0; });
  if (auto last = commits_.commit(lock); outcome) outcome = last;
  const bool is_small = backups_.last_blocks() <= kSmallBackup;
  if (outcome && backups_.is_outdated() && state_.options.back_up_every.count() > 0 && is_small)
    if (auto backed_up = backup_thread_.back_up(lock, true); !backed_up)
      spdlog::warn("the last changes are in no backup yet ({})", std::strerror(backed_up.error()));
  // The device had all the time of the flush to finish, so it gets no second deadline.
  const bool idle = cache.waits.until_since(begun, lock, [&] { return is_idle(); });
  if (!outcome)
    return fail(code_of_barrier(outcome.error()),
                "not everything could be written: {} bytes of file data and {} changes of names "
                "and attributes since the last commit are lost ({})",
                cache.dirty_bytes(), state_.metadata.uncommitted(), std::strerror(outcome.error()));
  if (!idle) return fail(Errc::unreachable, "requests to the servers did not finish in time");
  return {};
}

bool FileSystem::is_idle() const {
  return state_.cache.in_flight() == 0 && backups_.writing() == 0 && commits_.waiting() == 0;
}

// ---- barriers ----------------------------------------------------------------------------------

PosixStatus FileSystem::sync(Ino ino) {
  Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  if (state_.options.read_only || !rule_holds(Rule::fsync_barrier)) return {};
  S3O_POSIX_TRY(flusher_.flush(lock, {node}));
  return commits_.commit(lock);
}

PosixStatus FileSystem::sync_names() {
  Lock lock(state_.mutex);
  if (state_.options.read_only) return {};
  return commits_.commit(lock);
}

PosixStatus FileSystem::sync_all() {
  Lock lock(state_.mutex);
  if (state_.options.read_only) return {};
  return flusher_.sync_all(lock);
}

PosixStatus FileSystem::back_up() {
  Lock lock(state_.mutex);
  if (state_.options.read_only) return posix_error(EROFS);
  return backup_thread_.back_up(lock);
}

void FileSystem::end_backups() {
  const Lock lock(state_.mutex);
  backup_thread_.end_backups();
}

Timing::Time FileSystem::beat() {
  Lock lock(state_.mutex);
  return flusher_.beat(lock);
}

std::function<Status(Database&)> FileSystem::snapshot() {
  const Lock lock(state_.mutex);
  return commits_.begin();
}

void FileSystem::committed(const Status& outcome) {
  const Lock lock(state_.mutex);
  commits_.end(outcome);
  backup_thread_.look_again();  // a backup may be due now, or due sooner
}

/// Returns the node's attributes, and counts one more reference of the kernel.
struct stat FileSystem::refer(const Node& node) {
  inodes_.refer(node);
  return attributes_of(node, state_.cache);
}

}  // namespace s3oram
