// The options of a mount, which are the same for s3oramfs-fused, `s3oramfs mount`, mount(8) and
// /etc/fstab. This is the only place that knows them.
#pragma once

#include <sys/types.h>

#include <array>
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
  bool fake = false;  // do everything but the mount
  PassphraseSource passphrase;
  std::filesystem::path keyfile;          // empty if none
  std::vector<std::string> fuse_options;  // passed to the kernel
  bool update_atime = true;
  bool read_only = false;
  bool nonempty = false;          // the mount point may hold files, which the mount hides
  std::optional<uid_t> root_uid;  // owner of a new root directory; the daemon's user if not given
  std::optional<gid_t> root_gid;
  std::optional<std::uint64_t> cache;  // bytes; default_file_cache() if not given
  std::chrono::seconds timeout{20};
  std::chrono::seconds back_up_every{60};
  std::optional<std::chrono::seconds> idle;  // unmount after this time without use; never if unset
  std::string log_level = "info";
  std::string metrics;  // ADDRESS:PORT of the page of metrics; empty if none
};

/// The words of a command line, sorted as far as possible without the rules of each option.
struct MountWords {
  std::vector<std::string> options;
  std::string vault, directory;  // empty if not given
  bool help = false;
};

/// Sorts the arguments of `s3oramfs mount`. Errors: usage.
Result<MountWords> split_mount_words(const std::vector<std::string>& args);

/// The options that take a value, except -o.
inline constexpr std::array kMountValues = {"passfile", "passprog",  "keyfile", "cache",
                                            "timeout",  "backup",    "uid",     "gid",
                                            "metrics",  "log-level", "idle"};

/// Turns a list like that of -o into words that later options of the command line override: -o NAME
/// for an entry without a value, and --NAME=VALUE for one with a value.
std::vector<std::string> words_of_list(const std::string& list);

/// Returns what is wrong with one option and its value, given as words of a command line; empty if
/// nothing is.
std::string why_no_mount_option(const std::vector<std::string>& words);

/// Returns the command, or the text that --help asks for. Errors: usage (names the wrong option and
/// the known ones).
Result<std::variant<MountCommand, std::string>> parse_mount_command(int argc, char** argv);

}  // namespace s3oram
