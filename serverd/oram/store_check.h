// Whether `slots` is the file that control.db describes. A server computes nothing with another
// one, so that no client counts as damaged, and gives up, what was only mislaid.
#pragma once

#include <filesystem>
#include <string>

#include "serverd/oram/store_database.h"

namespace s3oram {

/// Returns what `slots` lacks of what control.db lists; empty if it is whole, judged by its size
/// and some of its buckets, those of the last eviction among them. (Single damaged slots will be
/// healed.) `file` is that of `store`. Errors: those of the file.
Result<std::string> missing_slots(const Control& control, BucketStore& store, File& file);

/// Gives the file its whole size, so that one without its end is noticed, also where nothing can be
/// reserved.
Status make_slots_whole(const VolumeParams& params, BucketStore& store, File& file);

/// Describes the files of a store as they are now, to see whether they are being changed.
std::string describe_store(const std::filesystem::path& store);

}  // namespace s3oram
