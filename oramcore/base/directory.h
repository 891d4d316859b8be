// Opens a directory by a name that other users may have a hand in. Root may be told of a place in a
// user's home: that user can put a link, or another directory, in its place at any time. So the
// directory is opened once, part by part, and everything that is decided about it comes from what
// was opened.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

struct DirectoryHandle {
  Descriptor descriptor;       // O_PATH
  std::filesystem::path path;  // absolute and without links, as it was when it was opened
  struct stat status {};       // of the descriptor
  // The first directory on the way in which a user other than root could exchange the next part;
  // empty if there is none.
  std::filesystem::path exchangeable_in;
  bool is_all = true;  // whether it is what was named, and not only on the way there
};

/// Whether files of this user are as good as root's own: it is root, or, in a user namespace, one
/// that has no number there.
bool is_roots(uid_t user);

/// Whether users other than the directory's owner may make and rename entries in it that are not
/// theirs. `sticky_counts`: also if they may only add their own.
bool is_shared(const struct stat& directory, bool sticky_counts);

/// Opens the directory `name`. A link on the way is followed only if root has made it, or the owner
/// of the directory that it leads to. Errors: failed (which also says that a link is not followed).
Result<DirectoryHandle> open_directory(const std::filesystem::path& name);

/// Opens the nearest directory on the way to `name` that exists, `name` itself included, in the
/// same way. Errors: as open_directory().
Result<DirectoryHandle> open_nearest_directory(const std::filesystem::path& name);

}  // namespace s3oram
