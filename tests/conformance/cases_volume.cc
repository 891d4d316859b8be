// The figures of the whole file system, the blocks of a file, and inode numbers.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void figures(Observer& o) {
  struct statvfs all {};
  o.call("statvfs", ::statvfs(".", &all));
  o.check("sizes of blocks", all.f_bsize > 0 && all.f_frsize > 0 && all.f_bsize % 512 == 0);
  o.check("some are free", all.f_bfree > 0 && all.f_bavail > 0);
  o.check("no more free than there are", all.f_bfree <= all.f_blocks);
  o.check("no more available than free", all.f_bavail <= all.f_bfree);
  o.check("files", all.f_files > 0 && all.f_ffree > 0 && all.f_ffree <= all.f_files);
  o.note("longest name", std::to_string(all.f_namemax));
  o.check("read-only", (all.f_flag & ST_RDONLY) != 0);
  const int fd = ::open(".", O_RDONLY);
  o.call("fstatvfs", ::fstatvfs(fd, &all));
  o.call("missing", ::statvfs("missing", &all));
  o.call("pathconf name", ::pathconf(".", _PC_NAME_MAX));
  o.call("pathconf path", ::pathconf(".", _PC_PATH_MAX));
}

void blocks(Observer& o) {
  constexpr std::size_t kSize = 2'000'000;
  const auto taken = [](const char* path) {
    struct stat found {};
    must(::lstat(path, &found) == 0, "stat");
    return found.st_blocks * 512;
  };
  make_file("f");
  o.note("an empty file takes", std::to_string(taken("f")));
  make_file("f", std::string(kSize, 'x'));
  const int fd = ::open("f", O_RDWR);
  must(::fsync(fd) == 0, "fsync");
  o.check("takes what it holds", taken("f") >= static_cast<long>(kSize));
  o.check("and not much more", taken("f") <= static_cast<long>(kSize + 1'048'576));
  must(::ftruncate(fd, 0) == 0 && ::fsync(fd) == 0, "truncate");
  o.note("takes nothing again", std::to_string(taken("f")));
  must(::ftruncate(fd, kSize) == 0 && ::fsync(fd) == 0, "truncate");
  o.note("a hole takes", std::to_string(taken("f")));
  struct stat found {};
  must(::fstat(fd, &found) == 0, "fstat");
  o.check("a sensible unit", found.st_blksize >= 512);
}

void freed(Observer& o) {
  const auto free_bytes = [] {
    struct statvfs all {};
    must(::statvfs(".", &all) == 0, "statvfs");
    return static_cast<double>(all.f_bfree) * static_cast<double>(all.f_frsize);
  };
  constexpr double kSize = 24e6, kOthers = 8e6;  // other programs may write so much meanwhile
  make_file("f", std::string(static_cast<std::size_t>(kSize), 'x'));
  must(::fsync(::open("f", O_RDWR)) == 0, "fsync");
  const double with = free_bytes();
  o.check("something is free", with > 0);
  must(::unlink("f") == 0, "unlink");
  o.check("no less free than before", free_bytes() >= with - kOthers);
}

void inode_numbers(Observer& o) {
  std::set<ino_t> numbers;
  const auto number = [](const char* path) {
    struct stat found {};
    must(::lstat(path, &found) == 0, path);
    return found.st_ino;
  };
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    make_file(name.c_str());
    numbers.insert(number(name.c_str()));
  }
  o.note("different", std::to_string(numbers.size()));
  const ino_t seven = number("7");
  make_file("7", "content");
  o.check("stays after writing", number("7") == seven);
  must(::chmod("7", 0600) == 0 && ::chown("7", 1, 1) == 0 && ::truncate("7", 99) == 0, "changing");
  o.check("stays after changes", number("7") == seven);
  make_directory("d");
  must(::rename("7", "d/7") == 0, "rename");
  o.check("stays after a rename", number("d/7") == seven);
  must(::link("d/7", "other") == 0, "link");
  o.check("is that of its other name", number("other") == seven);
  struct stat one {
  }, two{};
  must(::stat("d", &one) == 0 && ::stat("d/7", &two) == 0, "stat");
  o.check("one device", one.st_dev == two.st_dev);
}

}  // namespace

std::span<const Case> volume_cases() {
  static constexpr Case kCases[] = {
      {"volume_figures", figures},
      {"volume_blocks", blocks},
      {"volume_freed", freed},
      {"volume_inode_numbers", inode_numbers},
  };
  return kCases;
}

}  // namespace s3oram::conformance
