// s3oramfs: makes, mounts, unmounts, shows and checks vaults.
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <exception>
#include <iostream>
#include <string_view>

#include "cli/command.h"

namespace s3oram {
namespace {

struct Command {
  std::string_view name;
  std::string_view arguments;
  std::string_view summary;
  Status (*run)(const Args& args);
};

constexpr Command kCommands[] = {
    {"init", "--local VAULT", "make a vault whose three servers run on this machine", run_init},
    {"init", "--server HOST:PORT,KEY ... VAULT", "make a vault on three or more servers", run_init},
    {"mount", "VAULT DIRECTORY", "mount a vault", run_mount},
    {"umount", "DIRECTORY|VAULT", "write everything and unmount", run_umount},
    {"status", "[--json] [--check] VAULT",
     "show its health, the servers, the space and what is not yet written", run_status},
    {"bench", "[VAULT|DIRECTORY ...]", "measure how fast a vault, or any directory, is", run_bench},
    {"fsck", "[--repair] [--json] VAULT", "check an unmounted vault's own files, and mend them",
     run_fsck},
    {"version", "", "show the version", run_version},
};

void print_help() {
  std::cout << "s3oramfs keeps a directory on servers that learn neither what it holds nor which\n"
               "part of it is used.\n\n"
               "Usage: s3oramfs COMMAND [OPTION...]\n\n";
  for (const Command& command : kCommands)
    std::cout << fmt::format("  {} {}\n      {}\n", command.name, command.arguments,
                             command.summary);
  std::cout << "\nOptions of a command: s3oramfs COMMAND --help. All else: man s3oramfs.\n";
}

Status run(Args args) {
  std::string name = args.empty() ? "--help" : args.front();
  if (!args.empty()) args.erase(args.begin());
  if (name == "--version") name = "version";
  if (name == "--help" || name == "-h" || name == "help") {
    if (args.empty()) {
      print_help();
      return {};
    }
    name = args.front();
    args = {"--help"};
  }
  for (const Command& command : kCommands)
    if (command.name == name) return command.run(args);
  return fail(Errc::usage, "no such command: {} (see: s3oramfs --help)", name);
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);  // what a user must know comes back as an error
  ::umask(077);                           // whatever we make is for its owner alone
  try {
    const auto status = s3oram::run(s3oram::Args(argv + std::min(argc, 1), argv + argc));
    if (status) return 0;
    std::cerr << "s3oramfs: " << status.error().message << "\n";
    return static_cast<int>(status.error().code);
  } catch (const std::exception& error) {  // bad_alloc and its like
    std::cerr << "s3oramfs: " << error.what() << "\n";
    return static_cast<int>(s3oram::Errc::failed);
  }
}
