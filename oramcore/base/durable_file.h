// Small files that are replaced atomically and durably.
#pragma once

#include <filesystem>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// The owner of a file that root writes. Other users own what they write.
enum class FileOwner {
  of_former,     // the owner of the file that is replaced; root if there was none
  of_directory,  // the owner of the directory, who reads the file
};

/// Replaces `path`, or makes it, with `content` and mode 0600. After a power cut it holds the old
/// or the new content, never a mixture; once this has returned, it holds the new one. A power cut
/// may leave a temporary file beside it, with six more letters in its name. Any thread and process
/// may call this at any time; the last one wins. Errors, with the file's name: disk_full, failed.
Status write_durably(const std::filesystem::path& path, ByteSpan content,
                     FileOwner owner = FileOwner::of_former);

/// Makes `path` as write_durably() does, but never replaces a file. Errors: also exists.
Status create_durably(const std::filesystem::path& path, ByteSpan content, FileOwner owner);

/// Copies a file: `to` then exists completely and durably, or not at all. Errors: disk_full,
/// failed.
Status copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes the entries of `directory` itself durable.
Status sync_directory(const std::filesystem::path& directory);

enum class FileKinds {
  regular,  // refuses a pipe, which could block the reader forever
  regular_or_pipe
};

/// Returns the content of a regular file, or of a pipe until its end, of at most `limit` bytes. A
/// pipe without a writer is empty. Errors contain the file's name.
Result<Bytes> read_small_file(const std::filesystem::path& path, std::size_t limit,
                              FileKinds kinds = FileKinds::regular_or_pipe);

/// Returns `wanted`, or `wanted` followed by -2, -3, ...: the first of these names that does not
/// exist.
std::filesystem::path free_path(const std::filesystem::path& wanted);

}  // namespace s3oram
