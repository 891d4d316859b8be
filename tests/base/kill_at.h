// Kills a process at each of its system calls in turn.
#pragma once

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <vector>

namespace s3oram::test {

struct Outcome {
  bool ended = false;                // the process was not killed, and succeeded
  std::vector<std::uint64_t> calls;  // the system calls that began
};

/// Runs `work` in a child process, which is killed when it begins its n-th system call.
template <class Work>
Outcome kill_at(std::size_t n, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    ::_exit(work() ? 0 : 1);
  }
  Outcome outcome;
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  while (true) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) break;
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    outcome.calls.push_back(info.entry.nr);
    if (outcome.calls.size() < n) continue;
    ::kill(child, SIGKILL);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    break;
  }
  outcome.ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return outcome;
}

}  // namespace s3oram::test
