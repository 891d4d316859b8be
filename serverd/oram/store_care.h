// What a server does while its store is not what it should be. Such a server is ill: it says why in
// its log and in every answer, and goes on once the store has been put right. It computes nothing
// meanwhile: otherwise a client would take shares for damaged, and give them up, that were only
// mislaid.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "oramcore/base/async.h"
#include "oramcore/base/disk.h"
#include "serverd/oram/store_check.h"

namespace s3oram {

/// One executor; not thread-safe.
class StoreCare {
 public:
  /// What it needs of its server.
  struct Hooks {
    std::function<Status()> still_there;     // whether the store is the one that was opened
    std::function<void(const Error&)> stop;  // ends the session and all that goes on in it
    std::function<Task<void>()> quiet;       // waits until nothing uses the store
    std::function<Status()> reopen;          // as if the program had been restarted
  };
  /// `disk` must outlive it.
  StoreCare(Executor executor, Party self, std::filesystem::path store, Disk& disk, Hooks server);

  /// Checks the store or, if the server is ill, begins to open it again once its files no longer
  /// change. To be called about every second.
  void look_after();
  /// Answers every request with this error from now on, until the store is put right.
  void fall_ill(const Error& ailment);
  /// The store was opened, and is what it should be.
  void get_well() { ailment_.reset(); }

  /// Returns why this server cannot carry on; nothing if it can.
  const std::optional<Error>& ailment() const { return ailment_; }
  /// Waits until the store is not being opened again.
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
