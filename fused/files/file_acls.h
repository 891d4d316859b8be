// Access control lists of files. They are stored as extended attributes, and the kernel enforces
// them (default_permissions, FUSE_CAP_POSIX_ACL). The kernel does not handle their effect on modes,
// nor their inheritance, so this class does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fused/files/acl.h"
#include "fused/files/files_state.h"
#include "fused/files/requests.h"
#include "fused/files/xattrs.h"

namespace s3oram {

class FileAcls {
 public:
  FileAcls(FilesState& state, Xattrs& xattrs) : state_(state), xattrs_(xattrs) {}

  /// Sets a list. An access list changes the mode, and is kept only if it says more than the mode.
  /// `keep_set_group`: the caller may leave a set-group-id bit as it is.
  PosixStatus set(Node& node, const std::string& name, const std::string& value,
                  bool keep_set_group);
  /// Updates the access list after a change of the mode.
  PosixStatus change_mode(const Node& node, std::uint32_t mode);

  /// The mode and the lists that a new node inherits from its directory.
  struct Inherited {
    std::uint32_t mode = 0;
    std::vector<std::pair<std::string, std::string>> lists;  // as attributes: name, value
  };
  /// Returns the mode and the lists of a new node in the directory. If the directory has a default
  /// list, it takes the place of the umask.
  Posix<Inherited> inherit(const Caller& caller, const Node& directory, std::uint32_t mode);
  /// Adds the lists to a new node, which must have no other attributes.
  void hand_down(const Inherited& inherited, Node& node);

 private:
  /// Returns one of the node's lists, if it has it.
  Posix<std::optional<Acl>> get(const Node& node, std::string_view name);

  FilesState& state_;
  Xattrs& xattrs_;
};

}  // namespace s3oram
