// Names: lookup, creation, removal, renaming and listing.
#include <linux/fs.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "fused/files/file_system.h"

namespace s3oram {
namespace {

constexpr std::uint32_t kMostLinks = 2'000'000'000;

bool is_directory(const Node& node) { return S_ISDIR(node.row.mode); }

}  // namespace

Posix<struct stat> FileSystem::lookup(Ino parent, std::string_view name) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, find(parent, name));
  return refer(*node);
}

Posix<FileSystem::NodePtr> FileSystem::find(Ino parent, std::string_view name) {
  if (name == ".") return named(parent);
  S3O_POSIX_GET(directory, known_directory(parent));
  return name == ".." ? named(directory->row.parent) : child(*directory, name);
}

/// Makes the name lead to the node, whether or not the name exists. The caller updates the nodes.
void FileSystem::enter(const Node& directory, std::string_view name, const Node& node) {
  const std::uint32_t type = node.row.mode & S_IFMT;
  metadata_.dentries.put({directory.ino, std::string(name)}, {node.ino, type});
  if (Listing* listing = listings_.find(directory.ino))
    listing->put(std::string(name), node.ino, type);
}

/// Takes the name out of the directory. The caller updates the nodes.
void FileSystem::leave(Node& directory, std::string_view name) {
  metadata_.dentries.erase({directory.ino, std::string(name)});
  if (Listing* listing = listings_.find(directory.ino)) listing->erase(std::string(name));
  directory.shrunk = timing_.wall_clock();
}

Posix<bool> FileSystem::is_empty(const Node& directory) {
  bool empty = true;
  S3O_POSIX_GET(whole, metadata_.dentries.scan({directory.ino, {}}, [&](const auto&, const auto&) {
    return empty = false;
  }));
  if (empty && !whole) return lost_names(directory.ino);
  return empty;
}

tl::unexpected<int> FileSystem::lost_names(Ino directory) {
  tell_of_damage(directory, "names of this directory may be lost, or hidden by a damaged row");
  return posix_error(EIO);
}

/// Enters a name that does not exist, or that lose_name() has taken from another node. The caller
/// updates the link count of `node`.
PosixStatus FileSystem::add_name(Node& directory, std::string_view name, Node& node,
                                 std::int64_t now) {
  if (directory.row.nlink == 0) return posix_error(ENOENT);
  if (is_directory(node) && directory.row.nlink >= kMostLinks) return posix_error(EMLINK);
  enter(directory, name, node);
  if (is_directory(node)) {
    ++directory.row.nlink;
    node.row.parent = directory.ino;
  }
  node.row.ctime = directory.row.mtime = directory.row.ctime = now;
  store(directory);
  store(node);
  return {};
}

/// Removes a name of `node`, which may be its last: see end().
void FileSystem::remove_name(Node& directory, std::string_view name, Node& node) {
  leave(directory, name);
  lose_name(directory, node);
}

/// Takes a link from the node. The caller removes the name itself.
void FileSystem::lose_name(Node& directory, Node& node) {
  if (is_directory(node)) {
    --directory.row.nlink;
    node.row.nlink = 0;
  } else {
    --node.row.nlink;
  }
  node.row.ctime = directory.row.mtime = directory.row.ctime = timing_.wall_clock();
  store(directory);
  store(node);
}

/// Makes next_ino_ a number that may be given to an inode. Waits for a commit if it is not.
PosixStatus FileSystem::reserve_number(Lock& lock) {
  makes_inodes_ = true;
  while (next_ino_ >= reserved_) S3O_POSIX_TRY(commit(lock));
  return {};
}

Posix<struct stat> FileSystem::make(const Caller& caller, Ino parent, std::string_view name,
                                    const NewNode& what) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_TRY(reserve_number(lock));
  S3O_POSIX_GET(directory, known_directory(parent));
  const auto existing = child(*directory, name);
  if (existing) return posix_error(EEXIST);
  if (existing.error() != ENOENT) return posix_error(existing.error());
  S3O_POSIX_GET(inherited, inherit(caller, *directory, what.mode));
  const NodePtr node = new_node(caller, *directory, {inherited.mode, what.rdev, what.target});
  S3O_POSIX_TRY(add_name(*directory, name, *node, node->row.mtime));
  hand_down(inherited, *node);
  settle_number(node);
  return refer(*node);
}

Posix<struct stat> FileSystem::make_unnamed(const Caller& caller, Ino parent, std::uint32_t mode) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_TRY(reserve_number(lock));
  S3O_POSIX_GET(directory, known_directory(parent));
  if (directory->row.nlink == 0) return posix_error(ENOENT);
  S3O_POSIX_GET(inherited, inherit(caller, *directory, mode));
  const NodePtr node = new_node(caller, *directory, {inherited.mode, 0, {}});
  node->row.nlink = 0;
  node->row.ctime = node->row.mtime;
  node->unnamed = true;
  store(*node);
  hand_down(inherited, *node);
  settle_number(node);
  return refer(*node);
}

/// Makes a node without a name. It has the next number, which settle_number() then uses up.
FileSystem::NodePtr FileSystem::new_node(const Caller& caller, const Node& directory,
                                         const NewNode& what) {
  const bool inherit = (directory.row.mode & S_ISGID) != 0;
  auto node = std::make_shared<Node>();
  node->ino = next_ino_;
  node->row.mode = what.mode | (inherit && S_ISDIR(what.mode) ? S_ISGID : 0);
  node->row.uid = caller.uid;
  node->row.gid = inherit ? directory.row.gid : caller.gid;
  node->row.nlink = S_ISDIR(what.mode) ? 2 : 1;
  node->row.rdev = what.rdev;
  node->row.target = what.target;
  node->row.size = node->size = what.target.size();
  node->row.atime = node->row.mtime = timing_.wall_clock();
  node->xattr_names = 0;
  return node;
}

void FileSystem::settle_number(const NodePtr& node) {
  ++next_ino_;
  ++inodes_;
  nodes_.emplace(node->ino, node);
}

Posix<struct stat> FileSystem::link(Ino ino, Ino parent, std::string_view name) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(node, known(ino));
  S3O_POSIX_GET(directory, known_directory(parent));
  if (is_directory(*node)) return posix_error(EPERM);
  if (node->row.nlink == 0 && !node->unnamed) return posix_error(ENOENT);
  if (node->row.nlink >= kMostLinks) return posix_error(EMLINK);
  const auto existing = child(*directory, name);
  if (existing) return posix_error(EEXIST);
  if (existing.error() != ENOENT) return posix_error(existing.error());
  ++node->row.nlink;
  if (auto added = add_name(*directory, name, *node, timing_.wall_clock()); !added) {
    --node->row.nlink;
    return posix_error(added.error());
  }
  node->unnamed = false;
  return refer(*node);
}

PosixStatus FileSystem::unlink(Ino parent, std::string_view name) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(directory, known_directory(parent));
  S3O_POSIX_GET(node, child(*directory, name));
  if (is_directory(*node)) return posix_error(EISDIR);
  remove_name(*directory, name, *node);
  return end(lock, node);
}

PosixStatus FileSystem::rmdir(Ino parent, std::string_view name) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(directory, known_directory(parent));
  S3O_POSIX_GET(node, child(*directory, name));
  if (!is_directory(*node)) return posix_error(ENOTDIR);
  S3O_POSIX_GET(empty, is_empty(*node));
  if (!empty) return posix_error(ENOTEMPTY);
  remove_name(*directory, name, *node);
  return end(lock, node);
}

PosixStatus FileSystem::check_replaceable(const Node& node, Node& target) {
  if (is_directory(target) && !is_directory(node)) return posix_error(EISDIR);
  if (!is_directory(target) && is_directory(node)) return posix_error(ENOTDIR);
  if (!is_directory(target)) return {};
  S3O_POSIX_GET(empty, is_empty(target));
  return empty ? PosixStatus() : posix_error(ENOTEMPTY);
}

/// Returns the nodes whose content a rename puts in the place of another's, for flush_to_rename().
Posix<std::vector<FileSystem::NodePtr>> FileSystem::replacing(Node& from, std::string_view name,
                                                              Node& to, std::string_view new_name,
                                                              unsigned flags) {
  S3O_POSIX_GET(node, child(from, name));
  const auto target = child(to, new_name);
  if (!target || (flags & RENAME_NOREPLACE) != 0) return std::vector<NodePtr>();
  if ((flags & RENAME_EXCHANGE) != 0) return std::vector{node, *target};
  return std::vector{node};
}

std::vector<Ino> FileSystem::replacing(Ino parent, std::string_view name, Ino new_parent,
                                       std::string_view new_name, unsigned flags) {
  const Lock lock(mutex_);
  const auto from = known_directory(parent);
  const auto to = known_directory(new_parent);
  if (!from || !to) return {};
  std::vector<Ino> files;
  if (const auto nodes = replacing(**from, name, **to, new_name, flags))
    for (const NodePtr& node : *nodes) files.push_back(node->ino);
  return files;
}

// The kernel locks both directories, so no other operation changes the names during the flush.
PosixStatus FileSystem::flush_to_rename(Lock& lock, const std::vector<NodePtr>& nodes,
                                        const std::function<bool()>& killed) {
  const bool waits =
      std::ranges::any_of(nodes, [](const NodePtr& node) { return node->unflushed > 0; });
  if (rule_holds(Rule::rename_flush)) S3O_POSIX_TRY(flush(lock, nodes));
  return waits && killed() ? posix_error(EINTR) : PosixStatus();
}

Posix<std::vector<Ino>> FileSystem::exchange(Node& from, std::string_view name, Node& to,
                                             std::string_view new_name) {
  S3O_POSIX_GET(first, child(from, name));
  S3O_POSIX_GET(second, child(to, new_name));
  from.row.nlink += is_directory(*second) - is_directory(*first);
  to.row.nlink += is_directory(*first) - is_directory(*second);
  const auto now = timing_.wall_clock();
  const auto place = [&](Node& directory, std::string_view at, Node& node) {
    enter(directory, at, node);
    if (is_directory(node)) node.row.parent = directory.ino;
    node.row.ctime = directory.row.mtime = directory.row.ctime = now;
    store(node);
    store(directory);
  };
  place(to, new_name, *first);
  place(from, name, *second);
  std::vector<Ino> moved;
  for (const NodePtr& node : {first, second})
    if (is_directory(*node) && &from != &to) moved.push_back(node->ino);
  return moved;
}

Posix<std::vector<Ino>> FileSystem::rename(Ino parent, std::string_view name, Ino new_parent,
                                           std::string_view new_name, unsigned flags,
                                           const std::function<bool()>& killed,
                                           const Caller& caller) {
  const bool whiteout = (flags & RENAME_WHITEOUT) != 0;
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0 ||
      (whiteout && (flags & RENAME_EXCHANGE) != 0))
    return posix_error(EINVAL);
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  if (whiteout) S3O_POSIX_TRY(reserve_number(lock));
  S3O_POSIX_GET(from, known_directory(parent));
  S3O_POSIX_GET(to, known_directory(new_parent));
  S3O_POSIX_GET(brought, replacing(*from, name, *to, new_name, flags));
  S3O_POSIX_TRY(flush_to_rename(lock, brought, killed));
  if ((flags & RENAME_EXCHANGE) != 0) return exchange(*from, name, *to, new_name);
  S3O_POSIX_GET(node, child(*from, name));
  const auto target = child(*to, new_name);
  if (target) {
    if ((flags & RENAME_NOREPLACE) != 0) return posix_error(EEXIST);
    if (*target == node) return std::vector<Ino>();
    S3O_POSIX_TRY(check_replaceable(*node, **target));
    lose_name(*to, **target);
  } else if (target.error() != ENOENT) {
    return posix_error(target.error());
  }
  S3O_POSIX_TRY(add_name(*to, new_name, *node, timing_.wall_clock()));
  if (is_directory(*node)) --from->row.nlink;
  if (whiteout) {
    const NodePtr left = new_node(caller, *from, {S_IFCHR, 0, {}});
    S3O_POSIX_TRY(add_name(*from, name, *left, node->row.ctime));
    settle_number(left);
  } else {
    leave(*from, name);
    from->row.mtime = from->row.ctime = node->row.ctime;
    store(*from);
  }
  if (target) S3O_POSIX_TRY(end(lock, *target));
  return is_directory(*node) && from != to ? std::vector{node->ino} : std::vector<Ino>();
}

Posix<std::string> FileSystem::readlink(Ino ino) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  if (!S_ISLNK(node->row.mode)) return posix_error(EINVAL);
  return node->row.target;
}

/// Returns the listing from memory, or makes it from the table.
Posix<Listing*> FileSystem::listing(Ino directory) {
  if (Listing* kept = listings_.find(directory)) return kept;
  std::vector<DirectoryEntry> entries;
  const auto add = [&](const DentryKey& key, const DentryRow& row) {
    // The kernel would refuse the whole listing because of one impossible name.
    if (const char* problem = name_problem(key.name); problem || row.ino == 0)
      tell_of_damage(directory, fmt::format("an impossible name in this directory: {}",
                                            problem ? problem : "it leads nowhere"));
    else
      entries.push_back({key.name, row.ino, row.type & S_IFMT});
    return true;
  };
  S3O_POSIX_GET(whole, metadata_.dentries.scan({directory, {}}, add));
  Listing made(std::move(entries), usual_position, whole);
  return &listings_.keep(directory, std::move(made), timing_.now());
}

Posix<std::vector<DirectoryEntry>> FileSystem::list(Ino ino, DirPosition after, std::size_t most) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(directory, known_directory(ino));
  S3O_POSIX_GET(names, listing(ino));
  std::vector<DirectoryEntry> entries;
  for (const DirectoryEntry& entry :
       {DirectoryEntry{".", ino, S_IFDIR, kPositionOfSelf},
        DirectoryEntry{"..", directory->row.parent, S_IFDIR, kPositionOfParent}})
    if (entry.position > after && entries.size() < most) entries.push_back(entry);
  names->read(after, most, entries);
  if (entries.empty() && most > 0 && !names->whole()) return lost_names(ino);
  return entries;
}

Posix<OpenedDirectory> FileSystem::open_directory(Ino ino) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(directory, known_directory(ino));
  return OpenedDirectory{listings_.opened(ino), directory->shrunk};
}

void FileSystem::close_directory(Ino ino) {
  const Lock lock(mutex_);
  listings_.closed(ino, timing_.now());
}

Posix<std::int64_t> FileSystem::shrunk(Ino directory) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, known_directory(directory));
  return node->shrunk;
}

}  // namespace s3oram
