// Whether `slots` is the file that control.db describes. A server computes nothing with another
// one: otherwise a client would take shares for damaged, and give them up, that were only mislaid.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/disk.h"
#include "serverd/oram/store_database.h"

namespace s3oram {

/// Opens the control state in the directory `store`. Errors: damaged_vault, with what to do about
/// it.
Result<Control> open_control(const std::filesystem::path& store, Disk& disk);

/// Returns what `slots` lacks of what control.db lists; empty if it is whole, judged by its size
/// and some of its buckets, those of the last eviction among them. (Single damaged slots will be
/// healed.) `file` is that of `store`. Errors: those of the file.
Result<std::string> missing_slots(const Control& control, BucketStore& store, File& file);

/// Gives the file its whole size, so that one without its end is noticed, also where nothing can be
/// reserved.
Status make_slots_whole(const VolumeParams& params, BucketStore& store, File& file);

/// Looks again and again at a store that is to be put right. One thread at a time.
class StoreChanges {
 public:
  /// `disk` must outlive it.
  StoreChanges(std::filesystem::path store, Disk& disk) : store_(std::move(store)), disk_(disk) {}

  /// Whether the store is there, and its files are as they were at the last call: while they are
  /// being copied, they would be opened incomplete.
  bool have_ended();
  void forget() { seen_.clear(); }

 private:
  std::string describe() const;

  const std::filesystem::path store_;
  Disk& disk_;
  std::string seen_;
};

}  // namespace s3oram
