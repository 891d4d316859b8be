// Records which points of each bucket version were requested, and the highest turn that requested
// any. A client that has lost its counters needs this, so that it requests no point twice. The file
// `asked` has a record of 64 bytes for each bucket version, by its number (bucket_store.h); record
// 0 holds the turns.
//
//   stamp (8) | map (32) | zeros (16) | checksum (8)         stamp: of the version, or the turn
//
// A record of zeros, or with another stamp, says that nothing was requested. If a record does not
// match its checksum, or cannot be read, every point counts as requested, so that after a restore
// the bucket is rewritten before any request for it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "oramcore/base/file.h"
#include "oramcore/schemes/ring/protocol/ring_messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::ring {

class AskedFile {
 public:
  explicit AskedFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  /// Returns whether the file knows the turns. If not, it is new, or was lost or damaged.
  bool knows_turns();
  /// Stores the turns in a file that does not know them; not yet durable.
  Status set_turns(Turn turns);

  /// Returns one more than the highest turn that has requested anything.
  Turn turns();
  /// Records that a turn makes requests; not yet durable.
  Status add_turn(Turn turn);

  AskedPoints of(BucketVersionNumber version, VersionStamp stamp);
  /// Records that a point is requested; not yet durable. After an error the point still counts as
  /// requested, and the record is written by the next add() to it or the next sync().
  Status add(BucketVersionNumber version, VersionStamp stamp, Point point);
  Status add_all(BucketVersionNumber version, VersionStamp stamp);

  /// Makes durable what was written before the call. First rewrites records that an earlier write
  /// or sync failed to write. Fails if the file's name no longer leads to it.
  Status sync();
  Status still_there() { return file_->still_there(); }
  /// Reserves room on the disk for the records of `bucket_versions` versions. Errors: disk_full.
  Status reserve(std::uint64_t bucket_versions);

 private:
  struct Record {
    bool is_sound = true;
    std::uint64_t stamp = 0;
    AskedPoints asked;
  };
  // Called with the mutex held:
  const Record& read(BucketVersionNumber version);
  AskedPoints asked_of(BucketVersionNumber version, VersionStamp stamp);
  Status write(BucketVersionNumber version, const Record& record);
  Status write_again(BucketVersionNumber version);
  bool is_written(BucketVersionNumber version, std::uint64_t stamp);

  const std::unique_ptr<File> file_;
  std::mutex mutex_;  // guards the members below; no other lock is taken under it
  std::unordered_map<BucketVersionNumber, Record> known_;
  std::set<BucketVersionNumber> unwritten_;  // records that the file may lack
  std::set<BucketVersionNumber> unsynced_;   // written since the last sync began
};

}  // namespace s3oram::ring
