// dropfs MOUNTPOINT: a file system in memory that loses, on command, everything that was not
// synced. It stays in the foreground until it is unmounted. Commands are lines written to
// MOUNTPOINT/.dropfs:
//
//   freeze [N]     stops all changes: a call that would change something waits. With N: from
//                  the Nth sync on
//   off            calls that wait get EIO, as do all later ones
//   on [all|nothing|random SEED]
//                  the power is back, with what survived: by default nothing that was not synced
//   space BYTES    sets the size of the disk
//
// Reading the file gives "running", "frozen" or "off", and the number of syncs so far. Between
// `off` and `on` all programs that have files open must end.
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>

#include "tests/system/drop_store.h"

namespace s3oram {
namespace {

using Ino = DropStore::Ino;
using Node = DropStore::Node;

constexpr Ino kControl = 2;
constexpr std::string_view kControlName = ".dropfs";
// Attributes change only through the kernel, so it may cache them forever; the command "on" also
// changes names.
constexpr double kForever = 1e6;

enum class Power { running, frozen, off };

DropStore store;
Power power = Power::running;
std::optional<std::uint64_t> syncs_left;  // syncs until it freezes
std::uint64_t syncs = 0;
std::vector<fuse_req_t> waiting;

// ---- power -------------------------------------------------------------------------------------

/// Returns whether the request, which would change something, has been handled instead.
bool held(fuse_req_t request) {
  if (power == Power::frozen) waiting.push_back(request);
  if (power == Power::off) fuse_reply_err(request, EIO);
  return power != Power::running;
}

bool held_sync(fuse_req_t request) {
  if (power == Power::running) {
    ++syncs;
    if (syncs_left && (*syncs_left)-- <= 1) power = Power::frozen;
  }
  return held(request);
}

bool obey(const std::string& line) {
  std::istringstream words(line);
  std::string command, survival;
  std::uint64_t number = 0;
  words >> command;
  if (command == "freeze") {
    if (words >> number)
      syncs_left = number;
    else
      power = Power::frozen;
  } else if (command == "off") {
    power = Power::off;
    for (fuse_req_t request : waiting) fuse_reply_err(request, EIO);
    waiting.clear();
  } else if (command == "on") {
    auto what = DropStore::Survival::nothing;
    if (words >> survival) {
      if (survival == "all") what = DropStore::Survival::everything;
      if (survival == "random" && words >> number) what = DropStore::Survival::random;
    }
    store.cut(what, number);
    power = Power::running;
    syncs_left.reset();
  } else if (command == "space" && words >> number) {
    store.most_pages = number / DropStore::kPage;
  } else {
    return false;
  }
  return true;
}

std::string report() {
  constexpr const char* kNames[] = {"running", "frozen", "off"};
  return std::string(kNames[static_cast<int>(power)]) + " " + std::to_string(syncs) + "\n";
}

// ---- answers -----------------------------------------------------------------------------------

struct stat attributes_of(Ino ino, const Node& node) {
  struct stat out = node.attributes;
  out.st_ino = ino;
  out.st_nlink = S_ISDIR(out.st_mode) ? 2 : 1;
  out.st_size = static_cast<off_t>(S_ISLNK(out.st_mode) ? node.target.size() : node.now.size);
  out.st_blksize = DropStore::kPage;
  out.st_blocks =
      static_cast<blkcnt_t>(node.now.pages.size() * (DropStore::kPage / DropStore::kSector));
  return out;
}

struct stat control_attributes() {
  struct stat out {};
  out.st_ino = kControl;
  out.st_mode = S_IFREG | 0666;
  out.st_nlink = 1;
  return out;
}

fuse_entry_param entry_of(const struct stat& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.st_ino;
  entry.attr = attributes;
  entry.attr_timeout = kForever;
  return entry;
}

/// Returns the node, to which the kernel now has one more reference.
fuse_entry_param refer(Ino ino) {
  Node& node = *store.find(ino);
  ++node.lookups;
  return entry_of(attributes_of(ino, node));
}

/// Returns the node that the kernel means, or answers that it is from before a cut.
Node* known(fuse_req_t request, Ino ino) {
  Node* node = store.find(ino);
  if (!node) fuse_reply_err(request, ESTALE);
  return node;
}

Ino child(const Node& directory, std::string_view name) {
  const auto found = directory.names.find(name);
  return found == directory.names.end() ? 0 : found->second;
}

// ---- names -------------------------------------------------------------------------------------

void do_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (parent == DropStore::kRoot && name == kControlName) {
    const fuse_entry_param entry = entry_of(control_attributes());
    fuse_reply_entry(request, &entry);
    return;
  }
  const Node* directory = known(request, parent);
  if (!directory) return;
  const Ino ino = child(*directory, name);
  if (ino == 0) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const fuse_entry_param entry = refer(ino);
  fuse_reply_entry(request, &entry);
}

void do_forget(fuse_req_t request, fuse_ino_t ino, std::uint64_t references) {
  if (Node* node = store.find(ino)) node->lookups -= std::min(node->lookups, references);
  fuse_reply_none(request);
}

/// Returns 0 if the request has been answered.
Ino make(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  const Node* directory = known(request, parent);
  if (!directory) return 0;
  if (child(*directory, name) != 0) {
    fuse_reply_err(request, EEXIST);
    return 0;
  }
  struct stat attributes {};
  attributes.st_mode = mode;
  attributes.st_uid = fuse_req_ctx(request)->uid;
  attributes.st_gid = fuse_req_ctx(request)->gid;
  clock_gettime(CLOCK_REALTIME, &attributes.st_mtim);
  attributes.st_atim = attributes.st_ctim = attributes.st_mtim;
  const Ino ino = store.make(attributes);
  store.change_names({{parent, name, ino}});
  return ino;
}

void do_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t) {
  if (held(request)) return;
  const Ino ino = make(request, parent, name, mode);
  if (ino == 0) return;
  const fuse_entry_param entry = refer(ino);
  fuse_reply_entry(request, &entry);
}

void do_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  do_mknod(request, parent, name, S_IFDIR | mode, 0);
}

void do_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  if (held(request)) return;
  const Ino ino = make(request, parent, name, S_IFLNK | 0777);
  if (ino == 0) return;
  store.find(ino)->target = target;
  const fuse_entry_param entry = refer(ino);
  fuse_reply_entry(request, &entry);
}

void do_readlink(fuse_req_t request, fuse_ino_t ino) {
  if (const Node* node = known(request, ino)) fuse_reply_readlink(request, node->target.c_str());
}

void do_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
               fuse_file_info* file) {
  if (held(request)) return;
  const Ino ino = make(request, parent, name, S_IFREG | mode);
  if (ino == 0) return;
  const fuse_entry_param entry = refer(ino);
  fuse_reply_create(request, &entry, file);
}

void do_link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char* new_name) {
  if (held(request)) return;
  const Node* to = known(request, new_parent);
  if (!to || !known(request, ino)) return;
  if (child(*to, new_name) != 0) {
    fuse_reply_err(request, EEXIST);
    return;
  }
  store.change_names({{new_parent, new_name, ino}});
  const fuse_entry_param entry = refer(ino);
  fuse_reply_entry(request, &entry);
}

void do_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (held(request)) return;
  const Node* directory = known(request, parent);
  if (!directory) return;
  const Ino ino = child(*directory, name);
  int error = ino == 0 ? ENOENT : 0;
  if (error == 0 && !store.find(ino)->names.empty()) error = ENOTEMPTY;
  if (error == 0) store.change_names({{parent, name, 0}});
  fuse_reply_err(request, error);
}

void do_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
               const char* new_name, unsigned flags) {
  if (held(request)) return;
  const Node* from = known(request, parent);
  if (!from) return;
  const Node* to = known(request, new_parent);
  if (!to) return;
  const Ino ino = child(*from, name), target = child(*to, new_name);
  int error = 0;
  if (ino == 0) error = ENOENT;
  if ((flags & ~RENAME_NOREPLACE) != 0) error = EINVAL;
  if (target != 0 && (flags & RENAME_NOREPLACE) != 0) error = EEXIST;
  if (target != 0 && !store.find(target)->names.empty()) error = ENOTEMPTY;
  if (error == 0) store.change_names({{parent, name, 0}, {new_parent, new_name, ino}});
  fuse_reply_err(request, error);
}

void do_readdir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                fuse_file_info*) {
  const Node* node = known(request, ino);
  if (!node) return;
  std::vector<std::pair<std::string, Ino>> entries{{".", ino}, {"..", ino}};
  entries.insert(entries.end(), node->names.begin(), node->names.end());
  std::string buffer(size, '\0');
  std::size_t used = 0;
  for (auto at = static_cast<std::size_t>(offset); at < entries.size(); ++at) {
    struct stat attributes {};
    attributes.st_ino = entries[at].second;
    attributes.st_mode = store.find(entries[at].second)->attributes.st_mode;
    const std::size_t needs =
        fuse_add_direntry(request, buffer.data() + used, size - used, entries[at].first.c_str(),
                          &attributes, static_cast<off_t>(at + 1));
    if (needs > size - used) break;
    used += needs;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void do_fsyncdir(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  if (held_sync(request)) return;
  if (!known(request, ino)) return;
  store.sync_names(ino);
  fuse_reply_err(request, 0);
}

// ---- files -------------------------------------------------------------------------------------

void do_getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  if (ino == kControl) {
    const struct stat attributes = control_attributes();
    fuse_reply_attr(request, &attributes, kForever);
  } else if (const Node* node = known(request, ino)) {
    const struct stat attributes = attributes_of(ino, *node);
    fuse_reply_attr(request, &attributes, kForever);
  }
}

void do_setattr(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int valid,
                fuse_file_info* file) {
  if (ino == kControl) return do_getattr(request, ino, file);  // a shell truncates it
  if (held(request)) return;
  Node* node = known(request, ino);
  if (!node) return;
  struct stat& now = node->attributes;
  if ((valid & FUSE_SET_ATTR_SIZE) != 0)
    store.resize(*node, static_cast<std::uint64_t>(wanted->st_size));
  if ((valid & FUSE_SET_ATTR_MODE) != 0) now.st_mode = wanted->st_mode;
  if ((valid & FUSE_SET_ATTR_UID) != 0) now.st_uid = wanted->st_uid;
  if ((valid & FUSE_SET_ATTR_GID) != 0) now.st_gid = wanted->st_gid;
  if ((valid & FUSE_SET_ATTR_ATIME) != 0) now.st_atim = wanted->st_atim;
  if ((valid & FUSE_SET_ATTR_MTIME) != 0) now.st_mtim = wanted->st_mtim;
  do_getattr(request, ino, file);
}

void do_open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  file->direct_io = ino == kControl;
  file->keep_cache = 1;  // after a cut a file has a new node
  if (ino == kControl || known(request, ino)) fuse_reply_open(request, file);
}

void do_read(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info*) {
  std::string out;
  if (ino == kControl) {
    out = report();
    out.erase(0, static_cast<std::size_t>(offset));
  } else if (const Node* node = known(request, ino)) {
    out = store.read(*node, static_cast<std::uint64_t>(offset), size);
  } else {
    return;
  }
  fuse_reply_buf(request, out.data(), out.size());
}

void do_write(fuse_req_t request, fuse_ino_t ino, const char* data, std::size_t size, off_t offset,
              fuse_file_info*) {
  if (ino == kControl) {
    if (obey({data, size}))
      fuse_reply_write(request, size);
    else
      fuse_reply_err(request, EINVAL);
    return;
  }
  if (held(request)) return;
  Node* node = known(request, ino);
  if (!node) return;
  if (store.write(*node, static_cast<std::uint64_t>(offset), {data, size}))
    fuse_reply_write(request, size);
  else
    fuse_reply_err(request, ENOSPC);
}

void do_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  fuse_file_info*) {
  if (held(request)) return;
  Node* node = known(request, ino);
  if (!node) return;
  constexpr int kZero = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  const auto from = static_cast<std::uint64_t>(offset), size = static_cast<std::uint64_t>(length);
  int error = (mode & ~(kZero | FALLOC_FL_KEEP_SIZE)) != 0 ? EOPNOTSUPP : 0;
  if (error == 0 && (mode & kZero) != 0) store.zero(*node, from, size);
  if (error == 0 && (mode & FALLOC_FL_PUNCH_HOLE) == 0 && !store.allocate(*node, from, size))
    error = ENOSPC;
  if (error == 0 && (mode & FALLOC_FL_KEEP_SIZE) == 0 && from + size > node->now.size)
    store.resize(*node, from + size);
  fuse_reply_err(request, error);
}

/// Applies to fdatasync too, because the size is needed to find the data.
void do_fsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  if (held_sync(request)) return;
  Node* node = known(request, ino);
  if (!node) return;
  store.sync(*node);
  fuse_reply_err(request, 0);
}

void do_nothing(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, 0); }

void do_statfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs out {};
  out.f_bsize = out.f_frsize = DropStore::kPage;
  out.f_blocks = store.most_pages;
  out.f_bfree = out.f_bavail = store.most_pages - std::min(store.pages(), store.most_pages);
  out.f_namemax = 255;
  fuse_reply_statfs(request, &out);
}

fuse_lowlevel_ops make_ops() {
  fuse_lowlevel_ops ops{};
  ops.lookup = do_lookup;
  ops.forget = do_forget;
  ops.mknod = do_mknod;
  ops.mkdir = do_mkdir;
  ops.symlink = do_symlink;
  ops.readlink = do_readlink;
  ops.create = do_create;
  ops.link = do_link;
  ops.unlink = do_unlink;
  ops.rmdir = do_unlink;
  ops.rename = do_rename;
  ops.readdir = do_readdir;
  ops.fsyncdir = do_fsyncdir;
  ops.getattr = do_getattr;
  ops.setattr = do_setattr;
  ops.open = do_open;
  ops.read = do_read;
  ops.write = do_write;
  ops.fallocate = do_fallocate;
  ops.fsync = do_fsync;
  ops.flush = do_nothing;
  ops.release = do_nothing;
  ops.statfs = do_statfs;
  return ops;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: dropfs MOUNTPOINT\n";
    return 2;
  }
  const fuse_lowlevel_ops ops = make_ops();
  std::string words[] = {"dropfs", "-o", "default_permissions,fsname=dropfs"};
  char* fuse_argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(3, fuse_argv);
  fuse_session* session = fuse_session_new(&args, &ops, sizeof ops, nullptr);
  if (!session || fuse_set_signal_handlers(session) != 0) return 1;
  if (fuse_session_mount(session, argv[1]) != 0) return 1;
  const int outcome = fuse_session_loop(session);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  return outcome < 0 ? 1 : 0;
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) { return s3oram::main(argc, argv); }
