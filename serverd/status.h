// s3oramfs-serverd status: what lies in a store, for whom, and since when.
#pragma once

#include <filesystem>
#include <ostream>

#include "oramcore/base/error.h"

namespace s3oram {

/// Prints what can be seen from the store's files; a server may run on it meanwhile. Errors: usage
/// (there is no such store), and what is wrong with its files.
Status show_status(const std::filesystem::path& store, std::ostream& out);

}  // namespace s3oram
