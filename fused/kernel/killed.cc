// Reads pending signals of a thread from /proc.
#include "fused/kernel/killed.h"

#include <signal.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace s3oram {

bool is_killed(pid_t thread) {
  std::ifstream lines("/proc/" + std::to_string(thread) + "/status");
  for (std::string key; lines >> key;) {
    std::uint64_t pending = 0;
    // Whatever ends a process, the kernel then sends SIGKILL to each of its threads.
    if (key == "SigPnd:" && lines >> std::hex >> pending)
      return (pending >> (SIGKILL - 1) & 1) != 0;
  }
  return false;
}

}  // namespace s3oram
