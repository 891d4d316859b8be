// The file system on one block device, apart from what the kernel does: names, attributes and data.
//
//   fuse_ops -> FileSystem -> Inodes, Directories    which inodes there are, and their names
//                          -> Xattrs, FileAcls       extended attributes; ACLs, and modes
//                          -> Flusher, BackupThread  when changes become durable -> CommitQueue
//                          -> FilesState             what all of them work on:
//                               Metadata (overlay + vault.db), DataCache -> BlockDevice
//
// Operations work in memory; commits make them durable, every few seconds and at every barrier
// (fsync, unmount). The kernel checks permissions by modes and ACLs (default_permissions), and
// clears set-id bits; a new file's group and ACL are inherited here, from its directory.
//
// Threads: all methods may be called from any thread. They may block on the device, at most until
// it has made no progress for the deadline. Lock: one mutex guards everything, and is never held
// while waiting. Lock order: this mutex, then the device's inner ones.
//
// Each method takes the mutex and calls the parts, which know of each other only what the picture
// shows. Each group of operations has a source file of its own.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fused/backup/backups.h"
#include "fused/files/backup_thread.h"
#include "fused/files/commit_queue.h"
#include "fused/files/directories.h"
#include "fused/files/file_acls.h"
#include "fused/files/files_state.h"
#include "fused/files/flusher.h"
#include "fused/files/inode_allocator.h"
#include "fused/files/inodes.h"
#include "fused/files/kernel_references.h"
#include "fused/files/listings.h"
#include "fused/files/requests.h"
#include "fused/files/xattrs.h"

namespace s3oram {

struct FileSystemStatus {
  std::uint64_t cache_bytes = 0, cache_limit = 0, dirty_bytes = 0, inodes = 0;
  std::uint64_t nodes = 0;                  // inodes that are in memory
  std::uint64_t uncommitted_rows = 0;       // changes to names, attributes and extents
  std::uint64_t failing_bytes = 0;          // the part of dirty_bytes whose last write failed
  std::uint64_t no_room_bytes = 0;          // the failing_bytes that do not fit on the device
  std::chrono::milliseconds failing_for{};  // time since the first failure
  std::chrono::milliseconds lag{};          // changes older than about this are durable
  std::uint64_t damage = 0;                 // damaged places in vault.db's tables of files
  std::string first_damage;                 // describes the first of them
  std::uint64_t lost_blocks = 0;            // blocks that files name and the device does not hold
  BackupStatus backup;
  std::string backup_failure;  // why the last backup failed; empty if it did not
  std::chrono::milliseconds backup_failing_for{};
};

/// It is wide because it has one method for each FUSE operation; the parts do the work.
class FileSystem final : public CommitParticipant {
 public:
  /// Opens, or creates, the file system in `database`, the file on `disk` that the device commits
  /// to. Frees blocks that no file or backup owns. The device must be unused, and its last callback
  /// must come before the destructor. A damaged row costs only the file that it belongs to, which
  /// returns EIO: no operation returns wrong bytes, or hides a name or an attribute. Errors:
  /// damaged_vault.
  static Result<std::unique_ptr<FileSystem>> mount(BlockDevice& device, const std::string& database,
                                                   const FileSystemOptions& options,
                                                   Disk& disk = system_disk());
  ~FileSystem() override;
  /// Frees unlinked files, flushes, commits, and waits until the device will make no more calls
  /// back. No operation may run meanwhile or later. An error says what is not durable.
  Status unmount();
  /// Unmounts, but keeps unlinked files that the kernel refers to. Returns those references, for
  /// the next mount().
  Result<KernelReferences> suspend();
  /// Makes unmount() wait only a moment longer for a device that has made no progress for the
  /// deadline.
  void hurry();
  /// Restarts the deadline of all waits, because the device has other work to do before it can make
  /// progress.
  void bear_with_device();

  /// Returns the inodes that the kernel refers to.
  std::vector<Ino> referenced();

  // Names. Each stat that lookup(), make() or link() returns counts as a reference, which the
  // kernel holds until forget().

  /// "." finds an inode by its number alone, and ".." finds the parent of a directory. File handles
  /// (NFS) need this, because they outlive the kernel's cache. Returns ESTALE if the inode no
  /// longer has a name.
  Posix<struct stat> lookup(Ino parent, std::string_view name);
  void forget(Ino ino, std::uint64_t references);
  Posix<struct stat> make(const Caller& caller, Ino parent, std::string_view name,
                          const NewNode& what);
  /// Creates a file without a name (O_TMPFILE). link() may give it one; otherwise the file is freed
  /// with its last reference.
  Posix<struct stat> make_unnamed(const Caller& caller, Ino parent, std::uint32_t mode);
  Posix<struct stat> link(Ino ino, Ino parent, std::string_view name);
  PosixStatus unlink(Ino parent, std::string_view name);
  PosixStatus rmdir(Ino parent, std::string_view name);
  /// `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE or RENAME_WHITEOUT, which puts a device with the
  /// number 0, owned by the caller, in the place of the old name. First flushes a file that
  /// replaces another, or is exchanged with one, so that after a crash the name has either the old
  /// or the new content. Returns the directories whose parent has changed. Returns EINTR, and
  /// renames nothing, if the caller was `killed` during the flush: the kernel's update of the
  /// times, which comes now, would be interrupted, and the kernel would report a lost write to the
  /// file's next user.
  Posix<std::vector<Ino>> rename(
      Ino parent, std::string_view name, Ino new_parent, std::string_view new_name, unsigned flags,
      const std::function<bool()>& killed = [] { return false; }, const Caller& caller = {});
  /// Returns the files that a rename with these arguments would flush.
  std::vector<Ino> replacing(Ino parent, std::string_view name, Ino new_parent,
                             std::string_view new_name, unsigned flags);
  Posix<std::string> readlink(Ino ino);
  /// Returns up to `most` entries after position `after` (listings.h), "." and ".." first. If
  /// damage may hide entries, returns EIO after the last one that can be read.
  Posix<std::vector<DirectoryEntry>> list(
      Ino ino, DirPosition after = 0, std::size_t most = std::numeric_limits<std::size_t>::max());
  /// Keeps the listing in memory, once it is read, until close_directory().
  Posix<OpenedDirectory> open_directory(Ino ino);
  void close_directory(Ino ino);
  /// Returns the current value of OpenedDirectory::shrunk.
  Posix<std::int64_t> shrunk(Ino directory);

  // Attributes.
  Posix<struct stat> getattr(Ino ino);
  /// Changes no times if the only change sets the size that the file already has. The kernel, which
  /// keeps the times while the file is in use, does the same.
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
  /// kernel is writing back dirty pages. It sends the times itself, and drops data that is refused,
  /// which leaves a hole.
  Posix<bool> write(Ino ino, std::uint64_t offset, ByteSpan in, bool from_page_cache);
  PosixStatus fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length);
  Posix<std::uint64_t> seek(Ino ino, std::uint64_t offset, int whence);
  /// Called when the last writer of a file has closed it. After a crash, a file that was truncated
  /// to nothing and written again has all of its old content or all of its new content, if it was
  /// closed within `commit_every`. Otherwise, and on a full device, where the old content has to
  /// make room, it may have only part of the new one.
  void closed(Ino ino);
  /// Called when a descriptor is being closed. Returns ENOSPC if data of the file waits for room.
  PosixStatus closing(Ino ino);

  // Barriers. Success means that the changes are durable.
  PosixStatus sync(Ino ino);
  PosixStatus sync_names();
  PosixStatus sync_all();

  /// Makes a backup of all names and attributes, and waits for it. Errors: EROFS, EUCLEAN (vault.db
  /// is damaged; the last backup is kept), and the others of Backups::make().
  PosixStatus back_up();
  /// Makes a back_up() that is under way fail soon with ECANCELED, and also each later one. The
  /// last backup stays whole. Call this before an unmount waits for threads that may have asked for
  /// a backup.
  void end_backups();

  /// Drops cached contents that the device also has. Used for measurements.
  void drop_clean();
  /// Sets how many bytes of file contents may be in memory (CacheOptions::limit).
  void set_cache_limit(std::size_t bytes);

  Posix<struct statvfs> statfs();
  FileSystemStatus status();

  /// Commits what is due, retries what failed, and waits for both. Returns when the next beat is
  /// due. One call at a time, and none during unmount().
  Timing::Time beat();

  // CommitParticipant, called on the device's thread.
  std::function<Status(Database&)> snapshot() override;
  void committed(const Status& outcome) override;

 private:
  FileSystem(BlockDevice& device, const FileSystemOptions& options);
  Status start(const std::string& database, Disk& disk);
  Status finish(bool keep_references);
  void stop_threads();

  // Called with the lock held.
  struct stat refer(const Node& node);
  PosixStatus flush_to_rename(Lock& lock, const std::vector<Inodes::NodePtr>& nodes,
                              const std::function<bool()>& killed);
  std::uint64_t free_bytes(std::uint64_t spare) const;
  bool is_idle() const;

  FilesState state_;  // its mutex guards everything below
  Backups backups_;
  InodeAllocator numbers_;
  CommitQueue commits_;
  Inodes inodes_;
  Directories directories_;
  Xattrs xattrs_;
  FileAcls acls_;
  Flusher flusher_;
  BackupThread backup_thread_;
  std::uint64_t lost_blocks_ = 0;
};

}  // namespace s3oram
