// Which points of each bucket version were asked for, and the highest turn that asked: what a
// client that has lost its counters needs to ask for no point twice. The file `asked` has a record
// of 64 bytes for each bucket version by its number (bucket_store.h); record 0 is of the turns.
//
//   stamp (8) | map (32) | zeros (16) | checksum (8)         stamp: of the version, or the turn
//
// A record of zeros, or of another stamp, says that nothing was asked. One that does not fit its
// checksum, or cannot be read, says nothing: every point counts as asked, so that after a restore
// the bucket is written again before anything is asked of it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "oramcore/base/file.h"
#include "oramcore/schemes/ring/protocol/messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::ring {

class AskedFile {
 public:
  explicit AskedFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  /// Whether the file says which turns have asked. If not, it is new, or was lost or damaged.
  bool knows_turns();
  /// Writes down which have, in a file that does not know; not yet durable.
  Status set_turns(Turn turns);

  /// Returns the highest turn that has asked, and one more.
  Turn turns();
  /// Writes down that a turn asks; not yet durable.
  Status add_turn(Turn turn);

  AskedPoints of(BucketVersionNumber version, VersionStamp stamp);
  /// Writes it down; not yet durable. After an error it counts as asked all the same, and is
  /// written by the next add() of it or sync().
  Status add(BucketVersionNumber version, VersionStamp stamp, Point point);
  Status add_all(BucketVersionNumber version, VersionStamp stamp);

  /// Makes durable what was written before the call. Records that a write or a sync has failed to
  /// write are written again first. Fails if the file's name no longer leads to it.
  Status sync();
  Status still_there() { return file_->still_there(); }
  /// Reserves room on the disk for the records of so many bucket versions. Errors: disk_full.
  Status reserve(std::uint64_t bucket_versions);

 private:
  struct Record {
    bool is_sound = true;
    std::uint64_t stamp = 0;
    AskedPoints asked;
  };
  // To be called with the mutex held:
  const Record& read(BucketVersionNumber version);
  AskedPoints asked_of(BucketVersionNumber version, VersionStamp stamp);
  Status write(BucketVersionNumber version, const Record& record);
  Status write_again(BucketVersionNumber version);
  bool is_written(BucketVersionNumber version, std::uint64_t stamp);

  const std::unique_ptr<File> file_;
  std::mutex mutex_;  // guards what follows; no other lock is taken under it
  std::unordered_map<BucketVersionNumber, Record> known_;
  std::set<BucketVersionNumber> unwritten_;  // records that the file may lack
  std::set<BucketVersionNumber> unsynced_;   // written since the last sync began
};

}  // namespace s3oram::ring
