// The command line of s3oramfs-fused, which is that of `s3oramfs mount`.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

struct MountCommand {
  std::filesystem::path vault, mountpoint;  // absolute
  bool foreground = false;
  std::filesystem::path passfile, keyfile;  // empty: none
  std::vector<std::string> fuse_options;    // what goes to the kernel
  bool update_atime = true;
  bool read_only = false;
  std::size_t cache_mib = 256;
  std::chrono::seconds timeout{20};
  std::string log_level = "info";
  std::string metrics;  // ADDRESS:PORT of the page of metrics; empty: none
};

/// The command, or the text that --help asks for.
Result<std::variant<MountCommand, std::string>> parse_mount_command(int argc, char** argv);

}  // namespace s3oram
