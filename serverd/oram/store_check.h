// Checks whether `slots` is the file that control.db describes. A server computes nothing with a
// wrong file, because a client would believe shares damaged that were only mislaid, and give them
// up.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/disk.h"
#include "serverd/oram/store_database.h"

namespace s3oram {

/// Opens the control state in the directory `store`. Errors: damaged_vault, with advice on what to
/// do.
Result<Control> open_control(const std::filesystem::path& store, Disk& disk);

/// Returns what is wrong with `slots`, compared with what control.db lists, as a clause ("is
/// empty"); empty if the file is whole. The check looks at its size and at some of its buckets,
/// including those of the last eviction. (Single damaged slots will be healed.) `file` is the file
/// of `store`. Errors: those of the file.
Result<std::string> missing_slots(const Control& control, BucketStore& store, File& file);

/// Extends the file to its whole size, so that a truncated file is noticed even where room cannot
/// be reserved.
Status make_slots_whole(const VolumeParams& params, BucketStore& store, File& file);

/// Watches a store that someone is putting right. Used by one thread at a time.
class StoreChanges {
 public:
  /// `disk` must outlive it.
  StoreChanges(std::filesystem::path store, Disk& disk) : store_(std::move(store)), disk_(disk) {}

  /// Returns whether the store exists, and its files are as they were at the last call. While the
  /// files are still being copied, they would be opened incomplete.
  bool have_ended();
  void forget() { seen_.clear(); }

 private:
  std::string describe() const;

  const std::filesystem::path store_;
  Disk& disk_;
  std::string seen_;
};

}  // namespace s3oram
