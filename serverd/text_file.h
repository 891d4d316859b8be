// Small text files that must never be half written.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Errors: failed; the message names the file.
Result<std::string> read_text(const std::filesystem::path& file);

/// Replaces the file, or makes it with `mode`: after a crash it holds the old text or the new. What
/// root writes belongs to the owner of the folder, who is the one that reads it.
Status replace_text(const std::filesystem::path& file, const std::string& text, mode_t mode);

/// The same, but never over a file that is there. Errors: exists.
Status create_text(const std::filesystem::path& file, const std::string& text, mode_t mode);

}  // namespace s3oram
