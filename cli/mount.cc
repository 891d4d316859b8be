// s3oramfs mount, and mount(8) by way of mount.s3oramfs: both hand over to the file system daemon,
// which returns when the vault is mounted, and knows all options (fused/options.h).
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cli/command.h"
#include "cli/mount_helper.h"

namespace s3oram {
namespace {

std::vector<char*> pointers(Args& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace

Status run_mount(const Args& args) {
  auto daemon = program_beside("s3oramfs-fused");
  if (!daemon) return fail(std::move(daemon).error());
  Args words = args;
  words.insert(words.begin(), *daemon);
  ::execv(daemon->c_str(), pointers(words).data());
  return fail(Errc::failed, "{}: cannot be run: {}", daemon->string(), std::strerror(errno));
}

Result<int> run_mount_helper(const Args& args) {
  auto words = mount_arguments(args);
  if (!words) return fail(std::move(words).error());
  auto daemon = program_beside("s3oramfs-fused");
  if (!daemon) return fail(std::move(daemon).error());
  words->insert(words->begin(), *daemon);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, daemon->c_str(), nullptr, nullptr, pointers(*words).data(), environ);
  if (error != 0)
    return fail(Errc::failed, "{}: cannot be run: {}", daemon->string(), std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return fail(Errc::failed, "{}", std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Errc::failed);
}

}  // namespace s3oram
