// Looks like a share server to the process that starts it. A file `how` in its store says how it
// behaves, and it writes what it was given to files in its store.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

namespace {

std::string option(int argc, char** argv, const std::string& name) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == name) return argv[i + 1];
  return {};
}

void tell(const std::string& store, int argc, char** argv) {
  // This comes before the program opens any file of its own.
  std::string open_fds;
  for (int fd = 0; fd < 1024; ++fd)
    if (::fcntl(fd, F_GETFD) != -1) open_fds += std::to_string(fd) + " ";
  std::ofstream(store + "/fds") << open_fds;
  std::ofstream args(store + "/args");
  for (int i = 1; i < argc; ++i) args << argv[i] << "\n";
  std::ofstream(store + "/cwd") << std::filesystem::current_path().string();
  std::ofstream(store + "/pid") << ::getpid();
  std::ofstream(store + "/session") << (::getsid(0) == ::getpid());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string store = option(argc, argv, "--store");
  std::string how;
  std::ifstream(store + "/how") >> how;  // closed again: tell() lists open files
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &end, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::cerr << "hello from " << store << std::endl;
  if (how == "fails") {
    std::cerr << "the store is upside down" << std::endl;
    return 12;
  }
  tell(store, argc, argv);
  const int ready = std::stoi(option(argc, argv, "--ready-fd"));
  if (how != "never-ready") {
    if (::write(ready, "\n", 1) != 1) return 1;
    ::close(ready);
  }
  if (how == "dies") ::raise(SIGKILL);
  int signal = 0;
  ::sigwait(&end, &signal);
  while (how == "ignores-term") ::pause();
  std::ofstream(store + "/stopped") << "well";
  if (how == "ends-badly") {
    std::cerr << "could not write" << std::endl;
    return 21;
  }
  return 0;
}
