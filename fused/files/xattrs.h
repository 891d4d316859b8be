// Extended attributes as they are stored. The meaning of some of them is in file_acls.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fused/files/files_state.h"

namespace s3oram {

class Xattrs {
 public:
  static constexpr std::size_t kLongest = 65'536;  // bytes of a value

  explicit Xattrs(FilesState& state) : state_(state) {}

  /// Finds out, at mount time, whether any file has an SELinux label, or may have one that damage
  /// hides.
  Status look_for_labels();

  /// Checks that a file may have an attribute of this name. Errors: ERANGE, EINVAL, EOPNOTSUPP.
  static PosixStatus check_name(std::string_view name);

  // The functions below take names that have been checked.

  /// Errors: ENODATA; EOPNOTSUPP for a label when no file has one; EIO (damaged).
  Posix<std::string> get(const Node& node, const std::string& name);
  /// Updates node.xattr_names too.
  Posix<std::vector<std::string>> names(Node& node);
  /// `flags`: those of setxattr(2).
  PosixStatus put(Node& node, const std::string& name, std::string value, int flags);
  PosixStatus erase(Node& node, const std::string& name);
  /// Adds an attribute to a new node, whose other attributes must all have been added by this
  /// function.
  void add(Node& node, const std::string& name, const std::string& value);
  /// Notes that an attribute of the inode is damaged, and returns EIO. The row is kept, so that
  /// fsck can report that another attribute may be lost with it.
  tl::unexpected<int> damaged(Ino ino);

 private:
  FilesState& state_;
  bool labelled_ = true;  // some file has, or had since the mount, an SELinux label
};

}  // namespace s3oram
