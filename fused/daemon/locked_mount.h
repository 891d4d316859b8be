// A locked mount: its vault is closed, its keys are gone, and every request gets EACCES. It waits
// for the credential.
#pragma once

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "fused/daemon/control_socket.h"
#include "fused/daemon/locked_state.h"
#include "fused/kernel/refusing_loop.h"
#include "oramcore/vault/key_wrap.h"

namespace s3oram {

class FileSystem;

class LockedMount {
 public:
  /// A request to unlock the mount, whose sender waits for the answer.
  class Attempt {
   public:
    explicit Attempt(const Credential& credential) : credential_(credential) {}
    const Credential& credential() const { return credential_; }
    /// Answers the request. Only the first answer counts.
    void answer(Status outcome);
    bool is_answered() const { return answered_; }
    Status outcome() { return outcome_.get_future().get(); }

   private:
    const Credential credential_;
    bool answered_ = false;
    std::promise<Status> outcome_;
  };

  /// Serves the mount, and listens at `socket`. `largest`: see RefusingLoop. Errors: failed.
  static Result<std::unique_ptr<LockedMount>> start(LockedState state, std::size_t largest,
                                                    const std::string& socket, LastWord& last_word);
  /// Refuses the attempts that wait. The attempt that next() returned last must have been answered.
  ~LockedMount();

  /// Waits for an attempt to unlock the mount, and returns it; nullptr once the mount is gone, or
  /// end() was called.
  std::shared_ptr<Attempt> next();
  void end();
  bool is_unmounted() const;

  /// Returns the kernel's references, for the FileSystem that is about to take over.
  KernelReferences references() const { return known_; }
  /// Stops serving, and returns the mount. `files` was mounted with references(), and learns what
  /// the kernel has given back since. Call it once.
  HeldMount hand_over(FileSystem& files);

 private:
  LockedMount(LockedState state, std::size_t largest);
  std::string handle(const std::string& request);
  nlohmann::json status() const;
  Status unlock(const std::string& words);

  LockedState state_;
  KernelReferences known_;
  RefusingLoop loop_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::shared_ptr<Attempt> attempt_;
  bool ended_ = false, unmounted_ = false;
  std::unique_ptr<ControlSocket> control_;
};

}  // namespace s3oram
