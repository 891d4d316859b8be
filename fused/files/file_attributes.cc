// Attributes, and extended attributes.
#include <sys/xattr.h>

#include "fused/files/file_system.h"

namespace s3oram {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kPermissions = 07777;
constexpr std::size_t kLongestXattrName = 255, kLongestXattr = 65'536;
constexpr std::size_t kLongestXattrList = 65'536;  // the kernel accepts no longer list
// `ls -l` asks every file for its SELinux label, unless EOPNOTSUPP says that there are none here.
constexpr std::string_view kLabel = "security.selinux";

timespec to_timespec(std::int64_t ns) {
  timespec time{};
  time.tv_sec = ns / kSecond;
  time.tv_nsec = ns % kSecond;
  if (time.tv_nsec < 0) {
    time.tv_nsec += kSecond;
    --time.tv_sec;
  }
  return time;
}

PosixStatus check_xattr_name(std::string_view name) {
  if (name.size() > kLongestXattrName) return posix_error(ERANGE);
  if (is_acl(name)) return {};
  for (const std::string_view space : {"user.", "trusted.", "security."}) {
    if (!name.starts_with(space)) continue;
    return name == space ? posix_error(EINVAL) : PosixStatus();
  }
  return posix_error(EOPNOTSUPP);
}

/// Returns the bytes of a name in a list, with the zero behind it.
std::size_t listed_size(const std::string& name) { return name.size() + 1; }

}  // namespace

/// Sets labelled_, also if damage may hide a label.
Status FileSystem::look_for_labels() {
  auto found = metadata_.number(
      fmt::format("SELECT EXISTS (SELECT 1 FROM xattrs WHERE name = CAST('{}' AS BLOB))", kLabel));
  if (!found && found.error().code != Errc::damaged_vault) return fail(found.error());
  if (!found) metadata_.damage.note(fmt::format("vault.db: {}", found.error().message));
  labelled_ = !found || *found != 0;
  return {};
}

struct stat FileSystem::attributes(const Node& node) const {
  struct stat out {};
  out.st_ino = node.ino;
  out.st_mode = node.row.mode;
  out.st_nlink = node.row.nlink;
  out.st_uid = node.row.uid;
  out.st_gid = node.row.gid;
  out.st_rdev = node.row.rdev;
  out.st_size = static_cast<off_t>(node.size);
  out.st_blksize = cache_.block_size();
  out.st_blocks = static_cast<blkcnt_t>(cache_.bytes_of(node) / 512);
  out.st_atim = to_timespec(node.row.atime);
  out.st_mtim = to_timespec(node.row.mtime);
  out.st_ctim = to_timespec(node.row.ctime);
  return out;
}

Posix<struct stat> FileSystem::getattr(Ino ino) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  return attributes(*node);
}

Posix<struct stat> FileSystem::setattr(Ino ino, const AttributeChange& change) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(node, known(ino));
  InodeRow& row = node->row;
  AttributeChange nothing;
  nothing.size = node->size;
  if (S_ISREG(row.mode) && change == nothing) return attributes(*node);
  const auto now = timing_.wall_clock();
  if (change.size) {
    if (S_ISDIR(row.mode)) return posix_error(EISDIR);
    if (!S_ISREG(row.mode)) return posix_error(EINVAL);
    if (*change.size > kLargestFile) return posix_error(EFBIG);
    if (*change.size == 0) keep_one_content(lock, node);
    node->rewritten |= *change.size == 0 && node->size > 0;
    if (*change.size != node->size) row.mtime = now;
    S3O_POSIX_TRY(cache_.truncate(*node, *change.size));
  }
  if (change.mode) S3O_POSIX_TRY(change_acl(*node, *change.mode));
  if (change.mode) row.mode = (row.mode & S_IFMT) | (*change.mode & kPermissions);
  row.uid = change.uid.value_or(row.uid);
  row.gid = change.gid.value_or(row.gid);
  row.atime = change.atime.value_or(row.atime);
  row.mtime = change.mtime.value_or(row.mtime);
  row.ctime = change.ctime.value_or(now);
  store(*node);
  return attributes(*node);
}

PosixStatus FileSystem::set_xattr(Ino ino, const std::string& name, std::string value, int flags,
                                  bool keep_set_group) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(node, known(ino));
  S3O_POSIX_TRY(check_xattr_name(name));
  if (value.size() > kLongestXattr) return posix_error(E2BIG);
  return is_acl(name) ? set_acl(*node, name, value, keep_set_group)
                      : put_xattr(*node, name, std::move(value), flags);
}

PosixStatus FileSystem::put_xattr(Node& node, const std::string& name, std::string value,
                                  int flags) {
  S3O_POSIX_GET(existing, metadata_.xattrs.find({node.ino, name}));
  if (existing && existing->damaged) return damaged_xattr(node.ino);
  if ((flags & XATTR_CREATE) != 0 && existing) return posix_error(EEXIST);
  if ((flags & XATTR_REPLACE) != 0 && !existing) return posix_error(ENODATA);
  if (!existing) {
    if (!node.xattr_names) S3O_POSIX_TRY(xattr_names(node));
    const std::size_t list = *node.xattr_names + listed_size(name);
    if (list > kLongestXattrList) return posix_error(ENOSPC);
    node.xattr_names = list;
  }
  metadata_.xattrs.put({node.ino, name}, {std::move(value)});
  labelled_ |= name == kLabel;
  node.row.ctime = timing_.wall_clock();
  store(node);
  return {};
}

/// The row stays, so that fsck can report that another attribute may be lost with it.
tl::unexpected<int> FileSystem::damaged_xattr(Ino ino) {
  tell_of_damage(ino, "one of its extended attributes is damaged");
  return posix_error(EIO);
}

Posix<std::string> FileSystem::get_xattr(Ino ino, const std::string& name) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  S3O_POSIX_TRY(check_xattr_name(name));
  if (name == kLabel && !labelled_) return posix_error(EOPNOTSUPP);
  if (node->xattr_names == 0) return posix_error(ENODATA);  // the kernel asks before every write
  S3O_POSIX_GET(value, metadata_.xattrs.find({ino, name}));
  if (!value) return posix_error(ENODATA);
  if (value->damaged) return damaged_xattr(ino);
  return std::move(value->value);
}

Posix<std::vector<std::string>> FileSystem::list_xattrs(Ino ino) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  return xattr_names(*node);
}

Posix<std::vector<std::string>> FileSystem::xattr_names(Node& node) {
  std::vector<std::string> names;
  std::size_t list = 0;
  const auto each = [&](const XattrKey& key, const auto&) {
    names.push_back(key.name);
    list += listed_size(key.name);
    return true;
  };
  S3O_POSIX_GET(whole, metadata_.xattrs.scan({node.ino, {}}, each));
  if (!whole) return damaged_xattr(node.ino);
  node.xattr_names = list;
  return names;
}

PosixStatus FileSystem::remove_xattr(Ino ino, const std::string& name) {
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(node, known(ino));
  S3O_POSIX_TRY(check_xattr_name(name));
  const auto erased = erase_xattr(*node, name);
  const bool none = !erased && erased.error() == ENODATA;
  return none && is_acl(name) ? PosixStatus() : erased;  // the mode is a list, too
}

PosixStatus FileSystem::erase_xattr(Node& node, const std::string& name) {
  S3O_POSIX_GET(existing, metadata_.xattrs.find({node.ino, name}));
  if (!existing) return posix_error(ENODATA);
  if (existing->damaged) return damaged_xattr(node.ino);
  metadata_.xattrs.erase({node.ino, name});
  if (node.xattr_names) *node.xattr_names -= listed_size(name);
  node.row.ctime = timing_.wall_clock();
  store(node);
  return {};
}

}  // namespace s3oram
