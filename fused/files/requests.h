// The arguments and results of file operations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace s3oram {

struct Caller {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t umask = 0;  // has no effect in directories with a default ACL
};

struct NewNode {
  std::uint32_t mode = 0;  // permission bits and the file type
  std::uint64_t rdev = 0;
  std::string target;  // only for a symbolic link
};

struct AttributeChange {
  std::optional<std::uint32_t> mode, uid, gid;  // only the permission bits of `mode` count
  std::optional<std::uint64_t> size;
  std::optional<std::int64_t> atime, mtime, ctime;  // ns
  bool operator==(const AttributeChange&) const = default;
};

struct OpenedDirectory {
  bool alone = false;       // it was not open before
  std::int64_t shrunk = 0;  // no name has been removed from it after this time; ns since 1970
};

}  // namespace s3oram
