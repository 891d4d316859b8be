// Whom a program works as. A vault is always used by its owner: if root mounts somebody's vault, as
// from /etc/fstab, or repairs it, the program becomes that user, whose files in the vault stay the
// user's own.
#pragma once

#include <filesystem>
#include <functional>

#include "oramcore/base/error.h"

namespace s3oram {

class Identity {
 public:
  /// Root becomes the owner of `vault` but for as_root(); anyone else, and the owner, stays as they
  /// are. Call it before anything is made in the vault. Errors: failed.
  static Result<Identity> become_owner_of(const std::filesystem::path& vault);

  /// Runs `work` with root's rights, if we had them, on this thread alone.
  Status as_root(const std::function<Status()>& work) const;

  /// Whether root's rights are at hand, and what is done with them is done for somebody else.
  bool is_for_other() const { return may_be_root_; }

  /// Gives up root's rights for good. Without it the kernel does not even let a daemon see the
  /// mount that it made for somebody else.
  Status settle();

 private:
  bool may_be_root_ = false;
};

}  // namespace s3oram
