// The state that remains of a mounted vault while it is locked. The daemon executes its own program
// again, so that the kernel discards everything else in its memory: keys, names and contents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fused/files/kernel_references.h"
#include "fused/kernel/held_mount.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

struct LockedState {
  HeldMount mount;
  KernelReferences references;
  Descriptor vault_lock;  // what Vault::lend_lock() returned
  std::string vault, mountpoint;
  std::int64_t since = 0;  // when it was mounted: s since 1970
  bool background = false;
};

/// Executes this program again with the same arguments; take_locked_state() then returns `state`.
/// Call it on the main thread. Returns only if that fails.
Error execute_locked(const LockedState& state, int argc, char** argv);

/// Returns the state if execute_locked() has started this program, and removes the argument that it
/// added. Errors: failed.
Result<std::optional<LockedState>> take_locked_state(int& argc, char** argv);

}  // namespace s3oram
