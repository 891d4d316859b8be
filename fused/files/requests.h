// What file operations are asked for, and what they answer.
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
  std::uint32_t mode = 0;  // with its type
  std::uint64_t rdev = 0;
  std::string target;  // of a symbolic link
};

struct AttributeChange {
  std::optional<std::uint32_t> mode, uid, gid;  // mode: the permission bits count
  std::optional<std::uint64_t> size;
  std::optional<std::int64_t> atime, mtime, ctime;  // ns
  bool operator==(const AttributeChange&) const = default;
};

struct OpenedDirectory {
  bool alone = false;       // nobody else has it open
  std::int64_t shrunk = 0;  // no name has been removed from it since: ns since 1970
};

}  // namespace s3oram
