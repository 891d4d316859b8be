// s3oramfs-serverd status: shows what is in a store, for which client, and since when.
#pragma once

#include <filesystem>
#include <ostream>

#include "oramcore/base/error.h"

namespace s3oram {

/// Prints what the store's files show; a server may run on the store meanwhile. Errors: usage
/// (there is no such store), and whatever is wrong with its files.
Status show_status(const std::filesystem::path& store, std::ostream& out);

}  // namespace s3oram
