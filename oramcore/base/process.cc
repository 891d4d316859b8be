// Reads /proc, and sets up the process of a program.
#include "oramcore/base/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace s3oram {

void open_standard_streams() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

std::vector<int> open_files() {
  std::vector<int> files;
  std::error_code unknown;  // if there is no /proc
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", unknown)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (fd > STDERR_FILENO) files.push_back(fd);
  }
  // The descriptor of the directory itself is closed by now.
  std::erase_if(files, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });
  return files;
}

// The C library of Debian 12 declares its pidfd_open without C linkage.
Descriptor open_process(pid_t pid) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // PID (NAME) STATE ...; the name may contain anything.
  const auto end = line.rfind(") ");
  return end != std::string::npos && end + 2 < line.size() &&
         (line[end + 2] == 'T' || line[end + 2] == 't');
}

void forbid_core_dumps() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // fails only if the limit is 0 already
}

}  // namespace s3oram
