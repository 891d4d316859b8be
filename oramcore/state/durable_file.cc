#include "oramcore/state/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

tl::unexpected<Error> failure(const std::filesystem::path& path, const char* doing) {
  return system_failure(errno, "{}: {}", path.string(), doing);
}

Status write_and_sync(const std::filesystem::path& path, const std::filesystem::path& former,
                      View content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return failure(path, "cannot be made");
  struct stat stat {};
  if (::geteuid() == 0 && ::stat(former.c_str(), &stat) == 0 &&
      ::fchown(file.get(), stat.st_uid, stat.st_gid) != 0)
    return failure(path, "cannot be given to the owner of the former one");
  if (::fchmod(file.get(), 0600) != 0) return failure(path, "cannot be made private");
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(path, "cannot be written");
    content = content.subspan(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0 || !file.close()) return failure(path, "cannot be written");
  return {};
}

}  // namespace

Status write_durably(const std::filesystem::path& path, View content) {
  std::filesystem::path fresh = path;
  fresh += ".new";
  if (Status written = write_and_sync(fresh, path, content); !written) {
    ::unlink(fresh.c_str());
    return written;
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    auto failed = failure(path, "cannot be replaced");
    ::unlink(fresh.c_str());
    return failed;
  }
  return sync_directory(path.parent_path());
}

std::filesystem::path free_path(const std::filesystem::path& wanted) {
  std::filesystem::path path = wanted;
  for (unsigned n = 2; exists(symlink_status(path)); ++n) (path = wanted) += fmt::format("-{}", n);
  return path;
}

Status copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto copy = [&]() -> Status {
    std::error_code error;
    std::filesystem::copy_file(from, to, error);
    if (error)
      return system_failure(error.value(), "{}: cannot be copied to {}", from.string(),
                            to.string());
    auto file = system_disk().open(to);
    if (!file) return fail(file.error());
    return (*file)->sync();
  };
  Status copied = copy();
  std::error_code ignored;  // the error that led here is the one to report
  if (!copied) std::filesystem::remove(to, ignored);
  return copied;
}

Status sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path place = directory.empty() ? "." : directory;
  Descriptor file(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0600));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return failure(place, "cannot be made durable");
  return {};
}

Result<Bytes> read_small_file(const std::filesystem::path& path, std::size_t limit) {
  // Non-blocking, so that opening a fifo by mistake is an error instead of a wait.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat stat {};
  if (file.get() < 0 || ::fstat(file.get(), &stat) != 0) return failure(path, "cannot be read");
  if (!S_ISREG(stat.st_mode)) return fail(Errc::failed, "{}: not a regular file", path.string());
  Bytes content(limit + 1);
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(path, "cannot be read");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > limit) return fail(Errc::failed, "{}: larger than {} bytes", path.string(), limit);
  content.resize(size);
  return content;
}

}  // namespace s3oram
