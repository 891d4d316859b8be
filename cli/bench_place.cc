// Creates a benchmark's directory, finds out what file system is below it, and removes it at the
// end.
#include "cli/bench_place.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

constexpr std::uint64_t kToSpare = 16 << 20;
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile sig_atomic_t told_to_end = 0;
std::array<struct sigaction, kSignals.size()> former;

std::string read_all(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Interrupts::Interrupts() {
  told_to_end = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { told_to_end = 1; };
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &former[i]);
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &former[i], nullptr);
}

bool interrupted() { return told_to_end != 0; }

std::string type_of_device(const std::string& mountinfo, unsigned major, unsigned minor) {
  const std::string device = fmt::format("{}:{}", major, minor);
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, number, word;
    words >> id >> parent >> number;
    if (number != device) continue;
    while (words >> word && word != "-") continue;
    if (words >> word) return word;
  }
  return "";
}

Result<std::unique_ptr<BenchPlace>> BenchPlace::make(const std::string& target,
                                                     std::uint64_t bytes) {
  std::unique_ptr<BenchPlace> place(new BenchPlace);
  stdfs::path parent = target;
  if (const auto mount = find_mount(target)) {
    parent = mount->point;
  } else if (auto vault = Vault::find(target)) {
    return fail(Errc::not_mounted, "{} is a vault that is not mounted: mount it first", target);
  }
  S3O_TRY(require_own_directory(parent));
  std::error_code error;
  if (!stdfs::is_directory(parent, error))
    return fail(Errc::usage, "{} is not a directory{}", parent.string(),
                error ? ": " + error.message() : std::string());
  struct statvfs disk {};
  struct stat status {};
  if (::statvfs(parent.c_str(), &disk) != 0 || ::stat(parent.c_str(), &status) != 0)
    return system_failure(errno, "{}", parent.string());
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free < bytes + kToSpare)
    return fail(Errc::disk_full, "{}: {} are free, but {} are needed; make room, or give --size",
                parent.string(), human_size(free), human_size(bytes + kToSpare));
  place->filesystem_ =
      type_of_device(read_all("/proc/self/mountinfo"), major(status.st_dev), minor(status.st_dev));
  // The innermost mount around the target may be a vault's, even if the target is a directory in
  // it.
  for (stdfs::path at = stdfs::absolute(parent, error).lexically_normal();; at = at.parent_path()) {
    if (place->filesystem_ != kVaultMountType) break;
    if (const auto mount = find_mount(at); mount && mount->point == at) {
      if (auto vault = Vault::find(mount->vault)) place->vault_.emplace(std::move(*vault));
      break;
    }
    if (at == at.parent_path()) break;
  }
  std::string name = (parent / "s3oramfs-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    return system_failure(errno, "{}: no subdirectory can be made there", parent.string());
  place->directory_ = name;
  return place;
}

BenchPlace::~BenchPlace() {
  if (directory_.empty()) return;
  std::error_code error;
  stdfs::remove_all(directory_, error);
  if (error)
    std::cerr << "s3oramfs: " << directory_.string() << " is left behind: " << error.message()
              << "\n";
}

Status BenchPlace::forget(int file) const {
  if (const int error = ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); error != 0)
    return system_failure(error, "posix_fadvise");
  if (!vault_) return {};
  S3O_TRY(ask_daemon(*vault_, "drop"));
  return {};
}

}  // namespace s3oram
