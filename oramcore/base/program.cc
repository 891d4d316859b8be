// Starts programs with posix_spawn, and captures their output.
#include "oramcore/base/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/system_error.h"

namespace s3oram {

std::vector<char*> argument_pointers(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

bool ProgramEnd::succeeded() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

Result<ProgramEnd> run_program(std::vector<std::string> words, int captured, std::size_t most,
                               int input) {
  Descriptor ends[2];
  if (captured >= 0 && !open_pipe(ends)) return system_failure(errno, "pipe");
  auto& [ours, theirs] = ends;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (captured >= 0) posix_spawn_file_actions_adddup2(&actions, theirs.get(), captured);
  if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0].c_str(), &actions, nullptr,
                                   argument_pointers(words).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  theirs.close();
  if (error != 0)
    return fail(Errc::failed, "{}: cannot be run: {}", words[0], reason_not_started(error));

  ProgramEnd end{
      .status = 0,
      .said = Bytes(most)};  // allocated at once, because growing would leave copies in memory
  std::size_t size = 0;
  for (ssize_t got = 1; captured >= 0 && got > 0 && size < most;) {
    got = ::read(ours.get(), end.said.data() + size, most - size);
    if (got > 0) size += static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) got = 1;
  }
  end.said.resize(size);
  ours.close();
  while (::waitpid(child, &end.status, 0) < 0)
    if (errno != EINTR) return system_failure(errno, "{}", words[0]);
  return end;
}

}  // namespace s3oram
