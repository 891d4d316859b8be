// The machines that deploy works on, over ssh. Scripts and files go to their standard input.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// A machine USER@HOST that is reached with a command such as "ssh -p 2222".
class RemoteHost {
 public:
  /// Errors: usage (not of that form, or it begins with a dash as ssh's options do).
  static Result<RemoteHost> parse(const std::string& target, const std::string& ssh, bool dry_run);

  const std::string& target() const { return target_; }
  /// Returns the host, without the user.
  const std::string& host() const { return host_; }

  /// Runs the script on the machine with sh, and returns what it prints. With `dry_run`, shows the
  /// script instead, and returns an empty text. Errors: failed (names `purpose` and the target).
  Result<std::string> run(const std::string& purpose, const std::string& script) const;
  /// Does the same with a command that gets the file on its standard input.
  Status send(const std::string& purpose, const std::string& command,
              const std::string& file) const;

 private:
  std::vector<std::string> words(const std::string& command) const;
  std::string shown(const std::string& command) const;

  std::string target_, host_;
  std::vector<std::string> ssh_;
  bool dry_run_ = false;
};

}  // namespace s3oram
