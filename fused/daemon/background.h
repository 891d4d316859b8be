// Going to the background: the parent waits until its child serves the mount, or says why not.
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
  /// Forks; call it before any thread exists. Only the child returns: the parent ends with the
  /// child's message and exit code, or with 0 once the child is ready and `mounted` is done.
  static Result<Background> start(const std::function<void()>& mounted);
  /// In the foreground there is nothing to wait for. If one dies before the two below, the parent
  /// ends as if its child had died.
  Background() = default;

  bool is_background() const { return pipe_.get() >= 0; }
  /// Shows it to the user of the parent, which waits.
  void say(const std::string& text) const;
  /// Lets the parent end well; leaves its session, its terminal and its files. Errors: it has ended
  /// already, and whoever ended it wants no mount. SIGPIPE is ignored by then.
  Status ready();
  /// Lets the parent end with this error.
  void failed(const Error& error);

 private:
  Background(Descriptor pipe, std::vector<int> inherited)
      : pipe_(std::move(pipe)), inherited_(std::move(inherited)) {}
  Descriptor pipe_;
  std::vector<int> inherited_;  // files of the caller's: a passphrase may come from one
};

}  // namespace s3oram
