// The table of FUSE operations, and what the kernel may cache.
#include "fused/kernel/fuse_ops.h"

#include <fcntl.h>
#include <linux/fuse.h>

#include <memory>

#include "fused/files/acl.h"
#include "fused/files/file_system.h"
#include "fused/kernel/group_rights.h"
#include "fused/kernel/killed.h"

namespace s3oram {
namespace {

// There is only one client, so what the kernel caches stays valid until the kernel changes it
// itself or is notified (do_write).
constexpr double kForever = 365.0 * 86'400;  // seconds
// Fewer than the session's threads, so that write-back never occupies all of them.
constexpr unsigned kBackground = 48;

FuseContext& context_of(fuse_req_t request) {
  return *static_cast<FuseContext*>(fuse_req_userdata(request));
}
FileSystem& files_of(fuse_req_t request) { return *context_of(request).files; }

/// Returns whether the kernel may hold dirty pages of a file that takes no room yet. Such a file
/// would look like one hole to `tar -S`.
bool may_take_room(fuse_req_t request, const struct stat& attributes) {
  return attributes.st_blocks == 0 && context_of(request).writers.contains(attributes.st_ino);
}

/// Returns how long the kernel may cache the attributes, in seconds.
double validity(fuse_req_t request, const struct stat& attributes) {
  const bool brief = may_take_room(request, attributes) || context_of(request).withdrawn;
  return brief ? 0 : kForever;
}

fuse_entry_param entry_of(fuse_req_t request, const struct stat& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.st_ino;
  entry.attr = context_of(request).ids.inside(attributes);
  entry.entry_timeout = kForever;
  entry.attr_timeout = validity(request, attributes);
  return entry;
}

// ---- answers -----------------------------------------------------------------------------------

template <class T>
int number_of(const Posix<T>& outcome) {
  return outcome ? 0 : outcome.error();
}

void answer(fuse_req_t request, const PosixStatus& outcome) {
  fuse_reply_err(request, number_of(outcome));
}

/// Answers with a node, which the kernel then refers to, unless it has interrupted the request.
void answer(fuse_req_t request, const Posix<struct stat>& node) {
  if (!node) {
    fuse_reply_err(request, node.error());
    return;
  }
  FileSystem& files = files_of(request);  // the answer frees the request
  const fuse_entry_param entry = entry_of(request, *node);
  if (fuse_reply_entry(request, &entry) == -ENOENT) files.forget(entry.ino, 1);
}

void answer_attributes(fuse_req_t request, const Posix<struct stat>& attributes) {
  if (!attributes) {
    fuse_reply_err(request, attributes.error());
    return;
  }
  const struct stat shown = context_of(request).ids.inside(*attributes);
  fuse_reply_attr(request, &shown, validity(request, *attributes));
}

/// Answers with a value. `size` 0 asks for the length only.
void answer_xattr(fuse_req_t request, const Posix<std::string>& value, std::size_t size) {
  if (!value)
    fuse_reply_err(request, value.error());
  else if (size == 0)
    fuse_reply_xattr(request, value->size());
  else if (value->size() > size)
    fuse_reply_err(request, ERANGE);
  else
    fuse_reply_buf(request, value->data(), value->size());
}

// ---- session -----------------------------------------------------------------------------------

void want(fuse_conn_info* connection, unsigned capability) {
  connection->want |= connection->capable & capability;
}

void do_init(void* context, fuse_conn_info* connection) {
  want(connection, FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                       FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
                       FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_POSIX_ACL |
                       FUSE_CAP_DONT_MASK);
  connection->want &=
      ~(FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_ATOMIC_O_TRUNC);
  connection->max_write = connection->max_readahead =
      static_cast<FuseContext*>(context)->largest_request;
  connection->max_background = kBackground;
  connection->congestion_threshold = kBackground * 3 / 4;
  connection->time_gran = 1;
}

// ---- names -------------------------------------------------------------------------------------

Caller caller(fuse_req_t request) {
  const fuse_ctx* context = fuse_req_ctx(request);
  const IdMaps& ids = context_of(request).ids;
  return {ids.users.outside(context->uid), ids.groups.outside(context->gid), context->umask};
}

/// Refuses the request if the kernel may cache nothing more. Without attributes the kernel opens
/// nothing and makes no more pages dirty.
bool refuse(fuse_req_t request) {
  if (!context_of(request).withdrawn) return false;
  fuse_reply_err(request, EACCES);
  return true;
}

void do_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (refuse(request)) return;
  const auto found = files_of(request).lookup(parent, name);
  if (found || found.error() != ENOENT) return answer(request, found);
  fuse_entry_param nothing{};  // the kernel remembers that the name does not exist
  nothing.entry_timeout = kForever;
  fuse_reply_entry(request, &nothing);
}

void do_forget(fuse_req_t request, fuse_ino_t ino, std::uint64_t references) {
  files_of(request).forget(ino, references);
  fuse_reply_none(request);
}

void do_forget_multi(fuse_req_t request, std::size_t count, fuse_forget_data* forgets) {
  for (std::size_t i = 0; i < count; ++i)
    files_of(request).forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

void do_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  answer(request, files_of(request).make(caller(request), parent, name, {mode, rdev, {}}));
}

void do_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  answer(request, files_of(request).make(caller(request), parent, name, {S_IFDIR | mode, 0, {}}));
}

void do_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  answer(request,
         files_of(request).make(caller(request), parent, name, {S_IFLNK | 0777, 0, target}));
}

void do_link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  answer(request, files_of(request).link(ino, parent, name));
}

void do_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  answer(request, files_of(request).unlink(parent, name));
}

void do_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  answer(request, files_of(request).rmdir(parent, name));
}

struct Rename {
  Ino parent;
  std::string name;
  Ino new_parent;
  std::string new_name;
  unsigned flags;
};

void rename(fuse_req_t request, const Rename& what) {
  const auto moved = files_of(request).rename(
      what.parent, what.name, what.new_parent, what.new_name, what.flags,
      [request] { return is_killed(fuse_req_ctx(request)->pid); }, caller(request));
  // The kernel has cached the moved directories' listings, which contain "..". It must drop them
  // before the answer.
  if (moved)
    for (const Ino directory : *moved)
      fuse_lowlevel_notify_inval_inode(context_of(request).session, directory, 0, 0);
  fuse_reply_err(request, moved ? 0 : moved.error());
}

void do_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
               const char* new_name, unsigned flags) {
  FuseContext& context = context_of(request);
  const Rename what{parent, name, new_parent, new_name, flags};
  if (context.writers.empty()) return rename(request, what);
  std::vector<Ino> files = files_of(request).replacing(parent, name, new_parent, new_name, flags);
  if (!context.writers.any_of(files)) return rename(request, what);
  context.before_rename->then(files, [request, what, files, &writers = context.writers](int error) {
    if (error == 0 && writers.any_incomplete(files)) error = EIO;
    if (error == 0)
      rename(request, what);
    else
      fuse_reply_err(request, error);
  });
}

void do_readlink(fuse_req_t request, fuse_ino_t ino) {
  const auto target = files_of(request).readlink(ino);
  if (target)
    fuse_reply_readlink(request, target->c_str());
  else
    fuse_reply_err(request, target.error());
}

// ---- directories -------------------------------------------------------------------------------

// A program may return to an old position, and must find its place even if the name there is gone.
// In a listing that the kernel has cached the program would not find it, because there a position
// without a name counts as the end. So the kernel may cache only listings of directories that are
// not open elsewhere, and from which no name was removed for so long that no program will return to
// it.
constexpr std::int64_t kPositionsLast = 600'000'000'000;  // ns

/// Reads the handle of an open directory. Returns the time at which the kernel began to cache its
/// listing (ns since 1970); 0 if the kernel may not cache it.
std::int64_t remembered_since(const fuse_file_info* file) {
  return static_cast<std::int64_t>(file->fh);
}

void do_opendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  FileSystem& files = files_of(request);
  const auto directory = files.open_directory(ino);
  if (!directory) {
    fuse_reply_err(request, directory.error());
    return;
  }
  const std::int64_t now = system_timing().wall_clock();
  const bool remember = directory->alone && directory->shrunk < now - kPositionsLast;
  file->fh = remember ? static_cast<std::uint64_t>(now) : 0;
  file->cache_readdir = remember;
  file->keep_cache = remember;  // otherwise it drops its cached listing
  if (fuse_reply_open(request, file) != 0) files.close_directory(ino);
}

void do_releasedir(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  files_of(request).close_directory(ino);
  fuse_reply_err(request, 0);
}

/// Called at the end of a listing, when the kernel has cached all of it. If a name was removed
/// since the directory was opened, the kernel must drop the listing before the answer, because it
/// would use the listing after that.
void end_of_listing(fuse_req_t request, fuse_ino_t ino, const fuse_file_info* file) {
  const std::int64_t since = remembered_since(file);
  if (since == 0) return;
  const auto shrunk = files_of(request).shrunk(ino);
  if (!shrunk || *shrunk >= since)
    fuse_lowlevel_notify_inval_inode(context_of(request).session, ino, 0, 0);
}

/// Answers with the entries after `offset`. add(space, room, entry) returns the bytes that the
/// entry needs, at least `least`, and adds nothing if there is no room.
template <class Add>
void answer_directory(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                      const fuse_file_info* file, std::size_t least, Add add) {
  const auto entries = files_of(request).list(ino, static_cast<DirPosition>(offset), size / least);
  if (!entries) {
    fuse_reply_err(request, entries.error());
    return;
  }
  if (entries->empty()) end_of_listing(request, ino, file);
  std::vector<char> buffer(size);
  std::size_t used = 0;
  for (const DirectoryEntry& entry : *entries) {
    const std::size_t needs = add(buffer.data() + used, size - used, entry);
    if (needs > size - used) break;
    used += needs;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void do_readdir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                fuse_file_info* file) {
  const auto add = [request](char* space, std::size_t room, const DirectoryEntry& entry) {
    struct stat attributes {};
    attributes.st_ino = entry.ino;
    attributes.st_mode = entry.type;
    return fuse_add_direntry(request, space, room, entry.name.c_str(), &attributes,
                             static_cast<off_t>(entry.position));
  };
  const std::size_t least = fuse_add_direntry(request, nullptr, 0, ".", nullptr, 0);
  answer_directory(request, ino, size, offset, file, least, add);
}

void do_readdirplus(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                    fuse_file_info* file) {
  const auto add = [&](char* space, std::size_t room, const DirectoryEntry& entry) {
    const char* name = entry.name.c_str();
    const std::size_t needs = fuse_add_direntry_plus(request, nullptr, 0, name, nullptr, 0);
    if (needs > room) return needs;
    // An entry without a node number is a name without attributes. It stands for "." and "..", and
    // for a name that was removed since the directory was listed.
    fuse_entry_param plus{};
    plus.attr.st_ino = entry.ino;
    plus.attr.st_mode = entry.type;
    if (entry.name != "." && entry.name != "..")
      if (const auto found = files_of(request).lookup(ino, entry.name))
        plus = entry_of(request, *found);
    return fuse_add_direntry_plus(request, space, room, name, &plus,
                                  static_cast<off_t>(entry.position));
  };
  const std::size_t least = fuse_add_direntry_plus(request, nullptr, 0, ".", nullptr, 0);
  answer_directory(request, ino, size, offset, file, least, add);
}

void do_fsyncdir(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  answer(request, files_of(request).sync_names());
}

// ---- attributes --------------------------------------------------------------------------------

void do_getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  if (refuse(request)) return;
  const auto found = files_of(request).getattr(ino);
  if (!found || !may_take_room(request, *found)) return answer_attributes(request, found);
  context_of(request).after_write_back->then(
      {ino}, [=](int) { answer_attributes(request, files_of(request).getattr(ino)); });
}

void do_setattr(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int valid,
                fuse_file_info*) {
  const IdMaps& ids = context_of(request).ids;
  AttributeChange change;
  if ((valid & FUSE_SET_ATTR_MODE) != 0) change.mode = wanted->st_mode;
  if ((valid & FUSE_SET_ATTR_UID) != 0) change.uid = ids.users.outside(wanted->st_uid);
  if ((valid & FUSE_SET_ATTR_GID) != 0) change.gid = ids.groups.outside(wanted->st_gid);
  if (change.uid == kNoId || change.gid == kNoId) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  if ((valid & FUSE_SET_ATTR_SIZE) != 0) change.size = static_cast<std::uint64_t>(wanted->st_size);
  if (change.size == 0u) context_of(request).writers.told(ino);
  if ((valid & FUSE_SET_ATTR_ATIME) != 0) change.atime = to_ns(wanted->st_atim);
  if ((valid & FUSE_SET_ATTR_MTIME) != 0) change.mtime = to_ns(wanted->st_mtim);
  if ((valid & FUSE_SET_ATTR_CTIME) != 0) change.ctime = to_ns(wanted->st_ctim);
  // A change time that the kernel sends is the current time by its clock.
  const auto now = change.ctime.value_or(system_timing().wall_clock());
  if ((valid & FUSE_SET_ATTR_ATIME_NOW) != 0) change.atime = now;
  if ((valid & FUSE_SET_ATTR_MTIME_NOW) != 0) change.mtime = now;
  if ((valid & (FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW)) != 0) change.ctime = now;
  answer_attributes(request, files_of(request).setattr(ino, change));
}

/// Returns whether a file's set-group-id bit, if it has one, may stay when the caller sets an
/// access ACL. The kernel says so in the request, but libfuse 3.14 does not pass that on.
bool keeps_set_group(fuse_req_t request, fuse_ino_t ino) {
  const auto found = files_of(request).getattr(ino);
  if (!found || (found->st_mode & S_ISGID) == 0) return true;
  const gid_t group = context_of(request).ids.inside(*found).st_gid;
  const fuse_ctx* context = fuse_req_ctx(request);
  return context->gid == group || may_set_group_id(context->pid, group);
}

/// Sets an ACL. The ids in `value` are the kernel's.
void set_acl(fuse_req_t request, fuse_ino_t ino, const char* name, std::string_view value) {
  const IdMaps& ids = context_of(request).ids;
  auto acl = Acl::parse(value);
  const bool unknown =
      acl && acl->translate([&](std::uint32_t id) { return ids.users.outside(id); },
                            [&](std::uint32_t id) { return ids.groups.outside(id); });
  if (!acl || unknown) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  answer(request, files_of(request).set_xattr(ino, name, acl->attribute(), 0,
                                              name != kAccessAcl || keeps_set_group(request, ino)));
}

/// Answers with an ACL. Leaves out entries for ids that do not exist in this user namespace,
/// because the kernel has no number for them.
void get_acl(fuse_req_t request, fuse_ino_t ino, const char* name, std::size_t size) {
  const IdMaps& ids = context_of(request).ids;
  auto value = files_of(request).get_xattr(ino, name);
  if (value) {
    if (auto acl = Acl::parse(*value)) {
      acl->translate([&](std::uint32_t id) { return ids.users.inside(id); },
                     [&](std::uint32_t id) { return ids.groups.inside(id); });
      value = acl->attribute();
    } else {
      value = posix_error(EIO);
    }
  }
  answer_xattr(request, value, size);
}

void do_setxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value,
                 std::size_t size, int flags) {
  if (is_acl(name)) return set_acl(request, ino, name, {value, size});
  answer(request, files_of(request).set_xattr(ino, name, {value, size}, flags));
}

void do_getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, std::size_t size) {
  if (is_acl(name)) return get_acl(request, ino, name, size);
  answer_xattr(request, files_of(request).get_xattr(ino, name), size);
}

void do_listxattr(fuse_req_t request, fuse_ino_t ino, std::size_t size) {
  const auto names = files_of(request).list_xattrs(ino);
  if (!names) {
    fuse_reply_err(request, names.error());
    return;
  }
  std::string all;
  // Root in another user namespace is not privileged.
  const bool privileged = fuse_req_ctx(request)->uid == 0 && context_of(request).ids.are_identity();
  for (const std::string& name : *names)
    if (privileged || !name.starts_with("trusted.")) all.append(name).push_back('\0');
  answer_xattr(request, all, size);
}

void do_removexattr(fuse_req_t request, fuse_ino_t ino, const char* name) {
  answer(request, files_of(request).remove_xattr(ino, name));
}

// ---- data --------------------------------------------------------------------------------------

/// Stores in the handle whether the file is open for writing, because a flush does not say so.
void prepare(fuse_file_info* file) {
  file->fh = (file->flags & O_ACCMODE) != O_RDONLY;
  file->keep_cache = 1;
}
bool is_writer(const fuse_file_info* file) { return file->fh != 0; }

void do_open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  FuseContext& context = context_of(request);
  OpenWriters& writers = context.writers;
  prepare(file);
  if (is_writer(file)) {
    writers.opened(ino);
    const auto before = files_of(request).getattr(ino);
    if (before && before->st_blocks == 0)  // the kernel may have cached that
      fuse_lowlevel_notify_inval_inode(context.session, ino, -1, 0);
  }
  if (fuse_reply_open(request, file) != 0 && is_writer(file)) writers.closed(ino);
}

void do_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
               fuse_file_info* file) {
  const auto made =
      name == kUnnamed
          ? files_of(request).make_unnamed(caller(request), parent, S_IFREG | mode)
          : files_of(request).make(caller(request), parent, name, {S_IFREG | mode, 0, {}});
  if (!made) {
    fuse_reply_err(request, made.error());
    return;
  }
  FuseContext& context = context_of(request);
  prepare(file);
  fuse_entry_param entry = entry_of(request, *made);
  if (is_writer(file)) {
    context.writers.opened(entry.ino);
    // The file is about to take room. With st_blocks 1 the kernel need not ask before the file is
    // closed.
    entry.attr.st_blocks = 1;
  }
  const int answered = fuse_reply_create(request, &entry, file);
  if (answered != 0 && is_writer(file)) context.writers.closed(entry.ino);
  if (answered == -ENOENT) context.files->forget(entry.ino, 1);
}

void do_read(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
             fuse_file_info* file) {
  thread_local Bytes buffer;
  if (buffer.size() < size) buffer.resize(size);
  // A read of a file that is open only for writing comes from the kernel itself, which fills up a
  // page.
  const bool quietly = (file->flags & O_NOATIME) != 0 || (file->flags & O_ACCMODE) == O_WRONLY;
  const auto got = files_of(request).read(ino, static_cast<std::uint64_t>(offset),
                                          MutableByteSpan(buffer).first(size), quietly);
  if (got)
    fuse_reply_buf(request, reinterpret_cast<const char*>(buffer.data()), *got);
  else
    fuse_reply_err(request, got.error());
}

void do_write(fuse_req_t request, fuse_ino_t ino, const char* data, std::size_t size, off_t offset,
              fuse_file_info* file) {
  FuseContext& context = context_of(request);
  const bool from_page_cache = file->writepage != 0;
  if (from_page_cache) ++context.write_backs;
  const auto other_room = files_of(request).write(ino, static_cast<std::uint64_t>(offset),
                                                  as_bytes({data, size}), from_page_cache);
  // The kernel does not ask again for st_blocks after a write-back, so it must drop the attributes.
  // This comes before the answer: until the kernel has the answer the inode cannot go away, and the
  // call does not block.
  if (other_room && *other_room && from_page_cache)
    fuse_lowlevel_notify_inval_inode(context.session, ino, -1, 0);
  if (other_room) {
    fuse_reply_write(request, size);
    return;
  }
  if (from_page_cache) context.writers.refused(ino);
  fuse_reply_err(request, other_room.error());
  if (from_page_cache) context.after_write_back->forget(ino, offset, static_cast<off_t>(size));
}

void do_flush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  answer(request, is_writer(file) ? files_of(request).closing(ino) : PosixStatus());
}

/// Called when the last descriptor of an open file is closed. (A flush comes too early: a shell
/// closes copies of its descriptor before it has written.)
void do_release(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  if (is_writer(file)) {
    context_of(request).writers.closed(ino);
    files_of(request).closed(ino);
  }
  fuse_reply_err(request, 0);
}

void do_fsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  context_of(request).writers.told(ino);
  answer(request, files_of(request).sync(ino));
}

void do_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  fuse_file_info*) {
  answer(request, files_of(request).fallocate(ino, mode, static_cast<std::uint64_t>(offset),
                                              static_cast<std::uint64_t>(length)));
}

/// If no one has the file open for writing, the kernel holds no dirty pages, so our copy is
/// complete.
void do_lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, fuse_file_info*) {
  const auto seek = [=](int error) {
    Posix<std::uint64_t> found = posix_error(error);
    if (error == 0) found = files_of(request).seek(ino, static_cast<std::uint64_t>(offset), whence);
    if (found)
      fuse_reply_lseek(request, static_cast<off_t>(*found));
    else
      fuse_reply_err(request, found.error());
  };
  FuseContext& context = context_of(request);
  if (context.writers.contains(ino))
    context.after_write_back->then({ino}, seek);
  else
    seek(0);
}

void do_statfs(fuse_req_t request, fuse_ino_t) {
  const auto figures = files_of(request).statfs();
  if (figures)
    fuse_reply_statfs(request, &*figures);
  else
    fuse_reply_err(request, figures.error());
}

fuse_lowlevel_ops make_ops() {
  fuse_lowlevel_ops ops{};
  ops.init = do_init;
  ops.lookup = do_lookup;
  ops.forget = do_forget;
  ops.forget_multi = do_forget_multi;
  ops.mknod = do_mknod;
  ops.mkdir = do_mkdir;
  ops.symlink = do_symlink;
  ops.link = do_link;
  ops.unlink = do_unlink;
  ops.rmdir = do_rmdir;
  ops.rename = do_rename;
  ops.readlink = do_readlink;
  ops.opendir = do_opendir;
  ops.readdir = do_readdir;
  ops.readdirplus = do_readdirplus;
  ops.releasedir = do_releasedir;
  ops.fsyncdir = do_fsyncdir;
  ops.getattr = do_getattr;
  ops.setattr = do_setattr;
  ops.setxattr = do_setxattr;
  ops.getxattr = do_getxattr;
  ops.listxattr = do_listxattr;
  ops.removexattr = do_removexattr;
  ops.open = do_open;
  ops.create = do_create;
  ops.read = do_read;
  ops.write = do_write;
  ops.flush = do_flush;
  ops.release = do_release;
  ops.fsync = do_fsync;
  ops.fallocate = do_fallocate;
  ops.lseek = do_lseek;
  ops.statfs = do_statfs;
  return ops;
}

}  // namespace

void adapt(fuse_buf& request) {
  // FUSE_TMPFILE of linux/fuse.h since Linux 6.2. It has the layout of FUSE_CREATE, and the kernel
  // sends "/" as its name.
  constexpr std::uint32_t kTemporaryFile = 51;
  if ((request.flags & FUSE_BUF_IS_FD) != 0 || request.size < sizeof(fuse_in_header)) return;
  auto& header = *static_cast<fuse_in_header*>(request.mem);
  if (header.opcode == kTemporaryFile) header.opcode = FUSE_CREATE;
}

bool is_use(const fuse_buf& request) {
  if ((request.flags & FUSE_BUF_IS_FD) != 0 || request.size < sizeof(fuse_in_header)) return true;
  switch (static_cast<const fuse_in_header*>(request.mem)->opcode) {
    case FUSE_STATFS:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
      return false;
    default:
      return true;
  }
}

const fuse_lowlevel_ops& fuse_ops() {
  static const fuse_lowlevel_ops ops = make_ops();
  return ops;
}

}  // namespace s3oram
