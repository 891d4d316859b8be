// Going to the background: the parent waits until its child serves the mount, or says why not.
#pragma once

#include <functional>
#include <utility>

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
  /// Lets the parent end well; leaves its session and terminal.
  void ready();
  /// Lets the parent end with this error.
  void failed(const Error& error);

 private:
  explicit Background(Descriptor pipe) : pipe_(std::move(pipe)) {}
  Descriptor pipe_;
};

}  // namespace s3oram
