// s3oramfs: makes, mounts, unmounts, shows and checks vaults. Under other names it is the helper
// that mount(8) and umount(8) run.
#include <spdlog/spdlog.h>

#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/mount_helper.h"
#include "oramcore/base/exit_code.h"
#include "oramcore/base/human.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/output.h"
#include "oramcore/base/process.h"
#include "oramcore/base/spelling.h"

namespace s3oram {
namespace {

struct Command {
  std::string_view name;
  std::string_view arguments;
  std::string_view summary;
  Status (*run)(const Args& args);
};

constexpr Command kCommands[] = {
    {"init", "--local VAULT", "create a vault whose servers run on this machine", run_init},
    {"init", "--server ... VAULT", "create a vault on one, two or more servers", run_init},
    {"invite", "VAULT SERVER...", "create a vault on servers that other people run", run_invite},
    {"deploy", "VAULT TARGET...", "install the servers over ssh, and create a vault", run_deploy},
    {"mount", "VAULT DIRECTORY", "mount a vault", run_mount},
    {"umount", "DIRECTORY|VAULT", "write all pending data and unmount", run_umount},
    {"lock", "DIRECTORY|VAULT", "make a mounted vault forget its keys and contents", run_lock},
    {"unlock", "DIRECTORY|VAULT", "open a locked vault again", run_unlock},
    {"status", "VAULT", "show health, servers, space and unwritten data", run_status},
    {"top", "VAULT", "show live activity", run_top},
    {"bench", "[VAULT|DIRECTORY]", "measure the speed of a vault or a directory", run_bench},
    {"demo", "", "create a page that shows what a server sees", run_demo},
    {"record", "plot FILE", "create such a page from a server's recording", run_record},
    {"fsck", "VAULT", "check and repair an unmounted vault's own files", run_fsck},
    {"backup", "VAULT", "save all names on the servers; export the keys", run_backup},
    {"restore", "VAULT", "recover a lost vault from its servers", run_restore},
    {"repair", "--server N VAULT", "rebuild the shares of a server that lost them", run_repair},
    {"scrub", "VAULT", "check everything the servers hold, and heal it", run_scrub},
    {"migrate", "VAULT SERVER...", "move a mounted vault to other servers", run_migrate},
    {"passwd", "VAULT", "change the passphrase or key file", run_passwd},
    {"rekey", "VAULT", "change the key that servers know a vault by", run_rekey},
    {"server", "list VAULT", "list the servers with their addresses and keys", run_server},
    {"server", "replace VAULT N", "replace a server with another machine", run_server},
    {"security", "VAULT [KIND]", "show or change how far servers are trusted", run_security},
    {"version", "", "show the version", run_version},
};

void print_help() {
  std::cout
      << "Keeps a directory on servers that learn neither its contents nor how it is used.\n\n"
         "Usage: s3oramfs COMMAND [OPTION...]\n"
         "       s3oramfs --help | --version\n\n";
  for (const Command& command : kCommands)
    std::cout << fmt::format("  {:<24}{}\n", fmt::format("{} {}", command.name, command.arguments),
                             command.summary);
  std::cout << "\nFor the options of a command: s3oramfs COMMAND --help. See also: man s3oramfs.\n";
}

Status run(Args args) {
  std::string name = args.empty() ? "--help" : args.front();
  if (!args.empty()) args.erase(args.begin());
  if (name == "--version") name = "version";
  const auto is_help = [](const std::string& word) {
    return word == "--help" || word == "-h" || word == "help";
  };
  if (is_help(name)) {
    if (args.size() > 1)
      return fail(Errc::usage, "help takes only one command (see: s3oramfs --help)");
    if (args.empty() || is_help(args.front())) {
      print_help();
      return {};
    }
    name = args.front();
    args = {"--help"};
  }
  for (const Command& command : kCommands)
    if (command.name == name) return command.run(args);
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string meant = nearest_word(name, names);
  return fail(Errc::usage, "no such command: {}{} (see: s3oramfs --help)", name,
              meant.empty() ? "" : "; did you mean " + meant + "?");
}

// Runs as mount.s3oramfs or umount.fuse.s3oramfs. Returns an exit code of mount(8)'s.
int help_mount(HelperRole role, const Args& args) {
  Result<int> code = 0;
  if (role == HelperRole::mount) {
    code = run_mount_helper(args);
  } else {
    auto words = umount_arguments(args);
    const Status done = words ? run_umount(*words) : Status(fail(std::move(words).error()));
    if (!done) code = fail(done.error());
  }
  if (code) return mount_exit_code(*code);
  std::cerr << "s3oramfs: " << printable_lines(code.error().message) << "\n";
  return mount_exit_code(exit_code(code.error()));
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  s3oram::open_standard_streams();
  s3oram::forbid_core_dumps();
  s3oram::settle_limits();
  spdlog::set_level(spdlog::level::off);  // what a user must know is returned as an error
  try {
    const s3oram::Args args(argv + std::min(argc, 1), argv + argc);
    const auto role = s3oram::helper_role(argc > 0 ? argv[0] : "");
    if (role != s3oram::HelperRole::none) return s3oram::help_mount(role, args);
    auto status = s3oram::run(args);
    if (status) status = s3oram::output_written();
    if (status) return 0;
    std::cerr << "s3oramfs: " << s3oram::printable_lines(status.error().message) << "\n";
    return s3oram::exit_code(status.error());
  } catch (const std::exception& error) {  // such as bad_alloc
    std::cerr << "s3oramfs: " << s3oram::reason_of(error) << "\n";
    return static_cast<int>(s3oram::Errc::failed);
  }
}
