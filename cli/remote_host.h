// Other machines, as deploy works on them: by ssh, with what a script needs on its standard input.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// USER@HOST, reached by a command such as "ssh -p 2222".
class RemoteHost {
 public:
  /// Errors: usage (not of that form; it may not begin with a dash, as ssh's options do).
  static Result<RemoteHost> parse(const std::string& target, const std::string& ssh, bool dry_run);

  const std::string& target() const { return target_; }
  /// Without the user.
  const std::string& host() const { return host_; }

  /// Runs the script there with sh, and returns what it prints. With `dry_run`, shows it instead,
  /// and returns nothing. Errors: failed (naming `purpose` and the target).
  Result<std::string> run(const std::string& purpose, const std::string& script) const;
  /// Runs the command there with the file on its standard input; as run().
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
