// The program s3oramfs-serverd as a running process.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <utility>

namespace s3oram::test {

/// A server that reports its readiness on its standard output, which is a pipe to this process.
class RunningServer {
 public:
  explicit RunningServer(const std::string& arguments) {
    const std::string command = "echo $$; exec '" SERVERD "' --ready-fd 1 " + arguments;
    pipe_ = ::popen(command.c_str(), "re");
    EXPECT_EQ(std::fscanf(pipe_, "%d\n", &pid_), 1);  // "\n" waits for the ready byte or the end
  }
  ~RunningServer() {
    if (pipe_) stop();
  }
  int pid() const { return pid_; }
  void signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }
  /// Stops the server with SIGTERM, and returns its exit code.
  int stop() {
    signal(SIGTERM);
    const int status = ::pclose(std::exchange(pipe_, nullptr));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  FILE* pipe_ = nullptr;
  int pid_ = 0;
};

}  // namespace s3oram::test
