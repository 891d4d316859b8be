// POSIX access control lists, in the format of the kernel's extended attributes: a version, then a
// tag, permissions and an id for each entry (little endian). The rules are those of acl(5) and of
// the kernel's fs/posix_acl.c.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fused/cache/posix.h"

namespace s3oram {

/// The attributes that hold the lists. New files of a directory inherit its default list.
inline constexpr std::string_view kAccessAcl = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAcl = "system.posix_acl_default";
inline bool is_acl(std::string_view attribute) {
  return attribute == kAccessAcl || attribute == kDefaultAcl;
}

class Acl {
 public:
  /// Parses an attribute. Returns EINVAL if it is malformed, or is not a list that the kernel would
  /// accept.
  static Posix<Acl> parse(std::string_view attribute);
  /// Returns the list as an attribute.
  std::string attribute() const;

  /// Returns whether the permission bits of a mode can express the whole list.
  bool is_minimal() const;
  /// Returns `mode` with the permission bits of the list. The group's bits are the list's mask, if
  /// it has one.
  std::uint32_t mode(std::uint32_t mode) const;
  /// Changes the list as chmod(2) does.
  void change_mode(std::uint32_t mode);
  /// Makes a default list the access list of a new file, and returns the file's mode. `mode` is the
  /// mode that the program asks for; the umask is not applied to it.
  std::uint32_t inherit(std::uint32_t mode);

  /// Translates the ids of users and groups. Drops entries whose id has no translation, and returns
  /// whether there were any.
  bool translate(const std::function<std::uint32_t(std::uint32_t)>& user,
                 const std::function<std::uint32_t(std::uint32_t)>& group);

 private:
  enum Tag : std::uint16_t {
    kUserObject = 0x01,
    kUser = 0x02,
    kGroupObject = 0x04,
    kGroup = 0x08,
    kMask = 0x10,
    kOther = 0x20,
  };
  struct Entry {
    std::uint16_t tag = 0, permissions = 0;
    std::uint32_t id = 0;
  };
  bool is_valid() const;
  Entry& only(Tag tag);
  Entry* mask();

  std::vector<Entry> entries_;
};

}  // namespace s3oram
