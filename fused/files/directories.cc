// Finds, adds and removes names, and builds listings of them.
#include "fused/files/directories.h"

#include <linux/fs.h>

#include <utility>

namespace s3oram {

Posix<Directories::NodePtr> Directories::child(Node& directory, std::string_view name) {
  if (name.size() > 255) return posix_error(ENAMETOOLONG);
  S3O_POSIX_GET(entry, state_.metadata.dentries.find({directory.ino, std::string(name)}));
  if (!entry) return posix_error(ENOENT);
  S3O_POSIX_GET(node, inodes_.load(entry->ino));
  if ((node->row.mode & S_IFMT) == entry->type) return node;
  state_.tell_of_damage(node->ino, "it is not what its name says");
  return posix_error(EIO);
}

Posix<Directories::NodePtr> Directories::find(Ino parent, std::string_view name) {
  if (name == ".") return inodes_.named(parent);
  S3O_POSIX_GET(directory, inodes_.known_directory(parent));
  return name == ".." ? inodes_.named(directory->row.parent) : child(*directory, name);
}

Posix<bool> Directories::is_empty(const Node& directory) {
  bool empty = true;
  S3O_POSIX_GET(whole,
                state_.metadata.dentries.scan(
                    {directory.ino, {}}, [&](const auto&, const auto&) { return empty = false; }));
  if (empty && !whole) return lost_names(directory.ino);
  return empty;
}

tl::unexpected<int> Directories::lost_names(Ino directory) {
  state_.tell_of_damage(directory,
                        "names of this directory may be lost, or hidden by a damaged row");
  return posix_error(EIO);
}

void Directories::enter(const Node& directory, std::string_view name, const Node& node) {
  const std::uint32_t type = node.row.mode & S_IFMT;
  state_.metadata.dentries.put({directory.ino, std::string(name)}, {node.ino, type});
  if (Listing* listing = listings_.find(directory.ino))
    listing->put(std::string(name), node.ino, type);
}

void Directories::leave(Node& directory, std::string_view name) {
  state_.metadata.dentries.erase({directory.ino, std::string(name)});
  if (Listing* listing = listings_.find(directory.ino)) listing->erase(std::string(name));
  directory.shrunk = state_.timing.wall_clock();
}

PosixStatus Directories::add(Node& directory, std::string_view name, Node& node, std::int64_t now) {
  if (directory.row.nlink == 0) return posix_error(ENOENT);
  if (is_directory(node) && directory.row.nlink >= kMostLinks) return posix_error(EMLINK);
  enter(directory, name, node);
  if (is_directory(node)) {
    ++directory.row.nlink;
    node.row.parent = directory.ino;
  }
  node.row.ctime = directory.row.mtime = directory.row.ctime = now;
  state_.store(directory);
  state_.store(node);
  return {};
}

void Directories::remove(Node& directory, std::string_view name, Node& node) {
  leave(directory, name);
  lose_name(directory, node);
}

void Directories::lose_name(Node& directory, Node& node) {
  if (is_directory(node)) {
    --directory.row.nlink;
    node.row.nlink = 0;
  } else {
    --node.row.nlink;
  }
  node.row.ctime = directory.row.mtime = directory.row.ctime = state_.timing.wall_clock();
  state_.store(directory);
  state_.store(node);
}

PosixStatus Directories::check_replaceable(const Node& node, Node& target) {
  if (is_directory(target) && !is_directory(node)) return posix_error(EISDIR);
  if (!is_directory(target) && is_directory(node)) return posix_error(ENOTDIR);
  if (!is_directory(target)) return {};
  S3O_POSIX_GET(empty, is_empty(target));
  return empty ? PosixStatus() : posix_error(ENOTEMPTY);
}

Posix<std::vector<Directories::NodePtr>> Directories::replacing(Node& from, std::string_view name,
                                                                Node& to, std::string_view new_name,
                                                                unsigned flags) {
  S3O_POSIX_GET(node, child(from, name));
  const auto target = child(to, new_name);
  if (!target || (flags & RENAME_NOREPLACE) != 0) return std::vector<NodePtr>();
  if ((flags & RENAME_EXCHANGE) != 0) return std::vector{node, *target};
  return std::vector{node};
}

Posix<std::vector<Ino>> Directories::exchange(Node& from, std::string_view name, Node& to,
                                              std::string_view new_name) {
  S3O_POSIX_GET(first, child(from, name));
  S3O_POSIX_GET(second, child(to, new_name));
  from.row.nlink += is_directory(*second) - is_directory(*first);
  to.row.nlink += is_directory(*first) - is_directory(*second);
  const auto now = state_.timing.wall_clock();
  const auto place = [&](Node& directory, std::string_view at, Node& node) {
    enter(directory, at, node);
    if (is_directory(node)) node.row.parent = directory.ino;
    node.row.ctime = directory.row.mtime = directory.row.ctime = now;
    state_.store(node);
    state_.store(directory);
  };
  place(to, new_name, *first);
  place(from, name, *second);
  std::vector<Ino> moved;
  for (const NodePtr& node : {first, second})
    if (is_directory(*node) && &from != &to) moved.push_back(node->ino);
  return moved;
}

Posix<Listing*> Directories::listing(Ino directory) {
  if (Listing* kept = listings_.find(directory)) return kept;
  std::vector<DirectoryEntry> entries;
  const auto add = [&](const DentryKey& key, const DentryRow& row) {
    // The kernel would refuse the whole listing because of one impossible name.
    if (const char* problem = name_problem(key.name); problem || row.ino == 0)
      state_.tell_of_damage(directory, fmt::format("an impossible name in this directory: {}",
                                                   problem ? problem : "it leads nowhere"));
    else
      entries.push_back({key.name, row.ino, row.type & S_IFMT});
    return true;
  };
  S3O_POSIX_GET(whole, state_.metadata.dentries.scan({directory, {}}, add));
  Listing made(std::move(entries), usual_position, whole);
  return &listings_.keep(directory, std::move(made), state_.timing.now());
}

Posix<std::vector<DirectoryEntry>> Directories::list(const Node& directory, DirPosition after,
                                                     std::size_t most) {
  S3O_POSIX_GET(names, listing(directory.ino));
  std::vector<DirectoryEntry> entries;
  for (const DirectoryEntry& entry :
       {DirectoryEntry{".", directory.ino, S_IFDIR, kPositionOfSelf},
        DirectoryEntry{"..", directory.row.parent, S_IFDIR, kPositionOfParent}})
    if (entry.position > after && entries.size() < most) entries.push_back(entry);
  names->read(after, most, entries);
  if (entries.empty() && most > 0 && !names->whole()) return lost_names(directory.ino);
  return entries;
}

}  // namespace s3oram
