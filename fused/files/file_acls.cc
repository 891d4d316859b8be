// Access control lists. They are kept as extended attributes, and the kernel obeys them
// (default_permissions, FUSE_CAP_POSIX_ACL). It leaves to us what they have to do with modes, and
// the inheritance.
#include "fused/files/file_system.h"

namespace s3oram {

/// Returns one of the node's lists, if it has it.
Posix<std::optional<Acl>> FileSystem::acl(const Node& node, std::string_view name) {
  if (node.xattr_names == 0) return std::optional<Acl>();
  S3O_POSIX_GET(stored, metadata_.xattrs.find({node.ino, std::string(name)}));
  if (!stored) return std::optional<Acl>();
  if (stored->damaged) return damaged_xattr(node.ino);
  auto acl = Acl::parse(stored->value);
  if (!acl) return damaged_xattr(node.ino);
  return std::optional(std::move(*acl));
}

/// Sets a list. An access list changes the mode, and is kept only if it says more than the mode.
PosixStatus FileSystem::set_acl(Node& node, const std::string& name, const std::string& value,
                                bool keep_set_group) {
  if (S_ISLNK(node.row.mode)) return posix_error(EOPNOTSUPP);
  S3O_POSIX_GET(acl, Acl::parse(value));
  if (name == kDefaultAcl) {
    if (!S_ISDIR(node.row.mode)) return posix_error(EACCES);
    return put_xattr(node, name, acl.attribute(), 0);
  }
  std::uint32_t mode = acl.mode(node.row.mode);
  if (!keep_set_group) mode &= ~std::uint32_t{S_ISGID};
  if (!acl.is_minimal()) {
    S3O_POSIX_TRY(put_xattr(node, name, acl.attribute(), 0));
  } else if (const auto erased = erase_xattr(node, name); !erased && erased.error() != ENODATA) {
    return posix_error(erased.error());
  }
  node.row.mode = mode;
  node.row.ctime = timing_.wall_clock();
  store(node);
  return {};
}

/// Makes the access list follow a change of the mode.
PosixStatus FileSystem::change_acl(const Node& node, std::uint32_t mode) {
  S3O_POSIX_GET(acl, this->acl(node, kAccessAcl));
  if (!acl || acl->mode(mode) == mode) return {};
  acl->change_mode(mode);
  metadata_.xattrs.put({node.ino, std::string(kAccessAcl)}, {acl->attribute()});
  return {};
}

/// Returns the mode and the lists of a new node in the directory. A default list replaces the
/// umask.
Posix<FileSystem::Inherited> FileSystem::inherit(const Caller& caller, const Node& directory,
                                                 std::uint32_t mode) {
  if (S_ISLNK(mode)) return Inherited{mode, {}};
  S3O_POSIX_GET(acl, this->acl(directory, kDefaultAcl));
  if (!acl) return Inherited{mode & ~caller.umask, {}};
  Inherited out;
  if (S_ISDIR(mode)) out.lists.emplace_back(kDefaultAcl, acl->attribute());
  out.mode = acl->inherit(mode);
  if (!acl->is_minimal()) out.lists.emplace_back(kAccessAcl, acl->attribute());
  return out;
}

/// Gives the lists to a new node, which has no other attributes.
void FileSystem::hand_down(const Inherited& inherited, Node& node) {
  for (const auto& [name, value] : inherited.lists) {
    metadata_.xattrs.put({node.ino, name}, {value});
    *node.xattr_names += name.size() + 1;
  }
}

}  // namespace s3oram
