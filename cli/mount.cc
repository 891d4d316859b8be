// s3oramfs mount: hands over to the file system daemon, which returns when the vault is mounted.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cli/command.h"

namespace s3oram {
namespace {

constexpr std::string_view kHelp =
    "Mounts a vault, and returns when it can be used.\n"
    "Usage: s3oramfs mount [OPTION...] VAULT DIRECTORY\n\n"
    "  -f                     stay in the foreground\n"
    "  -o OPTION,...          mount options: ro, allow_other, default_permissions, ...\n"
    "  --passfile FILE        a file whose first line is the passphrase\n"
    "  --keyfile FILE         the key file the vault was made with\n"
    "  --cache SIZE           memory for file contents\n"
    "  --timeout SECONDS      without an answer from a server, before giving up\n"
    "  --metrics ADDRESS:PORT numbers for Prometheus, at an address of this machine alone\n"
    "  --log-level LEVEL      trace, debug, info, warning or error\n";

}  // namespace

Status run_mount(const Args& args) {
  const bool help = std::find(args.begin(), args.end(), "--help") != args.end() ||
                    std::find(args.begin(), args.end(), "-h") != args.end();
  if (help) {
    std::cout << kHelp;
    return {};
  }
  auto daemon = program_beside("s3oramfs-fused");
  if (!daemon) return fail(std::move(daemon).error());
  std::vector<char*> argv;
  std::string name = *daemon;
  Args words = args;
  argv.push_back(name.data());
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(name.c_str(), argv.data());
  return fail(Errc::failed, "{}: cannot be run: {}", name, std::strerror(errno));
}

}  // namespace s3oram
