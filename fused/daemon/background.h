// Puts the daemon into the background: the parent waits until its child serves the mount or reports
// an error.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

class Background {
 public:
  /// Forks; call it before any thread exists. Returns only in the child. The parent exits with the
  /// child's message and exit code, or with 0 once the child is ready and `mounted` has returned.
  static Result<Background> start(const std::function<void()>& mounted);
  /// Stays in the foreground. Destroying a Background before ready() or failed() makes the parent
  /// exit as if its child had died.
  Background() = default;

  bool is_background() const { return pipe_.get() >= 0; }
  /// Shows `text` to the user of the waiting parent.
  void say(const std::string& text) const;
  /// Makes the parent exit with 0, and leaves its session, terminal and files. SIGPIPE must be
  /// ignored. Errors: the parent was ended, so the user no longer wants the mount.
  Status ready();
  /// Makes the parent exit with this error.
  void failed(const Error& error);

 private:
  Background(Descriptor pipe, std::vector<int> inherited)
      : pipe_(std::move(pipe)), inherited_(std::move(inherited)) {}
  Descriptor pipe_;
  std::vector<int> inherited_;  // the caller's open files; one of them may supply the passphrase
};

}  // namespace s3oram
