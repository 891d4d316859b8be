// Keeps access control lists and modes consistent.
#include "fused/files/file_acls.h"

#include <sys/stat.h>

namespace s3oram {

Posix<std::optional<Acl>> FileAcls::get(const Node& node, std::string_view name) {
  if (node.xattr_names == 0) return std::optional<Acl>();
  S3O_POSIX_GET(stored, state_.metadata.xattrs.find({node.ino, std::string(name)}));
  if (!stored) return std::optional<Acl>();
  if (stored->damaged) return xattrs_.damaged(node.ino);
  auto acl = Acl::parse(stored->value);
  if (!acl) return xattrs_.damaged(node.ino);
  return std::optional(std::move(*acl));
}

PosixStatus FileAcls::set(Node& node, const std::string& name, const std::string& value,
                          bool keep_set_group) {
  if (S_ISLNK(node.row.mode)) return posix_error(EOPNOTSUPP);
  S3O_POSIX_GET(acl, Acl::parse(value));
  if (name == kDefaultAcl) {
    if (!S_ISDIR(node.row.mode)) return posix_error(EACCES);
    return xattrs_.put(node, name, acl.attribute(), 0);
  }
  std::uint32_t mode = acl.mode(node.row.mode);
  if (!keep_set_group) mode &= ~std::uint32_t{S_ISGID};
  if (!acl.is_minimal()) {
    S3O_POSIX_TRY(xattrs_.put(node, name, acl.attribute(), 0));
  } else if (const auto erased = xattrs_.erase(node, name); !erased && erased.error() != ENODATA) {
    return posix_error(erased.error());
  }
  node.row.mode = mode;
  node.row.ctime = state_.timing.wall_clock();
  state_.store(node);
  return {};
}

PosixStatus FileAcls::change_mode(const Node& node, std::uint32_t mode) {
  S3O_POSIX_GET(acl, get(node, kAccessAcl));
  if (!acl || acl->mode(mode) == mode) return {};
  acl->change_mode(mode);
  state_.metadata.xattrs.put({node.ino, std::string(kAccessAcl)}, {acl->attribute()});
  return {};
}

Posix<FileAcls::Inherited> FileAcls::inherit(const Caller& caller, const Node& directory,
                                             std::uint32_t mode) {
  if (S_ISLNK(mode)) return Inherited{mode, {}};
  S3O_POSIX_GET(acl, get(directory, kDefaultAcl));
  if (!acl) return Inherited{mode & ~caller.umask, {}};
  Inherited out;
  if (S_ISDIR(mode)) out.lists.emplace_back(kDefaultAcl, acl->attribute());
  out.mode = acl->inherit(mode);
  if (!acl->is_minimal()) out.lists.emplace_back(kAccessAcl, acl->attribute());
  return out;
}

void FileAcls::hand_down(const Inherited& inherited, Node& node) {
  for (const auto& [name, value] : inherited.lists) xattrs_.add(node, name, value);
}

}  // namespace s3oram
