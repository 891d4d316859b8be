// Names: which inode each name leads to, and the link counts and times that change with it. Does
// not free nodes: see Inodes::end().
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "fused/files/files_state.h"
#include "fused/files/inodes.h"
#include "fused/files/listings.h"

namespace s3oram {

inline constexpr std::uint32_t kMostLinks = 2'000'000'000;  // links that an inode may have

inline bool is_directory(const Node& node) { return S_ISDIR(node.row.mode); }

class Directories {
 public:
  using NodePtr = Inodes::NodePtr;

  Directories(FilesState& state, Inodes& inodes) : state_(state), inodes_(inodes) {}

  /// Returns the node of a name. Errors: ENOENT, ENAMETOOLONG, EIO (damaged).
  Posix<NodePtr> child(Node& directory, std::string_view name);
  /// Returns the node of a name in a directory that the kernel knows; "." and ".." mean the same as
  /// in FileSystem::lookup().
  Posix<NodePtr> find(Ino parent, std::string_view name);
  Posix<bool> is_empty(const Node& directory);

  /// Adds a name that does not exist, or that lose_name() has taken from another node. The caller
  /// updates the link count of `node`.
  PosixStatus add(Node& directory, std::string_view name, Node& node, std::int64_t now);
  /// Removes a name of `node`, which may be its last: see Inodes::end().
  void remove(Node& directory, std::string_view name, Node& node);
  /// Takes a link away from the node. The caller replaces the name itself.
  void lose_name(Node& directory, Node& node);
  /// Removes the name from the directory. The caller updates the nodes.
  void leave(Node& directory, std::string_view name);

  /// Checks that a rename may replace `target` with `node`.
  PosixStatus check_replaceable(const Node& node, Node& target);
  /// Returns the nodes whose content would replace another's in this rename. `flags`: those of
  /// FileSystem::rename().
  Posix<std::vector<NodePtr>> replacing(Node& from, std::string_view name, Node& to,
                                        std::string_view new_name, unsigned flags);
  /// Exchanges two names. Returns the directories whose parent has changed.
  Posix<std::vector<Ino>> exchange(Node& from, std::string_view name, Node& to,
                                   std::string_view new_name);

  /// Returns up to `most` entries after position `after`, as FileSystem::list() does.
  Posix<std::vector<DirectoryEntry>> list(const Node& directory, DirPosition after,
                                          std::size_t most);
  /// Counts an open; the listing stays in memory from now on. Returns whether the directory was not
  /// open before.
  bool open(Ino directory) { return listings_.opened(directory); }
  void close(Ino directory) { listings_.closed(directory, state_.timing.now()); }
  /// Drops listings that were not used for a while.
  void trim() { listings_.trim(state_.timing.now()); }

 private:
  /// Makes the name lead to the node, whether or not the name exists. The caller updates the nodes.
  void enter(const Node& directory, std::string_view name, const Node& node);
  /// Returns the listing from memory, or makes it from the table.
  Posix<Listing*> listing(Ino directory);
  /// Notes that damage may hide names, and returns EIO.
  tl::unexpected<int> lost_names(Ino directory);

  FilesState& state_;
  Inodes& inodes_;
  Listings listings_;
};

}  // namespace s3oram
