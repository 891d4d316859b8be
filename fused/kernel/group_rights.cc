// Reads groups and capabilities of a process from /proc.
#include "fused/kernel/group_rights.h"

#include <linux/capability.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace s3oram {

bool may_set_group_id(pid_t process, gid_t group) {
  std::ifstream lines("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Groups:")
      for (gid_t member = 0; words >> member;)
        if (member == group) return true;
    std::uint64_t capabilities = 0;
    if (key == "CapEff:" && words >> std::hex >> capabilities)
      return (capabilities >> CAP_FSETID & 1) != 0;  // this line comes after that of the groups
  }
  return false;
}

}  // namespace s3oram
