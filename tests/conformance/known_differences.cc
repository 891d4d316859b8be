#include "tests/conformance/known_differences.h"

namespace s3oram::conformance {
namespace {

constexpr const char* kUnnamed = "libfuse 3.14 has no call for unnamed files; programs fall back";
constexpr const char* kLabels = "a volume without any labels says so, once for all its files";
constexpr const char* kWhiteout = "only overlay file systems use whiteouts";
constexpr const char* kAccess = "the kernel does not tell of accesses to pages that it holds";
constexpr const char* kPartOfPage = "for a write of part of a page the kernel reads the page";
constexpr const char* kSetGroup =
    "the kernel leaves set-group-id to FUSE files that their group may not execute: it has no "
    "effect on them";
constexpr const char* kLists = "refused, rather than stored and not obeyed";

constexpr KnownDifference kDifferences[] = {
    {"open_unnamed", "open", "EOPNOTSUPP", "ok", kUnnamed},
    {"xattr_labels", "label of f", "EOPNOTSUPP", "ENODATA", kLabels},
    {"xattr_labels", "label of d", "EOPNOTSUPP", "ENODATA", kLabels},
    {"rename_whiteout", "rename", "EINVAL", "0", kWhiteout},
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
    {"xattr_access_lists", "set", "EOPNOTSUPP", "0", kLists},
    {"xattr_access_lists", "default", "EOPNOTSUPP", "0", kLists},
    {"xattr_access_lists", "get", "EOPNOTSUPP", "ENODATA", kLists},
};

}  // namespace

std::span<const KnownDifference> known_differences() { return kDifferences; }

}  // namespace s3oram::conformance
