// Small files that are either there whole or not at all, whatever happens.
#pragma once

#include <filesystem>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Replaces `path` (mode 0600, of its former owner even if root does it) with `content`: after a
/// power cut it holds the former or the new content, never a mixture, and the new one once this has
/// returned. Errors name the file; disk_full where it is that.
Status write_durably(const std::filesystem::path& path, View content);

/// Copies a file: `to` is there whole, and durable, or not at all. Errors: disk_full, failed.
Status copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes the entries of `directory` itself durable.
Status sync_directory(const std::filesystem::path& directory);

/// The content of a regular file of at most `limit` bytes. Errors name the file.
Result<Bytes> read_small_file(const std::filesystem::path& path, std::size_t limit);

/// `wanted`, or with -2, -3, ... behind it: a name for what is put aside that nothing has yet.
std::filesystem::path free_path(const std::filesystem::path& wanted);

}  // namespace s3oram
