#include "cli/mount_table.h"

#include <vector>

namespace s3oram {
namespace {

namespace fs = std::filesystem;

// All absolute paths that `name` may stand for. The mount point itself is not looked at where it
// can be helped: its daemon may be dead, or slow.
std::vector<fs::path> meanings(const fs::path& name) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::path path = fs::absolute(name, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  paths.push_back(path);
  const fs::path parent = fs::canonical(path.parent_path(), error);
  if (!error) paths.push_back(parent / path.filename());
  const fs::path target = fs::canonical(path, error);
  if (!error) paths.push_back(target);
  return paths;
}

}  // namespace

Result<VaultMount> find_mount(const fs::path& name) {
  const auto mounts = vaults_among(current_mounts());
  const auto paths = meanings(name);
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount)
    for (const fs::path& path : paths)
      if (mount->point == path || mount->vault == path) return *mount;
  return fail(Errc::not_mounted, "{}: no vault is mounted there, and no such vault is mounted",
              name.string());
}

}  // namespace s3oram
