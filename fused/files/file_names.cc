// Operations on names: lookup, creation, removal, renaming and listing.
#include <linux/fs.h>

#include <algorithm>

#include "fused/files/file_system.h"

namespace s3oram {

Posix<struct stat> FileSystem::lookup(Ino parent, std::string_view name) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, directories_.find(parent, name));
  return refer(*node);
}

Posix<struct stat> FileSystem::make(const Caller& caller, Ino parent, std::string_view name,
                                    const NewNode& what) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_TRY(inodes_.reserve_number(lock));
  S3O_POSIX_GET(directory, inodes_.known_directory(parent));
  const auto existing = directories_.child(*directory, name);
  if (existing) return posix_error(EEXIST);
  if (existing.error() != ENOENT) return posix_error(existing.error());
  S3O_POSIX_GET(inherited, acls_.inherit(caller, *directory, what.mode));
  const Inodes::NodePtr node =
      inodes_.make(caller, *directory, {inherited.mode, what.rdev, what.target});
  S3O_POSIX_TRY(directories_.add(*directory, name, *node, node->row.mtime));
  acls_.hand_down(inherited, *node);
  inodes_.add(node);
  return refer(*node);
}

Posix<struct stat> FileSystem::make_unnamed(const Caller& caller, Ino parent, std::uint32_t mode) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_TRY(inodes_.reserve_number(lock));
  S3O_POSIX_GET(directory, inodes_.known_directory(parent));
  if (directory->row.nlink == 0) return posix_error(ENOENT);
  S3O_POSIX_GET(inherited, acls_.inherit(caller, *directory, mode));
  const Inodes::NodePtr node = inodes_.make(caller, *directory, {inherited.mode, 0, {}});
  node->row.nlink = 0;
  node->row.ctime = node->row.mtime;
  node->unnamed = true;
  state_.store(*node);
  acls_.hand_down(inherited, *node);
  inodes_.add(node);
  return refer(*node);
}

Posix<struct stat> FileSystem::link(Ino ino, Ino parent, std::string_view name) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(node, inodes_.known(ino));
  S3O_POSIX_GET(directory, inodes_.known_directory(parent));
  if (is_directory(*node)) return posix_error(EPERM);
  if (node->row.nlink == 0 && !node->unnamed) return posix_error(ENOENT);
  if (node->row.nlink >= kMostLinks) return posix_error(EMLINK);
  const auto existing = directories_.child(*directory, name);
  if (existing) return posix_error(EEXIST);
  if (existing.error() != ENOENT) return posix_error(existing.error());
  ++node->row.nlink;
  if (auto added = directories_.add(*directory, name, *node, state_.timing.wall_clock()); !added) {
    --node->row.nlink;
    return posix_error(added.error());
  }
  node->unnamed = false;
  return refer(*node);
}

PosixStatus FileSystem::unlink(Ino parent, std::string_view name) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(directory, inodes_.known_directory(parent));
  S3O_POSIX_GET(node, directories_.child(*directory, name));
  if (is_directory(*node)) return posix_error(EISDIR);
  directories_.remove(*directory, name, *node);
  inodes_.end_or_tell(lock, node);
  return {};
}

PosixStatus FileSystem::rmdir(Ino parent, std::string_view name) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(directory, inodes_.known_directory(parent));
  S3O_POSIX_GET(node, directories_.child(*directory, name));
  if (!is_directory(*node)) return posix_error(ENOTDIR);
  S3O_POSIX_GET(empty, directories_.is_empty(*node));
  if (!empty) return posix_error(ENOTEMPTY);
  directories_.remove(*directory, name, *node);
  inodes_.end_or_tell(lock, node);
  return {};
}

std::vector<Ino> FileSystem::replacing(Ino parent, std::string_view name, Ino new_parent,
                                       std::string_view new_name, unsigned flags) {
  const Lock lock(state_.mutex);
  const auto from = inodes_.known_directory(parent);
  const auto to = inodes_.known_directory(new_parent);
  if (!from || !to) return {};
  std::vector<Ino> files;
  if (const auto nodes = directories_.replacing(**from, name, **to, new_name, flags))
    for (const Inodes::NodePtr& node : *nodes) files.push_back(node->ino);
  return files;
}

/// Flushes these nodes before a rename puts them in the place of others. The kernel locks both
/// directories, so no other operation changes the names during the flush.
PosixStatus FileSystem::flush_to_rename(Lock& lock, const std::vector<Inodes::NodePtr>& nodes,
                                        const std::function<bool()>& killed) {
  const bool waits =
      std::ranges::any_of(nodes, [](const Inodes::NodePtr& node) { return node->unflushed > 0; });
  if (rule_holds(Rule::rename_flush)) S3O_POSIX_TRY(flusher_.flush(lock, nodes));
  return waits && killed() ? posix_error(EINTR) : PosixStatus();
}

Posix<std::vector<Ino>> FileSystem::rename(Ino parent, std::string_view name, Ino new_parent,
                                           std::string_view new_name, unsigned flags,
                                           const std::function<bool()>& killed,
                                           const Caller& caller) {
  const bool whiteout = (flags & RENAME_WHITEOUT) != 0;
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0 ||
      (whiteout && (flags & RENAME_EXCHANGE) != 0))
    return posix_error(EINVAL);
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(from, inodes_.known_directory(parent));
  S3O_POSIX_GET(to, inodes_.known_directory(new_parent));
  S3O_POSIX_GET(brought, directories_.replacing(*from, name, *to, new_name, flags));
  S3O_POSIX_TRY(flush_to_rename(lock, brought, killed));
  // Only now, because others may take the number while the lock is released.
  if (whiteout) S3O_POSIX_TRY(inodes_.reserve_number(lock));
  if ((flags & RENAME_EXCHANGE) != 0) return directories_.exchange(*from, name, *to, new_name);
  S3O_POSIX_GET(node, directories_.child(*from, name));
  const auto target = directories_.child(*to, new_name);
  if (target) {
    if ((flags & RENAME_NOREPLACE) != 0) return posix_error(EEXIST);
    if (*target == node) return std::vector<Ino>();
    S3O_POSIX_TRY(directories_.check_replaceable(*node, **target));
    directories_.lose_name(*to, **target);
  } else if (target.error() != ENOENT) {
    return posix_error(target.error());
  }
  S3O_POSIX_TRY(directories_.add(*to, new_name, *node, state_.timing.wall_clock()));
  if (is_directory(*node)) --from->row.nlink;
  if (whiteout) {
    const Inodes::NodePtr left = inodes_.make(caller, *from, {S_IFCHR, 0, {}});
    S3O_POSIX_TRY(directories_.add(*from, name, *left, node->row.ctime));
    inodes_.add(left);
  } else {
    directories_.leave(*from, name);
    from->row.mtime = from->row.ctime = node->row.ctime;
    state_.store(*from);
  }
  if (target) inodes_.end_or_tell(lock, *target);
  return is_directory(*node) && from != to ? std::vector{node->ino} : std::vector<Ino>();
}

Posix<std::string> FileSystem::readlink(Ino ino) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  if (!S_ISLNK(node->row.mode)) return posix_error(EINVAL);
  return node->row.target;
}

void FileSystem::forget(Ino ino, std::uint64_t references) {
  Lock lock(state_.mutex);
  inodes_.forget(lock, ino, references);
}

Posix<std::vector<DirectoryEntry>> FileSystem::list(Ino ino, DirPosition after, std::size_t most) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(directory, inodes_.known_directory(ino));
  return directories_.list(*directory, after, most);
}

Posix<OpenedDirectory> FileSystem::open_directory(Ino ino) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(directory, inodes_.known_directory(ino));
  return OpenedDirectory{directories_.open(ino), directory->shrunk};
}

void FileSystem::close_directory(Ino ino) {
  const Lock lock(state_.mutex);
  directories_.close(ino);
}

Posix<std::int64_t> FileSystem::shrunk(Ino directory) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known_directory(directory));
  return node->shrunk;
}

}  // namespace s3oram
