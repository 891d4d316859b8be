// Small files that are either there whole or not at all, whatever happens.
#pragma once

#include <filesystem>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Whose a file is that root writes; who else writes it has it.
enum class FileOwner {
  of_former,     // as before; root's own, if there was none
  of_directory,  // who is the one that reads it
};

/// Replaces `path`, or makes it, with `content` and mode 0600: after a power cut it holds the
/// former or the new content, never a mixture, and the new one once this has returned; what was
/// being written then may stay beside it, under the same name and six letters. Any thread and
/// process at any time: one of them is the last. Errors name the file: disk_full, failed.
Status write_durably(const std::filesystem::path& path, ByteSpan content,
                     FileOwner owner = FileOwner::of_former);

/// The same, but never over what is there. Errors: also exists.
Status create_durably(const std::filesystem::path& path, ByteSpan content, FileOwner owner);

/// Copies a file: `to` is there whole, and durable, or not at all. Errors: disk_full, failed.
Status copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes the entries of `directory` itself durable.
Status sync_directory(const std::filesystem::path& directory);

enum class FileKinds {
  regular,  // one's own, where a pipe would be somebody's trap: it may never end
  regular_or_pipe
};

/// The content of a regular file, or what comes through a pipe, of at most `limit` bytes: nothing
/// from one that nobody writes to. Errors name the file.
Result<Bytes> read_small_file(const std::filesystem::path& path, std::size_t limit,
                              FileKinds kinds = FileKinds::regular_or_pipe);

/// `wanted`, or with -2, -3, ... behind it: a name for what is put aside that nothing has yet.
std::filesystem::path free_path(const std::filesystem::path& wanted);

}  // namespace s3oram
