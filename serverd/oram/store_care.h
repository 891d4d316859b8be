// Takes care of a server whose store is not what it should be. Such a server is ill: it says why in
// its log and in every answer, and carries on once the store has been put right. It computes
// nothing meanwhile, because a client would believe shares damaged that were only mislaid, and give
// them up.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "oramcore/base/async.h"
#include "oramcore/base/disk.h"
#include "serverd/oram/store_check.h"

namespace s3oram {

/// Used on one executor; not thread-safe.
class StoreCare {
 public:
  /// The functions of its server that StoreCare calls.
  struct Hooks {
    std::function<Status()> still_there;     // checks that the store is the one that was opened
    std::function<void(const Error&)> stop;  // ends the session and everything under way in it
    std::function<Task<void>()> quiet;       // waits until nothing uses the store
    std::function<Status()> reopen;          // opens the store as if the program had been restarted
  };
  /// `disk` must outlive this object.
  StoreCare(Executor executor, Party self, std::filesystem::path store, Disk& disk, Hooks server);

  /// Checks the store or, if the server is ill, begins to reopen it once its files no longer
  /// change. Call it about every second.
  void look_after();
  /// Answers every request with this error from now on, until the store is put right.
  void fall_ill(const Error& ailment);
  /// Called when the store has been opened and is what it should be.
  void get_well() { ailment_.reset(); }

  /// Returns why this server cannot carry on; std::nullopt if it can.
  const std::optional<Error>& ailment() const { return ailment_; }
  /// Waits until the store is no longer being reopened.
  Task<void> ended();

 private:
  Task<void> recover();

  Executor executor_;
  const Party self_;
  const Hooks server_;
  StoreChanges changes_;
  std::optional<Error> ailment_;
  bool recovering_ = false;
  Event ended_;
};

}  // namespace s3oram
