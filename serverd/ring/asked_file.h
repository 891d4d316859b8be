// Which points of each bucket version were asked for, and the highest turn that asked: what a
// client that has lost its counters needs to ask for no point twice. The file `asked` has a record
// of 64 bytes for each bucket version by its number (bucket_store.h); record 0 is of the turns.
//
//   stamp (8) | map (32) | zeros (16) | checksum (8)         stamp: of the version, or the turn
//
// A record that does not fit its checksum, or has another stamp, says that nothing was asked.
//
// One executor; not thread-safe, but for sync().
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "oramcore/base/file.h"
#include "oramcore/schemes/ring/protocol/messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::ring {

class AskedFile {
 public:
  explicit AskedFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  /// The highest turn that has asked, and one more. Errors: those of the file.
  Result<Turn> turns();
  Status set_turns(Turn turns);

  Result<AskedPoints> of(BucketVersionNumber version, VersionStamp stamp);
  /// Writes it down; not yet durable.
  Status add(BucketVersionNumber version, VersionStamp stamp, Point point);

  /// Makes durable what was written. Any thread.
  Status sync() { return file_->sync(); }

 private:
  struct Record {
    std::uint64_t stamp = 0;
    AskedPoints asked;
  };
  Result<Record> read(BucketVersionNumber version);
  Status write(BucketVersionNumber version, const Record& record);

  const std::unique_ptr<File> file_;
  std::unordered_map<BucketVersionNumber, Record> known_;
};

}  // namespace s3oram::ring
