// Finds, checks and changes extended attributes.
#include "fused/files/xattrs.h"

#include <sys/xattr.h>

#include <string_view>
#include <utility>

#include "fused/files/acl.h"

namespace s3oram {
namespace {

constexpr std::size_t kLongestXattrName = 255;
constexpr std::size_t kLongestXattrList = 65'536;  // the kernel accepts no longer list
// `ls -l` asks every file for its SELinux label, unless EOPNOTSUPP says that there are none here.
constexpr std::string_view kLabel = "security.selinux";

/// Returns the bytes that a name takes in a list, with the zero after it.
std::size_t listed_size(const std::string& name) { return name.size() + 1; }

}  // namespace

Status Xattrs::look_for_labels() {
  auto found = state_.metadata.number(
      fmt::format("SELECT EXISTS (SELECT 1 FROM xattrs WHERE name = CAST('{}' AS BLOB))", kLabel));
  if (!found && found.error().code != Errc::damaged_vault) return fail(found.error());
  if (!found) state_.metadata.damage.note(fmt::format("vault.db: {}", found.error().message));
  labelled_ = !found || *found != 0;
  return {};
}

PosixStatus Xattrs::check_name(std::string_view name) {
  if (name.size() > kLongestXattrName) return posix_error(ERANGE);
  if (is_acl(name)) return {};
  for (const std::string_view space : {"user.", "trusted.", "security."}) {
    if (!name.starts_with(space)) continue;
    return name == space ? posix_error(EINVAL) : PosixStatus();
  }
  return posix_error(EOPNOTSUPP);
}

Posix<std::string> Xattrs::get(const Node& node, const std::string& name) {
  if (name == kLabel && !labelled_) return posix_error(EOPNOTSUPP);
  if (node.xattr_names == 0) return posix_error(ENODATA);  // the kernel asks before every write
  S3O_POSIX_GET(value, state_.metadata.xattrs.find({node.ino, name}));
  if (!value) return posix_error(ENODATA);
  if (value->damaged) return damaged(node.ino);
  return std::move(value->value);
}

Posix<std::vector<std::string>> Xattrs::names(Node& node) {
  std::vector<std::string> names;
  std::size_t list = 0;
  const auto each = [&](const XattrKey& key, const auto&) {
    names.push_back(key.name);
    list += listed_size(key.name);
    return true;
  };
  S3O_POSIX_GET(whole, state_.metadata.xattrs.scan({node.ino, {}}, each));
  if (!whole) return damaged(node.ino);
  node.xattr_names = list;
  return names;
}

PosixStatus Xattrs::put(Node& node, const std::string& name, std::string value, int flags) {
  S3O_POSIX_GET(existing, state_.metadata.xattrs.find({node.ino, name}));
  if (existing && existing->damaged) return damaged(node.ino);
  if ((flags & XATTR_CREATE) != 0 && existing) return posix_error(EEXIST);
  if ((flags & XATTR_REPLACE) != 0 && !existing) return posix_error(ENODATA);
  if (!existing) {
    if (!node.xattr_names) S3O_POSIX_TRY(names(node));
    const std::size_t list = *node.xattr_names + listed_size(name);
    if (list > kLongestXattrList) return posix_error(ENOSPC);
    node.xattr_names = list;
  }
  state_.metadata.xattrs.put({node.ino, name}, {std::move(value)});
  labelled_ |= name == kLabel;
  node.row.ctime = state_.timing.wall_clock();
  state_.store(node);
  return {};
}

void Xattrs::add(Node& node, const std::string& name, const std::string& value) {
  state_.metadata.xattrs.put({node.ino, name}, {value});
  *node.xattr_names += listed_size(name);
}

PosixStatus Xattrs::erase(Node& node, const std::string& name) {
  S3O_POSIX_GET(existing, state_.metadata.xattrs.find({node.ino, name}));
  if (!existing) return posix_error(ENODATA);
  if (existing->damaged) return damaged(node.ino);
  state_.metadata.xattrs.erase({node.ino, name});
  if (node.xattr_names) *node.xattr_names -= listed_size(name);
  node.row.ctime = state_.timing.wall_clock();
  state_.store(node);
  return {};
}

tl::unexpected<int> Xattrs::damaged(Ino ino) {
  state_.tell_of_damage(ino, "one of its extended attributes is damaged");
  return posix_error(EIO);
}

}  // namespace s3oram
