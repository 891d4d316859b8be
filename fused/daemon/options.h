// The options of a mount: those of s3oramfs-fused, `s3oramfs mount`, mount(8) and /etc/fstab are
// the same. This is the only place that knows them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/vault/passphrase.h"

namespace s3oram {

struct MountCommand {
  std::filesystem::path vault, mountpoint;              // absolute, and without links
  std::filesystem::path named_vault, named_mountpoint;  // as the user gave them
  bool foreground = false;
  bool fake = false;  // everything but the mount
  PassphraseSource passphrase;
  std::filesystem::path keyfile;          // empty: none
  std::vector<std::string> fuse_options;  // passed to the kernel
  bool update_atime = true;
  bool read_only = false;
  bool nonempty = false;          // the mount point may hold files, which the mount hides
  std::optional<uid_t> root_uid;  // owner of a new root directory; the daemon's user if not given
  std::optional<gid_t> root_gid;
  std::optional<std::uint64_t> cache;  // bytes; default_file_cache() if not given
  std::chrono::seconds timeout{20};
  std::chrono::seconds back_up_every{60};
  std::optional<std::chrono::seconds> idle;  // unmount after so long without use; none: never
  std::string log_level = "info";
  std::string metrics;  // ADDRESS:PORT of the page of metrics; empty: none
};

/// Returns the command, or the text that --help asks for. Errors: usage, which names the wrong
/// option and the known ones.
Result<std::variant<MountCommand, std::string>> parse_mount_command(int argc, char** argv);

}  // namespace s3oram
