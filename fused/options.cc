#include "fused/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "oramcore/base/metrics_responder.h"

namespace s3oram {
namespace {

// Passed on; fstab's own and the defaults mean nothing here; "x-" options are for others.
constexpr std::array kKernelOptions = {"ro",  "allow_other", "nodev", "nosuid", "noexec",
                                       "dev", "suid",        "exec",  "noatime"};
constexpr std::array kIgnoredOptions = {"rw",     "relatime", "defaults", "_netdev", "nofail",
                                        "nouser", "user",     "users",    "auto",    "noauto"};

constexpr std::string_view kMetricsOption = "metrics=";

bool is_among(const auto& options, const std::string& option) {
  return std::find(options.begin(), options.end(), option) != options.end();
}

}  // namespace

Result<std::variant<MountCommand, std::string>> parse_mount_command(int argc, char** argv) {
  MountCommand command;
  std::vector<std::string> options;
  int timeout = static_cast<int>(command.timeout.count());
  CLI::App app("Mounts a vault.", "s3oramfs mount");
  app.add_option("VAULT", command.vault, "Folder of the vault")->required();
  app.add_option("MOUNTPOINT", command.mountpoint, "Folder where its files appear")->required();
  app.add_flag("-f,--foreground", command.foreground, "Stay in the foreground; log to stderr");
  app.add_option("--passfile", command.passfile, "File whose first line is the passphrase");
  app.add_option("--keyfile", command.keyfile, "Key file of the vault");
  app.add_option("-o", options, "Mount options: ro, allow_other, nodev, nosuid, noexec, noatime")
      ->delimiter(',')
      ->take_all();
  app.add_option("--cache", command.cache_mib, "MiB of file data kept in memory")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  app.add_option("--timeout", timeout, "Seconds without progress before an error is given")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--log-level", command.log_level, "How much to log")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--metrics", command.metrics, "Numbers for Prometheus, at ADDRESS:PORT here");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return std::variant<MountCommand, std::string>(app.help());
  } catch (const CLI::ParseError& error) {
    return fail(Errc::usage, "{}; see s3oramfs mount --help", error.what());
  }
  for (const std::string& option : options) {
    if (is_among(kKernelOptions, option))
      command.fuse_options.push_back(option);
    else if (option.starts_with(kMetricsOption))
      command.metrics = option.substr(kMetricsOption.size());
    else if (!is_among(kIgnoredOptions, option) && !option.starts_with("x-") && !option.empty())
      return fail(Errc::usage, "-o {}: no such mount option", option);
  }
  if (!command.metrics.empty()) S3O_TRY(check_metrics_address({command.metrics}, "--metrics"));
  command.read_only = is_among(options, "ro");
  command.update_atime = !is_among(options, "noatime") && !command.read_only;
  command.timeout = std::chrono::seconds(timeout);
  std::error_code error;
  command.vault = std::filesystem::weakly_canonical(command.vault, error);
  command.mountpoint = std::filesystem::absolute(command.mountpoint, error).lexically_normal();
  if (!command.mountpoint.has_filename()) command.mountpoint = command.mountpoint.parent_path();
  // A link may lead into the vault. (Of a dead mount nothing can be asked.)
  const auto real = std::filesystem::canonical(command.mountpoint, error);
  if (!error) command.mountpoint = real;
  return std::variant<MountCommand, std::string>(std::move(command));
}

}  // namespace s3oram
