// Makes the directories of a vault.
#include "oramcore/vault/private_directory.h"

#include <sys/stat.h>

#include <cerrno>

#include "oramcore/base/system_error.h"

namespace s3oram {

Status make_private_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return system_failure(errno, "{}: cannot be made", path.string());
}

}  // namespace s3oram
