// A tree of files in memory, as POSIX describes it: the names, the attributes and their history,
// and the history of every file (history.h). The answers of operations are computed here,
// independently of the file system's code.
#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fused/tables/rows.h"
#include "tests/fused/sim/history.h"

namespace s3oram::sim {

struct Attributes {
  std::uint32_t mode = 0, uid = 0, gid = 0, nlink = 0;
  std::int64_t mtime = 0, ctime = 0;
  std::string target;
  std::map<std::string, std::string> xattrs;
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

using Name = std::pair<Ino, std::string>;  // parent, and the name in it

/// Everything except data: a commit holds it exactly as it was at one moment.
struct Names {
  std::map<Name, Ino> entries;
  std::map<Ino, Attributes> inodes;
  friend bool operator==(const Names&, const Names&) = default;
};

/// Describes the first differences; returns an empty text if there are none.
std::string difference(const Names& expected, const Names& seen);

class Tree {
 public:
  explicit Tree(std::uint32_t block_size) : block_size_(block_size) {}
  /// Makes a tree of the state found after a crash, all of which is durable.
  Tree(std::uint32_t block_size, Names names, const std::map<Ino, Content>& files);

  Names now;
  std::map<Ino, FileHistory> files;  // including inodes that are gone: a crash may bring them back

  bool is_directory(Ino ino) const { return S_ISDIR(now.inodes.at(ino).mode); }
  bool is_file(Ino ino) const { return S_ISREG(now.inodes.at(ino).mode); }
  /// Returns 0 if there is no such name.
  Ino find(const Name& name) const;
  std::vector<Name> names_of(Ino ino) const;
  bool is_within(Ino ino, Ino directory) const;

  // Each returns the errno of an operation, or 0 after it has changed the tree. Times are adopted
  // from the file system.
  int check_make(const Name& name) const;
  void make(const Name& name, Ino ino, const Attributes& attributes);
  int link(Ino ino, const Name& name);
  int unlink(const Name& name);
  int rmdir(const Name& name);
  int rename(const Name& from, const Name& to, unsigned flags);
  /// Called when the last reference to an inode without names is gone.
  void end(Ino ino);

  /// The number of operations that have ended, each at an instant of its own.
  Index ended() const { return instants_.size() - 1; }
  /// Called when an operation has ended.
  void end_operation(std::int64_t time);
  /// From now on every commit holds names that are no older than those at `index`.
  void barrier(Index index) { durable_ = std::max(durable_, index); }
  Index durable() const { return durable_; }

  struct Instant {
    std::shared_ptr<const Names> names;  // without inodes that have no name
    std::int64_t time = 0;
  };
  const std::vector<Instant>& instants() const { return instants_; }

 private:
  void drop_name(const Name& name);

  std::uint32_t block_size_;
  std::vector<Instant> instants_;
  Index durable_ = 0;
};

}  // namespace s3oram::sim
