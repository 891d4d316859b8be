// Opens a directory by a name that other users may influence. If root is given a path in a user's
// home directory, that user can replace any part of it with a link or another directory at any
// time. So the directory is opened once, part by part, and everything else is decided by its
// descriptor.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

struct DirectoryHandle {
  Descriptor descriptor;       // O_PATH
  std::filesystem::path path;  // absolute and without links, at the time of opening
  struct stat status {};       // the descriptor's status
  // The first directory on the way in which a user other than root could replace the next part;
  // empty if there is none.
  std::filesystem::path exchangeable_in;
  bool is_all = true;  // false if it is only a directory on the way to the named one
};

/// Returns whether files of this user are as trusted as root's: the user is root or, in a user
/// namespace, the user that represents all unmapped ones.
bool is_roots(uid_t user);

/// Returns whether users other than the directory's owner may rename or replace entries in it that
/// are not theirs. With `sticky_counts`, also returns true if they may only add entries of their
/// own.
bool is_shared(const struct stat& directory, bool sticky_counts);

/// Opens the directory `name`. Follows a link on the way only if it was made by root, or by the
/// owner of the directory to which it leads. Errors: failed (also if a link is not followed).
Result<DirectoryHandle> open_directory(const std::filesystem::path& name);

/// Opens the nearest existing directory on the way to `name`, or `name` itself, in the same way.
/// Errors: those of open_directory().
Result<DirectoryHandle> open_nearest_directory(const std::filesystem::path& name);

}  // namespace s3oram
