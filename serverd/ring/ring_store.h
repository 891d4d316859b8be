// A ring's store as a whole: its files, opened once a volume is there, and the
// bucket versions that are held by their stamps.
#pragma once

#include <memory>
#include <optional>

#include "serverd/oram/server_state.h"
#include "serverd/ring/asked_file.h"
#include "serverd/ring/version_rows.h"

namespace s3oram::ring {

/// One executor; not thread-safe, but for what is open: rows(), asked().
class RingStore {
 public:
  explicit RingStore(ServerState& state) : state_(state) {}

  bool is_used() const { return state_.control.session().epoch > 0; }
  bool is_open() const { return state_.bucket_store != nullptr; }
  /// Opens the files of the volume. Errors: wrong_volume (`slots` is not the
  /// file that control.db describes).
  Status open();
  void close();
  /// Reads control.db as if the program had been restarted. Errors:
  /// wrong_volume (it does not hold its volume any more).
  Status read_control_again();
  Status still_there() const;

  // ---- while it is open

  const Params& params() const { return *params_; }
  VersionRows& rows() { return *rows_; }
  AskedFile& asked() { return *asked_; }
  /// Reserves the room for a tree of this height, off the executor too. Errors:
  /// disk_full.
  Status reserve(unsigned height);
  unsigned reserved_height() const { return reserved_height_; }
  /// The turn in a slot of the log.
  Turn turn_in(const BucketStore::StampedSlot& slot) const;
  /// Returns a version that is held, by its stamp, which is not given up until
  /// unpin(). Errors: former_view.
  Result<BucketVersionRef> pin(BucketIndex bucket, VersionStamp stamp);
  void unpin(const BucketVersionRef& ref);
  /// Gives back a number that is reserved.
  void give_back(BucketVersionNumber number);
  /// Drops versions from the cache whose numbers went out of use.
  void forget_freed();

  static constexpr auto kSlots = "slots";  // the file of rows and of the log

 private:
  Status try_open();
  Status open_asked();
  /// Makes `asked` again, whose record of turns is lost.
  Status remake_asked();

  ServerState& state_;
  std::optional<Params> params_;
  std::unique_ptr<VersionRows> rows_;
  std::unique_ptr<AskedFile> asked_;
  unsigned reserved_height_ = 0;
};

}  // namespace s3oram::ring
