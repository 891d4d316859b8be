// s3oramfs-fused [options] VAULT MOUNTPOINT: opens the vault's volume, mounts its files, serves
// them until they are unmounted, and makes everything durable. The exit code is an Errc.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "fused/daemon/background.h"
#include "fused/daemon/daemon_log.h"
#include "fused/daemon/guarded.h"
#include "fused/daemon/locked_state.h"
#include "fused/daemon/mount_vault.h"
#include "fused/daemon/mounts.h"
#include "fused/daemon/serve_mount.h"
#include "fused/daemon/signal_watch.h"
#include "fused/kernel/guard.h"
#include "fused/kernel/kernel_mount.h"
#include "fused/options/options.h"
#include "oramcore/base/exit_code.h"
#include "oramcore/base/identity.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/memory.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/output.h"
#include "oramcore/base/process.h"

namespace s3oram {
namespace {

/// Reports an error before there is a log. Returns the exit code.
int refuse(const Error& error) {
  std::fprintf(stderr, "s3oramfs: %s\n", error.message.c_str());
  return exit_code(error);
}

int show_help(const std::string& help) {
  std::fputs(help.c_str(), stdout);
  const Status written = output_written();
  return written ? 0 : refuse(written.error());
}

/// Goes to the background, unless the command says otherwise. Returns in the child.
Result<Background> start_background(const MountCommand& command) {
  if (command.foreground) return Background();
  return Background::start([&command] {
    if (command.fake) return;
    const Status noted = note_umount_helper(command.vault, command.mountpoint);
    if (!noted) std::fprintf(stderr, "s3oramfs: warning: %s\n", noted.error().message.c_str());
  });
}

/// Serves the mount until it ends. If it is locked, executes this program again, which returns only
/// with an error.
Status run(const MountCommand& command, std::optional<LockedState> resumed, Audience& audience,
           int argc, char** argv) {
  auto locked = guarded([&] {
    return resumed ? serve_locked(command, std::move(*resumed), audience)
                   : mount_vault(command, audience);
  });
  if (!locked) return fail(std::move(locked).error());
  if (!*locked) return {};
  SignalWatch::hold();
  Error failed = execute_locked(**locked, argc, argv);
  locked->reset();
  static_cast<void>(unmount(command.mountpoint));  // nothing serves it
  return fail(std::move(failed));
}

/// Reports how the mount ended. Returns the exit code.
int report(const Status& outcome, Audience& audience) {
  if (outcome)
    spdlog::info("unmounted; everything is durable");
  else if (audience.command.is_background())
    audience.command.failed(outcome.error());
  else
    spdlog::error("{}", outcome.error().message);
  audience.at_the_end.say(outcome);
  return outcome ? 0 : exit_code(outcome.error());
}

int main(int argc, char** argv) {
  auto resumed = take_locked_state(argc, argv);
  if (!resumed) return refuse(resumed.error());
  auto parsed = parse_mount_command(argc, argv);
  if (!parsed) return refuse(parsed.error());
  if (const auto* help = std::get_if<std::string>(&*parsed)) return show_help(*help);
  auto& command = std::get<MountCommand>(*parsed);
  Audience audience;
  if (*resumed) {  // its arguments may have been relative to another directory
    command.vault = (*resumed)->vault;
    command.mountpoint = (*resumed)->mountpoint;
  } else {
    auto started = start_background(command);
    if (!started) return refuse(started.error());
    audience.command = std::move(*started);
  }
  log_to_terminal(command);
  const Status outcome = run(command, std::move(*resumed), audience, argc, argv);
  if (outcome && command.fake) {
    const Status told = audience.command.ready();
    return told ? 0 : exit_code(told.error());
  }
  return report(outcome, audience);
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  s3oram::open_standard_streams();
  if (argc == 2 && s3oram::Guard::kName == argv[0]) return s3oram::Guard::run(argv[1]);
  s3oram::forbid_core_dumps();
  s3oram::settle_limits();
  s3oram::keep_freed_memory(s3oram::usable_memory());
  return s3oram::main(argc, argv);
}
