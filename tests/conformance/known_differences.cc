// The table of the known differences.
#include "tests/conformance/known_differences.h"

#include <sys/utsname.h>

#include <cstdio>
#include <utility>

namespace s3oram::conformance {
namespace {

constexpr const char* kUnnamed = "the kernel asks FUSE for unnamed files since Linux 6.2";
constexpr const char* kLabels = "a volume without any labels says so, once for all its files";
constexpr const char* kAccess = "the kernel does not report accesses to pages that it holds";
constexpr const char* kPartOfPage = "for a write of part of a page the kernel reads the page";
constexpr const char* kSetGroup =
    "the kernel keeps the set-group-id bit of FUSE files that their group may not execute, where "
    "it has no effect";

constexpr KnownDifference kDifferences[] = {
    {"open_unnamed", "open", "EOPNOTSUPP", "ok", kUnnamed},
    {"xattr_labels", "label of f", "EOPNOTSUPP", "ENODATA", kLabels},
    {"xattr_labels", "label of d", "EOPNOTSUPP", "ENODATA", kLabels},
    {"times_of_map", "write to a mapping", "atime same mtime moved ctime moved",
     "atime moved mtime moved ctime moved", kAccess},
    {"times_of_file", "copy_file_range", "atime moved mtime moved ctime moved",
     "atime same mtime moved ctime moved", kPartOfPage},
    {"set_id_without_group_execution", "2666, write, as another",
     "file mode 2666 links 1 owner 12345:23456 size 7",
     "file mode 666 links 1 owner 12345:23456 size 7", kSetGroup},
    {"set_id_without_group_execution", "2666, truncate, as another",
     "file mode 2666 links 1 owner 12345:23456 size 3",
     "file mode 666 links 1 owner 12345:23456 size 3", kSetGroup},
};

/// The first entries, this many of them, are those of kernels before Linux 6.2.
constexpr std::size_t kOfOlderKernels = 1;

bool kernel_is_at_least(int major, int minor) {
  utsname kernel{};
  int first = 0, second = 0;
  if (::uname(&kernel) != 0 || std::sscanf(kernel.release, "%d.%d", &first, &second) != 2)
    return false;
  return std::pair(first, second) >= std::pair(major, minor);
}

}  // namespace

std::span<const KnownDifference> known_differences() {
  static const bool unnamed_files = kernel_is_at_least(6, 2);
  const std::span<const KnownDifference> all = kDifferences;
  return unnamed_files ? all.subspan(kOfOlderKernels) : all;
}

}  // namespace s3oram::conformance
