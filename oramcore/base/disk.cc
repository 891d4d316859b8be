// Files of the operating system: reading, writing, syncing and reserving.
#include "oramcore/base/disk.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/file_watch.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

// Room is reserved in steps: at least this many bytes, or this fraction of the room that is left.
constexpr std::uint64_t kLeastReserved = 1 << 20, kReservedParts = 8;

class SystemFile final : public File {
 public:
  SystemFile(Descriptor descriptor, std::filesystem::path path)
      : descriptor_(std::move(descriptor)),
        watcher_(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
        path_(std::move(path)),
        watch_(path_, FileWatch::Size::never_shrinks, FileWatch::From::the_one_above) {}

  Status read(std::uint64_t offset, MutableByteSpan out) override {
    while (!out.empty()) {
      const ssize_t got =
          ::pread(descriptor_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure("read");
      if (got == 0) {
        std::ranges::fill(out, std::uint8_t{0});
        break;
      }
      offset += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  Status write(std::uint64_t offset, ByteSpan data) override {
    while (!data.empty()) {
      const ssize_t put =
          ::pwrite(descriptor_.get(), data.data(), data.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failure("write");
      offset += static_cast<std::uint64_t>(put);
      data = data.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }

  Status sync() override {
    return ::fdatasync(descriptor_.get()) == 0 ? Status{} : failure("fdatasync");
  }

  // The kernel reports an error once per open file, so a call on `descriptor_` would hide it from
  // sync().
  void write_out(std::uint64_t offset, std::uint64_t length) override {
    ::sync_file_range(
        watcher_.get(), static_cast<off64_t>(offset), static_cast<off64_t>(length),
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }

  Result<std::uint64_t> size() override {
    struct stat present {};
    if (::fstat(descriptor_.get(), &present) != 0) return failure("size of");
    return static_cast<std::uint64_t>(present.st_size);
  }

  Status still_there() override { return watch_.check(); }

  Status truncate(std::uint64_t size) override {
    return ::ftruncate(descriptor_.get(), static_cast<off_t>(size)) == 0 ? Status{}
                                                                         : failure("truncate");
  }
  // Uses fallocate(2) itself, because posix_fallocate would write where the file system cannot
  // reserve. If asked for more than is available, some file systems keep what they could give, and
  // fill the disk. So room is reserved in steps, each only while there is room for all remaining
  // ones, because others may be reserving at the same time.
  Status reserve(std::uint64_t size) override {
    for (std::uint64_t end = 0; end < size;) {
      struct stat present {};
      if (::fstat(descriptor_.get(), &present) != 0) return failure("reserve space in");
      const auto there = static_cast<std::uint64_t>(present.st_blocks) * 512;
      if (size > there && size > largest()) {
        errno = size > file_size_limit() ? EFBIG : ENOSPC;
        return failure("reserve space in");
      }
      const std::uint64_t step = std::max((size - end) / kReservedParts, kLeastReserved);
      end = std::min(std::max(end, there) + step, size);
      if (!allocate(end)) return failure("reserve space in");
    }
    return {};
  }

  std::uint64_t largest() override {
    struct stat present {};
    struct statvfs disk {};
    if (::fstat(descriptor_.get(), &present) != 0 || ::fstatvfs(descriptor_.get(), &disk) != 0)
      return 0;
    const std::uint64_t room = static_cast<std::uint64_t>(present.st_blocks) * 512 +
                               std::uint64_t{disk.f_bavail} * disk.f_frsize;
    return std::min(room, file_size_limit());
  }

 private:
  /// Reserves from the beginning of the file. If it returns false, errno says why. Also returns
  /// true if the file system cannot reserve room.
  bool allocate(std::uint64_t end) {
    int rc = 0;
    do rc = ::fallocate(descriptor_.get(), 0, 0, static_cast<off_t>(end));
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno != EOPNOTSUPP) return false;
    if (rc != 0 && !told_.exchange(true))
      spdlog::warn("{}: this file system cannot reserve space; a full disk will be noticed late",
                   path_.string());
    return true;
  }

  tl::unexpected<Error> failure(const char* what) const {
    return system_failure(errno, "{} {}", what, path_.string());
  }

  const Descriptor descriptor_, watcher_;
  std::filesystem::path path_;
  const FileWatch watch_;
  std::atomic<bool> told_{false};
};

class SystemDisk final : public Disk {
 public:
  Result<std::unique_ptr<File>> open(const std::filesystem::path& path) override {
    Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (descriptor.get() < 0) return system_failure(errno, "cannot open {}", path.string());
    std::unique_ptr<File> file(new SystemFile(std::move(descriptor), path));
    // A new file's name must survive a power cut, like its content.
    S3O_TRY(sync_directory(path.parent_path()));
    return file;
  }

  bool exists(const std::filesystem::path& path) override {
    std::error_code error;
    return std::filesystem::exists(path, error);
  }
};

}  // namespace

Disk& system_disk() {
  static SystemDisk disk;
  return disk;
}

}  // namespace s3oram
