// s3oramfs mount, and mount(8) through mount.s3oramfs. Both hand over to the file system daemon,
// which returns when the vault is mounted, and knows all options (fused/options/options.h). Only
// `s3oramfs mount` knows names of mounts and variables, because a line of fstab should say
// everything by itself.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "cli/command.h"
#include "cli/mount_helper.h"
#include "cli/mount_words.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"

namespace s3oram {

Status run_mount(const Args& args) {
  S3O_ASSIGN(auto daemon, program_beside("s3oramfs-fused"));
  S3O_ASSIGN(Args words, mount_words(args));
  words.insert(words.begin(), daemon);
  ::execv(daemon.c_str(), argument_pointers(words).data());
  return system_failure(errno, "{}: cannot be run", daemon.string());
}

Result<int> run_mount_helper(const Args& args) {
  S3O_ASSIGN(auto words, mount_arguments(args));
  S3O_ASSIGN(auto daemon, program_beside("s3oramfs-fused"));
  words.insert(words.begin(), daemon);
  S3O_ASSIGN(auto end, run_program(words));
  return WIFEXITED(end.status) ? WEXITSTATUS(end.status) : static_cast<int>(Errc::failed);
}

}  // namespace s3oram
