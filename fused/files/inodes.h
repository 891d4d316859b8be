// The inodes of a file system: which of them are in memory, which the kernel refers to, and when an
// unlinked one is freed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fused/files/commit_queue.h"
#include "fused/files/files_state.h"
#include "fused/files/inode_allocator.h"
#include "fused/files/requests.h"

namespace s3oram {

class Inodes {
 public:
  using NodePtr = std::shared_ptr<Node>;
  using Nodes = std::unordered_map<Ino, NodePtr>;

  Inodes(FilesState& state, InodeAllocator& numbers, CommitQueue& commits)
      : state_(state), numbers_(numbers), commits_(commits) {}

  // Called at mount time, in this order.

  /// Makes the root directory of a new file system.
  Node& make_root();
  /// Loads the root directory. Recreates it if its attributes are lost, because its names do not
  /// depend on them. Uses damaged attributes as they are; they stay damaged until they change.
  /// Takes over the references of FileSystemOptions.
  Status load_root();
  /// Counts the inodes, and finds the first number for a new one.
  Status number();
  /// Frees files that were unlinked while open and that a crash left behind. Those that the kernel
  /// still refers to stay in memory, as unlinked files do.
  Status free_orphans(Lock& lock);

  // Finding nodes.

  /// Returns a node that the kernel has looked up. Returns ESTALE if it has not.
  Posix<NodePtr> known(Ino ino);
  Posix<NodePtr> known_directory(Ino ino);
  /// Returns the node, which is read from its row if it is not in memory. `unlinked`: no name leads
  /// to the node. Otherwise a link count of 0 is damage.
  Posix<NodePtr> load(Ino ino, bool unlinked = false);
  /// Returns the node with a number that the kernel may not have looked up and that need not exist.
  Posix<NodePtr> named(Ino ino);
  /// Returns the nodes in memory.
  const Nodes& in_memory() const { return nodes_; }
  /// Returns the nodes whose data is to be flushed. Unlinked nodes are left out, unless their data
  /// must survive.
  std::vector<NodePtr> unflushed() const;
  /// Returns how many inodes exist.
  std::uint64_t count() const { return count_; }

  // Making nodes.

  /// Makes sure that the next number is reserved. Waits for a commit if it is not.
  PosixStatus reserve_number(Lock& lock);
  /// Makes a node without a name. It gets the next number, which add() then uses up.
  NodePtr make(const Caller& caller, const Node& directory, const NewNode& what) const;
  void add(const NodePtr& node);

  // References of the kernel, and the end of nodes.

  /// Counts one more reference.
  void refer(const Node& node) { ++references_[node.ino]; }
  /// Takes `references` back. Frees the node if no reference is left and the node has no name.
  void forget(Lock& lock, Ino ino, std::uint64_t references);
  std::vector<Ino> referenced() const;
  /// Returns the references, for the FileSystem that takes over the kernel's mount.
  KernelReferences kept() const;
  /// Frees the node and all that it owns, if it has neither names nor references. A large file is
  /// freed in steps, and the lock is released between them.
  PosixStatus end(Lock& lock, const NodePtr& node);
  /// Calls end() after the node's last name or reference is gone. Logs an error, because it no
  /// longer matters to the caller.
  void end_or_tell(Lock& lock, const NodePtr& node);
  /// Frees unlinked files once the kernel refers to no inode. The kernel sends no forgets at an
  /// unmount.
  void free_nameless(Lock& lock);

  // Memory.

  /// Drops the node if the kernel does not refer to it and it has no cached blocks.
  void drop_if_idle(Ino ino);
  void drop_idle();
  /// Bounds the nodes in memory, because the kernel may refer to any number of inodes. Drops nodes
  /// that the tables hold completely; they are read again when they are used.
  void trim();

 private:
  FilesState& state_;
  InodeAllocator& numbers_;
  CommitQueue& commits_;
  std::unordered_map<Ino, std::uint64_t> references_;  // references that the kernel holds
  Nodes nodes_;                                        // referred to, or in use; see trim()
  std::unordered_set<Ino> idle_;  // nodes without references that still have cached blocks
  std::uint64_t count_ = 0;
};

}  // namespace s3oram
