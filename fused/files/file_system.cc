// Mounting and unmounting, and the life of nodes.
#include "fused/files/file_system.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>

#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::size_t kSmallBackup = 64;  // blocks: an unmount waits for it

constexpr std::size_t kFreedAtOnce = 8'192;  // blocks of a deleted file

bool is_usable(const InodeRow& row) {
  return is_file_type(row.mode & S_IFMT) && row.size <= kLargestFile &&
         row.target.find('\0') == std::string::npos && S_ISLNK(row.mode) != row.target.empty();
}

}  // namespace

FileSystem::FileSystem(BlockDevice& device, const FileSystemOptions& options)
    : device_(device),
      options_(options),
      timing_(*options.cache.timing),
      cache_(mutex_, device, metadata_, options.cache),
      backups_(mutex_, device, cache_, metadata_.damage, timing_),
      durable_at_(timing_.now()) {}

FileSystem::~FileSystem() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  stop_threads();
}

void FileSystem::stop_threads() {
  ticker_wakes_.notify_all();
  backup_wakes_.notify_all();
  if (ticker_.joinable()) ticker_.join();
  if (backup_thread_.joinable()) backup_thread_.join();
}

// ---- mount and unmount -------------------------------------------------------------------------

Result<std::unique_ptr<FileSystem>> FileSystem::mount(BlockDevice& device,
                                                      const std::string& database,
                                                      const FileSystemOptions& options,
                                                      Disk& disk) {
  std::unique_ptr<FileSystem> fs(new FileSystem(device, options));
  if (Status started = fs->start(database, disk); !started) {
    device.set_participant(nullptr);  // the device lives on, and commits once more when it closes
    return fail(std::move(started).error());
  }
  return fs;
}

Status FileSystem::start(const std::string& database, Disk& disk) {
  const std::vector<BlockId> mapped = device_.mapped();
  Lock lock(mutex_);
  const auto damaged = [&](const Error& error) {
    if (error.code != Errc::damaged_vault && error.code != Errc::failed) return fail(error);
    return fail(Errc::damaged_vault, "{}", error.message);
  };
  if (auto opened = metadata_.open(database, disk); !opened) return damaged(opened.error());
  device_.set_participant(this);
  if (metadata_.is_new()) {
    if (!mapped.empty())
      return damaged({Errc::damaged_vault, database + ": the tables of its files are gone"});
    if (options_.read_only)
      return fail(Errc::failed, "{}: holds no files yet: mount it once without -o ro", database);
    store(make_root());
    if (!commit(lock)) return fail(Errc::failed, "{}: the file tables could not be made", database);
    if (auto opened = metadata_.open_tables(); !opened) return damaged(opened.error());
  }
  if (auto opened = backups_.open(database, disk, mapped); !opened && !options_.read_only)
    return damaged(opened.error());
  if (auto examined = metadata_.examine(); !examined && !options_.read_only)
    return damaged(examined.error());
  if (auto root = load_root(); !root) return damaged(root.error());
  // A read-only mount must not need the tables to be whole.
  if (auto numbered = number_inodes(); !numbered && !options_.read_only)
    return damaged(numbered.error());
  if (auto numbered = number_blocks(mapped); !numbered && !options_.read_only)
    return damaged(numbered.error());
  if (!options_.read_only)
    if (auto freed = free_orphans(lock); !freed) return damaged(freed.error());
  if (auto looked = look_for_labels(); !looked && !options_.read_only)
    return damaged(looked.error());
  next_tick_ = timing_.now() + options_.commit_every;
  return options_.own_ticker ? start_threads() : Status{};
}

Status FileSystem::start_threads() {
  auto ticker = start_thread("commits", [this] { run_ticker(); });
  if (!ticker) return fail(std::move(ticker).error());
  ticker_ = std::move(*ticker);
  if (options_.back_up_every.count() == 0 || options_.read_only) return {};
  auto backups = start_thread("backups of the names", [this] { run_backups(); });
  if (!backups) return fail(std::move(backups).error());
  backup_thread_ = std::move(*backups);
  cache_.want_backup = [this] { want_backup(); };
  return {};
}

Node& FileSystem::make_root() {
  auto root = std::make_shared<Node>();
  root->ino = kRootIno;
  root->row.mode = S_IFDIR | 0755;
  root->row.uid = options_.root_uid;
  root->row.gid = options_.root_gid;
  root->row.nlink = 2;
  root->row.atime = root->row.mtime = root->row.ctime = timing_.wall_clock();
  root->row.parent = kRootIno;
  return *nodes_.emplace(kRootIno, root).first->second;
}

/// Makes the root directory again if its attributes are lost, because its names do not depend on
/// them. Uses damaged attributes as they read; they stay damaged until they change.
Status FileSystem::load_root() {
  auto stored = metadata_.inodes.find(kRootIno);
  const bool hidden = !stored && stored.error().code == Errc::damaged_vault;
  if (!stored && !hidden && !options_.read_only) return fail(stored.error());
  const bool there = stored && *stored;
  if (there && is_usable(**stored) && S_ISDIR((*stored)->mode) && (*stored)->nlink > 0) {
    if (!load(kRootIno)) return fail(Errc::damaged_vault, "the root directory is unreadable");
  } else {
    tell_of_damage(kRootIno, "the attributes of the root directory are damaged");
    if (!there) ++inodes_;
    Node& root = make_root();
    const auto directories = metadata_.number(fmt::format(
        "SELECT COUNT(*) FROM dentries WHERE parent = {} AND type = {}", kRootIno, S_IFDIR));
    if (directories) root.row.nlink += static_cast<std::uint32_t>(*directories);
    if (there) {
      root.row.mode = S_IFDIR | ((*stored)->mode & 07777);
      root.row.uid = (*stored)->uid;
      root.row.gid = (*stored)->gid;
      root.row.mtime = (*stored)->mtime;
    } else if (!hidden) {
      store(root);
    }
  }
  references_ = options_.references.counts;
  references_[kRootIno] = 1;  // never forgotten
  return {};
}

Status FileSystem::number_inodes() {
  S3O_ASSIGN(auto last, metadata_.largest_ino());
  S3O_ASSIGN(auto reserved, metadata_.reserved_inodes());
  reserved_ = reserved;
  next_ino_ = std::max(last + 1, reserved_);
  S3O_ASSIGN(auto count, metadata_.number("SELECT COUNT(*) FROM inodes"));
  inodes_ += static_cast<std::uint64_t>(count);
  return {};
}

/// Finds out which blocks are free and which extents can be believed. Frees blocks that were
/// written before a crash and whose extents did not commit.
Status FileSystem::number_blocks(const std::vector<BlockId>& mapped) {
  auto places = metadata_.owned_places();
  if (!places) {
    cache_.held.reset(mapped, {}, cache_.block_size());
    return fail(places.error());
  }
  cache_.held.reset(mapped, *places, cache_.block_size());
  const std::vector<BlockId> backups = backups_.blocks();
  for (const BlockId block : backups) cache_.held.released(block);  // they belong to no file
  std::set<BlockId> owned(backups.begin(), backups.end());
  S3O_ASSIGN(auto counted, metadata_.number("SELECT CAST(TOTAL(blocks) AS INTEGER) FROM inodes"));
  cache_.extents.damaged = static_cast<std::uint64_t>(counted) > places->size() ||
                           (!places->empty() && places->back().place == kImpossibleBlock);
  if (cache_.held.any_bad())
    metadata_.damage.note("vault.db, table extents: two files claim the same block");
  for (const OwnedPlace& each : *places) {
    owned.insert(block_of(each.place));
    if (!is_packed(each.place)) continue;
    const bool good = cache_.held.good(each.place);
    if (good) cache_.packs.add(each.place, each.valid);
    // Unknown pieces may lie in the pack. A use that nobody releases keeps it from being freed.
    if (!good || cache_.extents.damaged) cache_.packs.add(each.place, 0);
  }
  std::vector<BlockId> lost, unowned;
  std::set_difference(owned.begin(), owned.end(), mapped.begin(), mapped.end(),
                      std::back_inserter(lost));
  cache_.numbers.reset(mapped, {lost.begin(), lost.end()},
                       backups_.any() || options_.back_up_every.count() > 0);
  std::erase(lost, block_of(kImpossibleBlock));
  lost_blocks_ = lost.size();
  if (!lost.empty())
    spdlog::error("{} blocks of files are lost, and reading them will fail: run s3oramfs fsck",
                  lost.size());
  if (options_.read_only) return {};
  std::set_difference(mapped.begin(), mapped.end(), owned.begin(), owned.end(),
                      std::back_inserter(unowned));
  // If tables are damaged, a block without an owner may belong to a lost row. If blocks are
  // missing, it may be one of them under another number.
  if (!unowned.empty() && (cache_.extents.damaged || metadata_.damage.any() || !lost.empty())) {
    spdlog::error(
        "{} blocks belong to no file, as far as can be told: they are kept until "
        "s3oramfs fsck --repair has mended the extents",
        unowned.size());
    return {};
  }
  for (const BlockId block : unowned)
    if (cache_.numbers.release(block)) device_.discard(block);
  if (!unowned.empty()) spdlog::info("freed {} blocks of the last mount", unowned.size());
  return {};
}

/// Frees files that were unlinked while open, and that a crash left. Those that the kernel still
/// refers to stay in memory, as unlinked files do.
Status FileSystem::free_orphans(Lock& lock) {
  S3O_ASSIGN(auto orphans, metadata_.orphans());
  std::size_t freed = 0;
  for (const Ino ino : orphans) {
    auto node = load(ino, true);
    if (node && references_.contains(ino)) continue;
    if (!node || !end(lock, *node))
      spdlog::error("the unlinked inode {} cannot be freed: run s3oramfs fsck", ino);
    ++freed;
  }
  if (freed > 0) spdlog::info("freed {} unlinked files of the last mount", freed);
  for (const Ino ino : options_.references.unnamed)
    if (const auto node = nodes_.find(ino); node != nodes_.end()) node->second->unnamed = true;
  return {};
}

void FileSystem::hurry() {
  const Lock lock(mutex_);
  cache_.waits.hurry();
}

Status FileSystem::unmount() { return finish(false); }

Result<KernelReferences> FileSystem::suspend() {
  S3O_TRY(finish(true));
  const Lock lock(mutex_);
  KernelReferences kept{references_, {}};
  for (const auto& [ino, node] : nodes_)
    if (node->unnamed) kept.unnamed.push_back(ino);
  return kept;
}

std::vector<Ino> FileSystem::referenced() {
  const Lock lock(mutex_);
  std::vector<Ino> inodes;
  for (const auto& [ino, count] : references_) inodes.push_back(ino);
  return inodes;
}

/// Frees unlinked files when the kernel refers to none. It sends no forgets at an unmount.
void FileSystem::free_nameless(Lock& lock) {
  references_.clear();
  std::vector<NodePtr> nameless;
  for (const auto& [ino, node] : nodes_)
    if (node->row.nlink == 0) nameless.push_back(node);
  for (const NodePtr& node : nameless)
    if (!end(lock, node)) spdlog::warn("unlinked inode {} is freed at the next mount", node->ino);
}

/// Makes everything durable, and ends all work.
Status FileSystem::finish(bool keep_references) {
  Lock lock(mutex_);
  const auto begun = timing_.now();
  stopping_ = true;
  lock.unlock();
  stop_threads();
  lock.lock();
  if (options_.read_only) {
    // Positions have changed, but need not commit: after a crash the old ones are valid.
    if (!cache_.waits.until(lock, [&] { return is_idle(); }))
      spdlog::warn("the device does not finish");
    return {};
  }
  cache_.keeps_unlinked = keep_references;
  if (!keep_references) free_nameless(lock);
  auto outcome = cache_.flush(lock, unflushed_nodes(), true);
  settle([](const Node& node) { return node.unflushed == 0; });
  if (auto last = commit(lock); outcome) outcome = last;
  const bool is_small = backups_.last_blocks() <= kSmallBackup;
  if (outcome && backups_.is_outdated() && options_.back_up_every.count() > 0 && is_small)
    if (auto backed_up = back_up(lock, true); !backed_up)
      spdlog::warn("the last changes are in no backup yet ({})", std::strerror(backed_up.error()));
  // The device had the whole flush to finish; it gets no second deadline.
  const bool idle = cache_.waits.until_since(begun, lock, [&] { return is_idle(); });
  if (!outcome)
    return fail(code_of_barrier(outcome.error()),
                "not everything could be written: {} bytes of file data and {} changes of names "
                "and attributes since the last commit are lost ({})",
                cache_.dirty_bytes(), metadata_.uncommitted(), std::strerror(outcome.error()));
  if (!idle) return fail(Errc::unreachable, "the device does not finish");
  return {};
}

// ---- nodes -------------------------------------------------------------------------------------

/// Returns a node that the kernel has looked up. ESTALE for others.
Posix<FileSystem::NodePtr> FileSystem::known(Ino ino) {
  if (!references_.contains(ino)) return posix_error(ESTALE);
  return load(ino);
}

Posix<FileSystem::NodePtr> FileSystem::known_directory(Ino ino) {
  auto node = known(ino);
  if (node && !S_ISDIR((*node)->row.mode)) return posix_error(ENOTDIR);
  return node;
}

void FileSystem::tell_of_damage(Ino ino, const std::string& what) {
  metadata_.damage.note(fmt::format("inode {}: {}", ino, what));
}

/// Returns the node, from its row if it is not in memory. `unlinked` is true for a node that no
/// name leads to; for others a link count of 0 is damage.
Posix<FileSystem::NodePtr> FileSystem::load(Ino ino, bool unlinked) {
  if (const auto found = nodes_.find(ino); found != nodes_.end()) return found->second;
  S3O_POSIX_GET(row, metadata_.inodes.find(ino));
  if (!row) {
    tell_of_damage(ino, "a name leads to it, and it does not exist");
    return posix_error(EIO);
  }
  if (!is_usable(*row) || (row->nlink == 0 && !unlinked)) {
    tell_of_damage(ino, "its attributes are damaged");
    return posix_error(EIO);
  }
  auto node = std::make_shared<Node>();
  node->ino = ino;
  node->row = *row;
  node->size = row->size;
  node->shrunk = row->ctime;
  nodes_.emplace(ino, node);
  return node;
}

/// Returns a node by a number that the kernel may not know and that need not exist.
Posix<FileSystem::NodePtr> FileSystem::named(Ino ino) {
  if (!nodes_.contains(ino)) {
    S3O_POSIX_GET(row, metadata_.inodes.find(ino));
    if (!row || row->nlink == 0) return posix_error(ESTALE);
  }
  S3O_POSIX_GET(node, load(ino));
  return node->row.nlink > 0 ? Posix<NodePtr>(node) : posix_error(ESTALE);
}

Posix<FileSystem::NodePtr> FileSystem::child(Node& directory, std::string_view name) {
  if (name.size() > 255) return posix_error(ENAMETOOLONG);
  S3O_POSIX_GET(entry, metadata_.dentries.find({directory.ino, std::string(name)}));
  if (!entry) return posix_error(ENOENT);
  S3O_POSIX_GET(node, load(entry->ino));
  if ((node->row.mode & S_IFMT) == entry->type) return node;
  tell_of_damage(node->ino, "it is not what its name says");
  return posix_error(EIO);
}

/// Returns the attributes, and counts one more reference of the kernel.
struct stat FileSystem::refer(Node& node) {
  ++references_[node.ino];
  return attributes(node);
}

PosixStatus FileSystem::end(Lock& lock, const NodePtr& node) {
  if (node->row.nlink > 0 || references_.contains(node->ino)) return {};
  idle_.erase(node->ino);
  S3O_POSIX_TRY(cache_.settle(*node));
  for (std::uint64_t next = 0;;) {
    S3O_POSIX_GET(more, cache_.free_blocks(*node, next, kFreedAtOnce));
    if (!more) break;
    // Waiting for a commit lets other operations run. committed() logs a failure, and the ticker
    // tries again.
    std::ignore = commit(lock);
  }
  std::vector<XattrKey> xattrs;
  S3O_POSIX_TRY(metadata_.xattrs.scan({node->ino, {}}, [&](const XattrKey& key, const auto&) {
    xattrs.push_back(key);
    return true;
  }));
  for (const XattrKey& key : xattrs) metadata_.xattrs.erase(key);
  metadata_.inodes.erase(node->ino);
  --inodes_;
  nodes_.erase(node->ino);
  return {};
}

void FileSystem::drop_if_idle(Ino ino) {
  const auto found = nodes_.find(ino);
  if (found == nodes_.end() || references_.contains(ino)) {
    idle_.erase(ino);
  } else if (found->second->blocks.empty() && !found->second->replacement) {
    nodes_.erase(found);
    idle_.erase(ino);
  } else {
    idle_.insert(ino);
  }
}

void FileSystem::forget(Ino ino, std::uint64_t references) {
  Lock lock(mutex_);
  const auto counted = references_.find(ino);
  if (counted == references_.end()) return;
  counted->second -= std::min(counted->second, references);
  if (counted->second > 0) return;
  references_.erase(counted);
  const auto found = nodes_.find(ino);
  if (found == nodes_.end()) return;
  const NodePtr node = found->second;
  if (node->row.nlink > 0)
    drop_if_idle(ino);
  else if (!end(lock, node))
    spdlog::warn("unlinked inode {} is freed at the next mount", ino);
}

}  // namespace s3oram
