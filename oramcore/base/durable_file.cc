// Writes a temporary file, syncs it, and renames or links it into place.
#include "oramcore/base/durable_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> failure(const fs::path& path, const char* doing) {
  return system_failure(errno, "{}: {}", path.string(), doing);
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// Writes and syncs the content. Its name is not yet durable.
Status fill(Descriptor file, const fs::path& path, ByteSpan content, FileOwner owner) {
  struct stat found {};
  const fs::path owned = owner == FileOwner::of_directory ? directory_of(path) : path;
  if (::geteuid() == 0 && ::stat(owned.c_str(), &found) == 0 &&
      ::fchown(file.get(), found.st_uid, found.st_gid) != 0)
    return failure(path, "cannot be given to its owner");
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

/// Writes a temporary file `fresh`; publish(fresh) then gives it the name `path`.
template <class Publish>
Status write_beside(const fs::path& path, ByteSpan content, FileOwner owner, Publish publish) {
  std::string fresh = path.string() + ".XXXXXX";
  Descriptor file(::mkostemp(fresh.data(), O_CLOEXEC));
  if (file.get() < 0) return failure(path, "cannot be made");
  Status status = fill(std::move(file), path, content, owner);
  if (status) status = publish(fresh.c_str());
  ::unlink(fresh.c_str());  // if it still has this name
  return status ? sync_directory(path.parent_path()) : status;
}

}  // namespace

Status write_durably(const fs::path& path, ByteSpan content, FileOwner owner) {
  return write_beside(path, content, owner, [&](const char* fresh) -> Status {
    if (::rename(fresh, path.c_str()) == 0) return {};
    return failure(path, "cannot be replaced");
  });
}

Status create_durably(const fs::path& path, ByteSpan content, FileOwner owner) {
  return write_beside(path, content, owner, [&](const char* fresh) -> Status {
    if (::link(fresh, path.c_str()) == 0) return {};
    if (errno == EEXIST) return fail(Errc::exists, "{} exists already", path.string());
    return failure(path, "cannot be made");
  });
}

fs::path free_path(const fs::path& wanted) {
  fs::path path = wanted;
  for (unsigned n = 2; exists(symlink_status(path)); ++n) (path = wanted) += fmt::format("-{}", n);
  return path;
}

Status copy_durably(const fs::path& from, const fs::path& to) {
  const auto copy = [&]() -> Status {
    std::error_code error;
    fs::copy_file(from, to, error);
    if (error)
      return system_failure(error.value(), "{}: cannot be copied to {}", from.string(),
                            to.string());
    S3O_ASSIGN(auto file, system_disk().open(to));
    return file->sync();
  };
  Status copied = copy();
  std::error_code ignored;  // the earlier error is the one to report
  if (!copied) fs::remove(to, ignored);
  return copied;
}

Status sync_directory(const fs::path& directory) {
  const fs::path place = directory.empty() ? "." : directory;
  const Descriptor file(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0600));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return failure(place, "cannot be made durable");
  return {};
}

Result<Bytes> read_small_file(const fs::path& path, std::size_t limit, FileKinds kinds) {
  // O_NONBLOCK, so that a fifo without a writer does not block. A fifo with a writer, as in
  // --passfile <(COMMAND), is read.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat stat {};
  if (file.get() < 0 || ::fstat(file.get(), &stat) != 0) return failure(path, "cannot be read");
  const bool pipe = S_ISFIFO(stat.st_mode) && kinds == FileKinds::regular_or_pipe;
  if (!S_ISREG(stat.st_mode) && kinds == FileKinds::regular)
    return fail(Errc::damaged_vault, "{} is not a regular file; remove it", path.string());
  if (!S_ISREG(stat.st_mode) && !pipe)
    return fail(Errc::failed, "{} is neither a file nor a pipe", path.string());
  if (::fcntl(file.get(), F_SETFL, 0) != 0) return failure(path, "cannot be read");
  Bytes content(limit + 1);
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(path, "cannot be read");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > limit)
    return fail(kinds == FileKinds::regular ? Errc::damaged_vault : Errc::failed,
                "{}: larger than {} bytes", path.string(), limit);
  content.resize(size);
  return content;
}

}  // namespace s3oram
