// The attributes of an inode as programs see them.
#pragma once

#include <sys/stat.h>

#include "fused/cache/data_cache.h"
#include "fused/cache/node.h"

namespace s3oram {

/// Returns the node's attributes. `cache` knows how much room the node takes on the device.
struct stat attributes_of(const Node& node, const DataCache& cache);

}  // namespace s3oram
