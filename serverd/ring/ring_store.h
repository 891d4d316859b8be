// A ring's store as a whole: its files, which are opened once there is a volume, and the bucket
// versions that it holds, by their stamps.
#pragma once

#include <memory>
#include <optional>

#include "serverd/oram/server_state.h"
#include "serverd/ring/asked_file.h"
#include "serverd/ring/version_rows.h"

namespace s3oram::ring {

/// Used on one executor; not thread-safe, except for rows() and asked() while the store is open.
class RingStore {
 public:
  explicit RingStore(ServerState& state) : state_(state) {}

  bool is_used() const { return state_.control.session().epoch > 0; }
  bool is_open() const { return state_.bucket_store != nullptr; }
  /// Opens the files of the volume. Errors: wrong_volume (`slots` is not the
  /// file that control.db describes).
  Status open();
  void close();
  /// Reads control.db as if the program had been restarted. Errors: wrong_volume (it no longer
  /// holds the volume).
  Status read_control_again();
  Status still_there() const;

  // ---- while it is open

  const Params& params() const { return *params_; }
  VersionRows& rows() { return *rows_; }
  AskedFile& asked() { return *asked_; }
  /// Reserves the room for a tree of this height. May also be called off the executor. Errors:
  /// disk_full.
  Status reserve(unsigned height);
  unsigned reserved_height() const { return reserved_height_; }
  /// Returns the turn in a slot of the log.
  Turn turn_in(const BucketStore::StampedSlot& slot) const;
  /// Returns the bucket's version with this stamp, and keeps it until unpin(). Errors: former_view.
  Result<BucketVersionRef> pin(BucketIndex bucket, VersionStamp stamp);
  void unpin(const BucketVersionRef& ref);
  /// Gives back a reserved number.
  void give_back(BucketVersionNumber number);
  /// Drops versions whose numbers went out of use from the cache.
  void forget_freed();

  static constexpr auto kSlots = "slots";  // the file of rows and of the log

 private:
  Status try_open();
  Status open_asked();
  /// Recreates the file `asked`, whose record of turns is lost.
  Status remake_asked();

  ServerState& state_;
  std::optional<Params> params_;
  std::unique_ptr<VersionRows> rows_;
  std::unique_ptr<AskedFile> asked_;
  unsigned reserved_height_ = 0;
};

}  // namespace s3oram::ring
