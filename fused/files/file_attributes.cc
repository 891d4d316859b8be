// Operations on attributes and extended attributes.
#include "fused/files/attributes.h"
#include "fused/files/file_system.h"

namespace s3oram {

Posix<struct stat> FileSystem::getattr(Ino ino) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  return attributes_of(*node, state_.cache);
}

Posix<struct stat> FileSystem::setattr(Ino ino, const AttributeChange& change) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(node, inodes_.known(ino));
  InodeRow& row = node->row;
  AttributeChange nothing;
  nothing.size = node->size;
  if (S_ISREG(row.mode) && change == nothing) return attributes_of(*node, state_.cache);
  const auto now = state_.timing.wall_clock();
  if (change.size) {
    if (S_ISDIR(row.mode)) return posix_error(EISDIR);
    if (!S_ISREG(row.mode)) return posix_error(EINVAL);
    if (*change.size > kLargestFile) return posix_error(EFBIG);
    if (*change.size == 0) flusher_.keep_one_content(lock, node);
    node->rewritten |= *change.size == 0 && node->size > 0;
    if (*change.size != node->size) row.mtime = now;
    S3O_POSIX_TRY(state_.cache.truncate(*node, *change.size));
  }
  if (change.mode) S3O_POSIX_TRY(acls_.change_mode(*node, *change.mode));
  if (change.mode) row.mode = (row.mode & S_IFMT) | (*change.mode & kPermissions);
  row.uid = change.uid.value_or(row.uid);
  row.gid = change.gid.value_or(row.gid);
  row.atime = change.atime.value_or(row.atime);
  row.mtime = change.mtime.value_or(row.mtime);
  row.ctime = change.ctime.value_or(now);
  state_.store(*node);
  return attributes_of(*node, state_.cache);
}

PosixStatus FileSystem::set_xattr(Ino ino, const std::string& name, std::string value, int flags,
                                  bool keep_set_group) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(node, inodes_.known(ino));
  S3O_POSIX_TRY(Xattrs::check_name(name));
  if (value.size() > Xattrs::kLongest) return posix_error(E2BIG);
  return is_acl(name) ? acls_.set(*node, name, value, keep_set_group)
                      : xattrs_.put(*node, name, std::move(value), flags);
}

Posix<std::string> FileSystem::get_xattr(Ino ino, const std::string& name) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  S3O_POSIX_TRY(Xattrs::check_name(name));
  return xattrs_.get(*node, name);
}

Posix<std::vector<std::string>> FileSystem::list_xattrs(Ino ino) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  return xattrs_.names(*node);
}

PosixStatus FileSystem::remove_xattr(Ino ino, const std::string& name) {
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(node, inodes_.known(ino));
  S3O_POSIX_TRY(Xattrs::check_name(name));
  const auto erased = xattrs_.erase(*node, name);
  const bool none = !erased && erased.error() == ENODATA;
  return none && is_acl(name) ? PosixStatus() : erased;  // the mode serves as a list
}

}  // namespace s3oram
