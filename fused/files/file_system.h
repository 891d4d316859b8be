// The file system on one block device, without the kernel's part: names, attributes and data.
//
//   fuse_ops -> FileSystem -> Metadata (names, inodes, extents: overlay + vault.db)
//                          -> DataCache -> BlockDevice
//
// Operations work in memory; commits make them durable, every few seconds and at every barrier
// (fsync, unmount). The kernel checks permissions (default_permissions), by modes and ACLs, and
// clears set-id bits; a new file inherits its directory's group and default ACL here.
//
// Threads: all methods may be called from any thread. They may block on the device, at most until
// it has made no progress for the deadline. Lock: one mutex over everything, never held while
// waiting. Lock order: this mutex, then the device's inner ones. The class is wide because it has
// one method for each operation of a file system, under that mutex; each group has a source of its
// own.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fused/backup/backups.h"
#include "fused/cache/data_cache.h"
#include "fused/files/acl.h"
#include "fused/files/kernel_references.h"
#include "fused/files/listings.h"
#include "oramcore/base/log_limit.h"

namespace s3oram {

struct FileSystemOptions {
  CacheOptions cache;
  std::chrono::milliseconds commit_every{5'000};
  bool update_atime = true;                  // as relatime does
  bool read_only = false;                    // files are not changed, freed or committed
  std::uint32_t root_uid = 0, root_gid = 0;  // of a new root directory
  bool own_ticker = true;                    // a thread calls beat(); otherwise the owner does
  std::size_t most_uncommitted = 48 << 20;   // bytes of rows; above, operations wait for a commit
  std::size_t most_nodes = 50'000;           // about; above, nodes are dropped and read again later
  std::chrono::milliseconds back_up_every{0};  // at most (backups.h); 0: only on request
  /// Returns the bytes of files for which the disk of the database has room. statfs() reports no
  /// more.
  std::function<std::uint64_t()> database_room = [] { return std::uint64_t{1} << 60; };
  KernelReferences references;  // from suspend(), if the kernel still has the mount
};

struct Caller {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t umask = 0;  // has no effect in directories with a default ACL
};

struct NewNode {
  std::uint32_t mode = 0;  // with its type
  std::uint64_t rdev = 0;
  std::string target;  // of a symbolic link
};

struct AttributeChange {
  std::optional<std::uint32_t> mode, uid, gid;  // mode: the permission bits count
  std::optional<std::uint64_t> size;
  std::optional<std::int64_t> atime, mtime, ctime;  // ns
  bool operator==(const AttributeChange&) const = default;
};

struct OpenedDirectory {
  bool alone = false;       // nobody else has it open
  std::int64_t shrunk = 0;  // no name has been removed from it since: ns since 1970
};

struct FileSystemStatus {
  std::uint64_t cache_bytes = 0, cache_limit = 0, dirty_bytes = 0, inodes = 0;
  std::uint64_t nodes = 0;                  // of the inodes, those in memory
  std::uint64_t uncommitted_rows = 0;       // changes of names, attributes and extents
  std::uint64_t failing_bytes = 0;          // of dirty_bytes: the last attempt to write them failed
  std::uint64_t no_room_bytes = 0;          // of failing_bytes: because the device was full
  std::chrono::milliseconds failing_for{};  // since the first failure
  std::chrono::milliseconds lag{};          // about everything older is durable; 0: everything is
  std::uint64_t damage = 0;                 // damaged places in vault.db's tables of files
  std::string first_damage;                 // the first of them, in words
  std::uint64_t lost_blocks = 0;            // blocks that files name and the device does not hold
  BackupStatus backup;
  std::string backup_failure;  // why the last backup failed; or empty
  std::chrono::milliseconds backup_failing_for{};
};

class FileSystem final : public CommitParticipant {
 public:
  /// Opens, or makes, the file system in `database`, the file on `disk` that the device commits to.
  /// Frees blocks that nobody owns. The device must be unused; its last callback must come before
  /// the destructor. A damaged row costs the file it belongs to, which returns EIO, and no more: no
  /// operation returns wrong bytes, or hides a name or an attribute. Errors: damaged_vault.
  static Result<std::unique_ptr<FileSystem>> mount(BlockDevice& device, const std::string& database,
                                                   const FileSystemOptions& options,
                                                   Disk& disk = system_disk());
  ~FileSystem() override;
  /// Frees unlinked files, flushes, commits, and waits until the device has no callback of ours
  /// left. No operation may run or follow. An error says what is not durable.
  Status unmount();
  /// Unmounts, but keeps unlinked files that the kernel refers to. Returns those references, for
  /// the next mount().
  Result<KernelReferences> suspend();
  /// Makes unmount() wait only a moment for a device that has made no progress for the deadline.
  void hurry();

  /// Returns the inodes that the kernel refers to.
  std::vector<Ino> referenced();

  // Names. Each stat returned by lookup, make or link is a reference that the kernel holds until
  // forget().

  /// "." finds an inode by its number alone, and ".." the parent of a directory: for file handles
  /// (NFS), which outlive the kernel's cache. ESTALE if the inode has no name any more.
  Posix<struct stat> lookup(Ino parent, std::string_view name);
  void forget(Ino ino, std::uint64_t references);
  Posix<struct stat> make(const Caller& caller, Ino parent, std::string_view name,
                          const NewNode& what);
  /// Makes a file without a name (O_TMPFILE). link() may give it one; otherwise it is freed with
  /// its last reference.
  Posix<struct stat> make_unnamed(const Caller& caller, Ino parent, std::uint32_t mode);
  Posix<struct stat> link(Ino ino, Ino parent, std::string_view name);
  PosixStatus unlink(Ino parent, std::string_view name);
  PosixStatus rmdir(Ino parent, std::string_view name);
  /// `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE or RENAME_WHITEOUT, which leaves a device of the
  /// caller's with the number 0 in the place of the old name. Flushes a file first that replaces
  /// another or is exchanged with it, so that after a crash a name has the old or the new content.
  /// Returns the directories whose parent has changed. EINTR, and nothing is renamed, if the caller
  /// was `killed` during the flush: the times that the kernel would send now are interrupted, and
  /// it would report a lost write to the file's next user.
  Posix<std::vector<Ino>> rename(
      Ino parent, std::string_view name, Ino new_parent, std::string_view new_name, unsigned flags,
      const std::function<bool()>& killed = [] { return false; }, const Caller& caller = {});
  /// Returns the files that such a rename would flush.
  std::vector<Ino> replacing(Ino parent, std::string_view name, Ino new_parent,
                             std::string_view new_name, unsigned flags);
  Posix<std::string> readlink(Ino ino);
  /// Returns up to `most` entries after this position (listings.h), "." and ".." first. If damage
  /// may hide some, EIO after the last that can be read.
  Posix<std::vector<DirectoryEntry>> list(
      Ino ino, DirPosition after = 0, std::size_t most = std::numeric_limits<std::size_t>::max());
  /// Keeps the listing in memory, once it is read, until close_directory().
  Posix<OpenedDirectory> open_directory(Ino ino);
  void close_directory(Ino ino);
  /// Returns OpenedDirectory::shrunk of now.
  Posix<std::int64_t> shrunk(Ino directory);

  // Attributes.
  Posix<struct stat> getattr(Ino ino);
  /// Changes no times if the only change is the present size, as the kernel does, which keeps the
  /// times while the file is in use.
  Posix<struct stat> setattr(Ino ino, const AttributeChange& change);
  /// An access ACL changes the mode. `keep_set_group`: the caller may leave a set-group-id bit as
  /// it is.
  PosixStatus set_xattr(Ino ino, const std::string& name, std::string value, int flags,
                        bool keep_set_group = true);
  Posix<std::string> get_xattr(Ino ino, const std::string& name);
  Posix<std::vector<std::string>> list_xattrs(Ino ino);
  PosixStatus remove_xattr(Ino ino, const std::string& name);

  // Data.
  /// Returns the bytes read. `quietly` leaves the access time as it is.
  Posix<std::size_t> read(Ino ino, std::uint64_t offset, MutableByteSpan out, bool quietly = false);
  /// Returns whether the room that the file takes (st_blocks) has changed. `from_page_cache`: the
  /// kernel writes back dirty pages and sends the times itself; it gives up data that is refused,
  /// which leaves a hole.
  Posix<bool> write(Ino ino, std::uint64_t offset, ByteSpan in, bool from_page_cache);
  PosixStatus fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length);
  Posix<std::uint64_t> seek(Ino ino, std::uint64_t offset, int whence);
  /// Called when the last writer of a file has closed it. A file that was truncated to nothing and
  /// written again has its old or its new content, whole, after a crash; on a full device, where
  /// the old content makes room, perhaps a part of the new one.
  void closed(Ino ino);
  /// Called when a descriptor is being closed. ENOSPC if data of the file waits for room.
  PosixStatus closing(Ino ino);

  // Barriers: ok means durable.
  PosixStatus sync(Ino ino);
  PosixStatus sync_names();
  PosixStatus sync_all();

  /// Makes a backup of all names and attributes that are committed now, and waits for it. Errors:
  /// EUCLEAN (vault.db is damaged; the last backup stays), and those of Backups::make().
  PosixStatus back_up();

  /// Drops cached contents that the device has, for measurements.
  void drop_clean();
  /// Sets the bytes of file contents in memory (CacheOptions::limit).
  void set_cache_limit(std::size_t bytes);

  Posix<struct statvfs> statfs();
  FileSystemStatus status();

  /// Commits what is due, tries again what failed, and waits for both. Returns when the next beat
  /// is due. One call at a time, and none during unmount().
  Timing::Time beat();

  // CommitParticipant, called on the device's thread.
  std::function<Status(Database&)> snapshot() override;
  void committed(const Status& outcome) override;

 private:
  using NodePtr = std::shared_ptr<Node>;

  FileSystem(BlockDevice& device, const FileSystemOptions& options);
  Status start(const std::string& database, Disk& disk);
  Node& make_root();
  Status load_root();
  Status number_inodes();
  Status number_blocks(const std::vector<BlockId>& mapped);
  Status free_orphans(Lock& lock);
  void free_nameless(Lock& lock);
  Status finish(bool keep_references);
  Status look_for_labels();

  // All private functions below are called with the lock held.
  void tell_of_damage(Ino ino, const std::string& what);
  tl::unexpected<int> lost_names(Ino directory);
  tl::unexpected<int> damaged_xattr(Ino ino);
  Posix<NodePtr> known(Ino ino);
  Posix<NodePtr> known_directory(Ino ino);
  Posix<NodePtr> load(Ino ino, bool unlinked = false);
  Posix<NodePtr> child(Node& directory, std::string_view name);
  Posix<NodePtr> named(Ino ino);
  Posix<NodePtr> find(Ino parent, std::string_view name);
  struct stat refer(Node& node);
  struct stat attributes(const Node& node) const;
  /// Updates node.xattr_names too.
  Posix<std::vector<std::string>> xattr_names(Node& node);
  PosixStatus put_xattr(Node& node, const std::string& name, std::string value, int flags);
  PosixStatus erase_xattr(Node& node, const std::string& name);

  struct Inherited {
    std::uint32_t mode = 0;
    std::vector<std::pair<std::string, std::string>> lists;  // ACLs as attributes: name, value
  };
  Posix<std::optional<Acl>> acl(const Node& node, std::string_view name);
  PosixStatus set_acl(Node& node, const std::string& name, const std::string& value,
                      bool keep_set_group);
  PosixStatus change_acl(const Node& node, std::uint32_t mode);
  Posix<Inherited> inherit(const Caller& caller, const Node& directory, std::uint32_t mode);
  void hand_down(const Inherited& inherited, Node& node);
  void store(const Node& node) { metadata_.inodes.put(node.ino, node.row); }
  PosixStatus admit(Lock& lock);

  PosixStatus add_name(Node& directory, std::string_view name, Node& node, std::int64_t now);
  void remove_name(Node& directory, std::string_view name, Node& node);
  void enter(const Node& directory, std::string_view name, const Node& node);
  void leave(Node& directory, std::string_view name);
  void lose_name(Node& directory, Node& node);
  Posix<Listing*> listing(Ino directory);
  PosixStatus reserve_number(Lock& lock);
  NodePtr new_node(const Caller& caller, const Node& directory, const NewNode& what);
  void settle_number(const NodePtr& node);
  std::optional<Ino> numbers_to_reserve();
  PosixStatus check_replaceable(const Node& node, Node& target);
  Posix<std::vector<NodePtr>> replacing(Node& from, std::string_view name, Node& to,
                                        std::string_view new_name, unsigned flags);
  Posix<std::vector<Ino>> exchange(Node& from, std::string_view name, Node& to,
                                   std::string_view new_name);
  Posix<bool> is_empty(const Node& directory);
  /// Frees the node and all it owns, if it has neither names nor references. A large file is freed
  /// in steps, and the lock released between them.
  PosixStatus end(Lock& lock, const NodePtr& node);
  void drop_if_idle(Ino ino);

  std::uint64_t free_bytes(std::uint64_t spare) const;

  PosixStatus commit(Lock& lock);
  bool is_idle() const {
    return cache_.in_flight() == 0 && backups_.writing() == 0 && commits_ == 0;
  }
  /// Waits until everything written to these nodes so far is acknowledged. The next commit holds
  /// it.
  PosixStatus flush(Lock& lock, const std::vector<NodePtr>& nodes);
  /// Flushes these nodes before they are renamed; see rename().
  PosixStatus flush_to_rename(Lock& lock, const std::vector<NodePtr>& nodes,
                              const std::function<bool()>& killed);
  void keep_one_content(Lock& lock, const NodePtr& node);
  std::vector<NodePtr> unflushed_nodes() const;
  void settle(const std::function<bool(const Node&)>& which);
  void empty_packs();
  void trim();
  void tick(Lock& lock);
  Timing::Time beat(Lock& lock);
  void run_ticker();
  Status start_threads();
  void stop_threads();
  PosixStatus back_up(Lock& lock, bool last = false);
  void run_backups();
  void want_backup();

  // `mutex_` guards everything below.
  std::mutex mutex_;
  BlockDevice& device_;
  const FileSystemOptions options_;
  Timing& timing_;
  Metadata metadata_;
  DataCache cache_;
  Backups backups_;
  std::unordered_map<Ino, std::uint64_t> references_;  // of the kernel
  std::unordered_map<Ino, NodePtr> nodes_;             // referred to, or in use; see trim()
  std::unordered_set<Ino> idle_;  // nodes without references that still have cached blocks
  Ino next_ino_ = kRootIno;
  Ino reserved_ = 0, reserving_ = 0;  // see inode_numbers.h; reserving_: by the running commit
  bool makes_inodes_ = false;         // inodes were made since the mount
  std::uint64_t inodes_ = 0;
  std::uint64_t lost_blocks_ = 0;
  Listings listings_;
  bool labelled_ = true;  // some file has, or had since the mount, an SELinux label
  unsigned commits_ = 0;  // asked for and not yet answered by the device
  LogLimit told_of_commit_, told_of_backup_;
  std::string backup_failure_;
  Timing::Time backup_failing_since_;
  Timing::Time durable_at_;  // everything done before is durable
  bool stopping_ = false, kick_ = false, failing_ = false;
  Timing::Time next_tick_;
  std::condition_variable ticker_wakes_;
  std::thread ticker_;
  bool backup_wanted_ = false;
  std::condition_variable backup_wakes_;
  std::thread backup_thread_;
};

}  // namespace s3oram
