// Chooses where the daemon logs, and at which level.
#include "fused/daemon/daemon_log.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/system_error.h"
#include "oramcore/service/log.h"

namespace s3oram {
namespace {

void set_log_level(const MountCommand& command) {
  const auto level = spdlog::level::from_str(command.log_level);
  spdlog::set_level(level);
  spdlog::flush_on(std::min(level, spdlog::level::info));
}

}  // namespace

void log_to_terminal(const MountCommand& command) {
  log_to_stderr("fused");
  set_log_level(command);
  // Until the daemon is in the background, its messages are for the user who mounts.
  if (!command.foreground && !stderr_is_journal())
    spdlog::default_logger()->set_pattern("s3oramfs: %v");
}

Status log_to_file(const MountCommand& command, const std::filesystem::path& path) {
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor file(::open(path.c_str(), kHow, 0600));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return system_failure(errno, "{}: remove it", path.string());
  if (!S_ISREG(status.st_mode))
    return fail(Errc::failed, "{}: not a regular file; remove it", path.string());
  spdlog::drop("fused");
  spdlog::set_default_logger(
      spdlog::basic_logger_mt("fused", fmt::format("/proc/self/fd/{}", file.get())));
  set_log_level(command);
  return {};
}

}  // namespace s3oram
