// Finds the mount that somebody means.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/mountinfo.h"

namespace s3oram {

/// The newest mount that `name`, a mount point or a vault, stands for, and where its vault is now:
/// it may have been moved. Works for a mount point whose daemon is dead. Errors: not_mounted.
Result<VaultMount> find_mount(const std::filesystem::path& name);

/// What is wrong with a `name` that is no vault, but inside of a mount; empty if it is not.
std::string say_if_inside(const std::filesystem::path& name);

}  // namespace s3oram
