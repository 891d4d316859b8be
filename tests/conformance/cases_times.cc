// The times that each operation changes, and utimensat(2).
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void of_file(Observer& o) {
  make_file("f", "content");
  const int fd = ::open("f", O_RDWR);
  char bytes[4];
  o.times("nothing", "f", [] {});
  o.times("open", "f", [] { ::close(::open("f", O_RDWR)); });
  o.times("write", "f", [&] { must(::pwrite(fd, "x", 1, 0) == 1, "write"); });
  o.times("write and fsync", "f",
          [&] { must(::pwrite(fd, "x", 1, 0) == 1 && ::fsync(fd) == 0, "write"); });
  o.times("fsync", "f", [&] { must(::fsync(fd) == 0, "fsync"); });
  o.times("write nothing", "f", [&] { must(::pwrite(fd, "x", 0, 0) == 0, "write"); });
  o.times("ftruncate down", "f", [&] { must(::ftruncate(fd, 3) == 0, "truncate"); });
  o.times("ftruncate up", "f", [&] { must(::ftruncate(fd, 10) == 0, "truncate"); });
  o.times("ftruncate to its size", "f", [&] { must(::ftruncate(fd, 10) == 0, "truncate"); });
  o.times("truncate up", "f", [] { must(::truncate("f", 20) == 0, "truncate"); });
  o.times("truncate down", "f", [] { must(::truncate("f", 2) == 0, "truncate"); });
  o.times("open with trunc", "f", [] { ::close(::open("f", O_WRONLY | O_TRUNC)); });
  o.times("open an empty one with trunc", "f", [] { ::close(::open("f", O_WRONLY | O_TRUNC)); });
  o.times("fallocate", "f", [&] { must(::fallocate(fd, 0, 0, 8192) == 0, "fallocate"); });
  o.times("punch", "f", [&] {
    must(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0, "punch");
  });
  o.times("chmod", "f", [] { must(::chmod("f", 0600) == 0, "chmod"); });
  o.times("chmod to the same", "f", [] { must(::chmod("f", 0600) == 0, "chmod"); });
  o.times("chown", "f", [] { must(::chown("f", 1, 2) == 0, "chown"); });
  o.times("chown to nobody new", "f",
          [] { must(::chown("f", static_cast<uid_t>(-1), static_cast<gid_t>(-1)) == 0, "chown"); });
  o.times("setxattr", "f", [] { must(::setxattr("f", "user.a", "b", 1, 0) == 0, "setxattr"); });
  o.times("getxattr", "f", [&] { must(::getxattr("f", "user.a", bytes, 4) == 1, "getxattr"); });
  o.times("removexattr", "f", [] { must(::removexattr("f", "user.a") == 0, "removexattr"); });
  o.times("link", "f", [] { must(::link("f", "g") == 0, "link"); });
  o.times("unlink of the other name", "f", [] { must(::unlink("g") == 0, "unlink"); });
  o.times("rename", "f", [] { must(::rename("f", "g") == 0 && ::rename("g", "f") == 0, "name"); });
  o.times("a failed write", "f", [] {
    const int reader = ::open("f", O_RDONLY);
    must(::write(reader, "x", 1) < 0, "write");
  });
  o.times("a failed rename", "f", [] { must(::rename("f", "missing/x") < 0, "rename"); });
  o.times("copy_file_range", "f", [&] {
    make_file("source", "source");
    const int source = ::open("source", O_RDONLY);
    must(::copy_file_range(source, nullptr, fd, nullptr, 6, 0) == 6, "copy");
  });
}

/// The kernel may write mapped pages back at any time; msync and close make it do so.
void of_map(Observer& o) {
  make_file("f", std::string(4096, 'm'));
  o.times("write to a mapping", "f", [] {
    const int fd = ::open("f", O_RDWR);
    void* map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED, "mmap");
    static_cast<volatile char*>(map)[7] = 'x';
    must(::msync(map, 4096, MS_SYNC) == 0 && ::munmap(map, 4096) == 0, "msync");
    must(::fsync(fd) == 0 && ::close(fd) == 0, "close");
  });
}

void of_directory(Observer& o) {
  make_directory("d");
  make_directory("e");
  const auto moved = [&](const char* what, const std::function<void()>& work) {
    o.times(what, "d", work);
  };
  moved("create", [] { make_file("d/f", "x"); });
  moved("write below", [] { make_file("d/f", "xy"); });
  moved("chmod below", [] { must(::chmod("d/f", 0600) == 0, "chmod"); });
  moved("mkdir", [] { make_directory("d/d"); });
  moved("create two levels below", [] { make_file("d/d/f"); });
  moved("symlink", [] { must(::symlink("x", "d/l") == 0, "symlink"); });
  moved("link", [] { must(::link("d/f", "d/g") == 0, "link"); });
  moved("mkfifo", [] { must(::mkfifo("d/p", 0600) == 0, "mkfifo"); });
  moved("rename in it", [] { must(::rename("d/g", "d/h") == 0, "rename"); });
  moved("rename out of it", [] { must(::rename("d/h", "e/h") == 0, "rename"); });
  moved("rename into it", [] { must(::rename("e/h", "d/h") == 0, "rename"); });
  moved("replace in it", [] {
    make_file("d/n");
    must(::rename("d/n", "d/f") == 0, "rename");
  });
  moved("unlink", [] { must(::unlink("d/l") == 0, "unlink"); });
  moved("rmdir", [] { must(::unlink("d/d/f") == 0 && ::rmdir("d/d") == 0, "rmdir"); });
  moved("its own rename", [] {
    must(::rename("d", "e/d") == 0, "rename");
    ::rename("e/d", "d");
  });
  moved("failed create", [] { must(::open("d/f", O_CREAT | O_EXCL, 0600) < 0, "open"); });
  moved("failed mkdir", [] { must(::mkdir("d/f", 0700) < 0, "mkdir"); });
  moved("failed unlink", [] { must(::unlink("d/none") < 0, "unlink"); });
  moved("chmod", [] { must(::chmod("d", 0700) == 0, "chmod"); });
  moved("setxattr", [] { must(::setxattr("d", "user.a", "b", 1, 0) == 0, "setxattr"); });
  o.times("parent of a moved directory", ".", [] { must(::rename("d", "e/d") == 0, "rename"); });
  o.times("a replaced file, by its other name", "e", [] { make_file("e/x"); });
}

void of_targets(Observer& o) {
  make_file("f", "x");
  make_file("g", "y");
  must(::link("g", "other") == 0 && ::symlink("f", "l") == 0, "link");
  o.times("a replaced file", "other", [] { must(::rename("f", "g") == 0, "rename"); });
  make_file("a");
  make_file("b");
  o.times("an exchanged file", "a", [] {
    must(::renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) == 0, "exchange");
  });
  o.times("chown of a link", "l", [] { must(::lchown("l", 3, 4) == 0, "lchown"); });
  o.times("rename of a link", "l",
          [] { must(::rename("l", "k") == 0 && ::rename("k", "l") == 0, "x"); });
}

void show(Observer& o, const char* what, const char* path) {
  struct stat found {};
  must(::lstat(path, &found) == 0, "stat");
  const auto text = [](const timespec& time) {
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  };
  o.note(what, text(found.st_atim) + " " + text(found.st_mtim));
}

void setting(Observer& o) {
  make_file("f");
  make_directory("d");
  must(::symlink("f", "l") == 0 && ::symlink("nowhere", "dangling") == 0, "symlink");
  const auto set = [&](const char* what, const char* path, timespec atime, timespec mtime,
                       int flags = 0) {
    const timespec times[2] = {atime, mtime};
    o.call(what, ::utimensat(AT_FDCWD, path, times, flags));
  };
  const timespec omit = {0, UTIME_OMIT}, now = {0, UTIME_NOW};
  set("nanoseconds", "f", {1'234'567'890, 123'456'789}, {987'654'321, 999'999'999});
  show(o, "times", "f");
  set("omit the first", "f", omit, {5, 6});
  show(o, "times", "f");
  set("omit the second", "f", {7, 8}, omit);
  show(o, "times", "f");
  set("omit both", "f", omit, omit);
  show(o, "times", "f");
  set("before 1970", "f", {-2, 500'000'000}, {-1, 1});
  show(o, "times", "f");
  set("after 2038", "f", {5'000'000'000, 1}, {6'000'000'000, 2});
  show(o, "times", "f");
  set("too many nanoseconds", "f", {1, 1'000'000'000}, {1, 1});
  set("negative nanoseconds", "f", {1, 1}, {1, -1});
  set("directory", "d", {10, 11}, {12, 13});
  show(o, "directory times", "d");
  set("link itself", "l", {20, 21}, {22, 23}, AT_SYMLINK_NOFOLLOW);
  show(o, "link times", "l");
  set("through the link", "l", {30, 31}, {32, 33});
  show(o, "times", "f");
  struct stat link {};
  must(::lstat("l", &link) == 0, "lstat");
  o.note("link's second time",
         std::to_string(link.st_mtim.tv_sec));  // following it is an access
  set("dangling", "dangling", {1, 1}, {1, 1});
  set("missing", "missing", {1, 1}, {1, 1});
  o.times("now and omit", "f", [&] {
    const timespec times[2] = {now, omit};
    must(::utimensat(AT_FDCWD, "f", times, 0) == 0, "utimensat");
  });
  o.times("omit and now", "f", [&] {
    const timespec times[2] = {omit, now};
    must(::utimensat(AT_FDCWD, "f", times, 0) == 0, "utimensat");
  });
  o.times("both now", "f", [] { must(::utimensat(AT_FDCWD, "f", nullptr, 0) == 0, "utimensat"); });
  o.times("both omitted", "f", [&] {
    const timespec times[2] = {omit, omit};
    must(::utimensat(AT_FDCWD, "f", times, 0) == 0, "utimensat");
  });
}

void kept_by_writing_back(Observer& o) {
  make_file("f");
  const int fd = ::open("f", O_RDWR);
  must(::write(fd, "dirty", 5) == 5, "write");
  const timespec times[2] = {{100, 1}, {200, 2}};
  o.call("futimens", ::futimens(fd, times));
  o.call("fsync", ::fsync(fd));
  show(o, "after fsync", "f");
  o.call("close", ::close(fd));
  show(o, "after close", "f");
  const int again = ::open("f", O_WRONLY);
  must(::write(again, "more", 4) == 4 && ::futimens(again, times) == 0, "write");
  o.call("close", ::close(again));
  o.call("rename", ::rename("f", "g"));
  o.call("chmod", ::chmod("g", 0600));
  show(o, "after all", "g");
}

/// A file that is changed later is not older; make and others rely on that.
void in_order(Observer& o) {
  constexpr int kRounds = 200;
  int back = 0;
  timespec last{};
  const auto look = [&](const char* path) {
    struct stat found {};
    must(::lstat(path, &found) == 0, "stat");
    const timespec& now = found.st_ctim;
    back += now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec);
    last = now;
  };
  for (int i = 0; i < kRounds; ++i) {
    const std::string name = std::to_string(i), directory = "d" + name;
    const int fd = ::open(name.c_str(), O_RDWR | O_CREAT, 0644);
    look(name.c_str());
    must(::write(fd, "x", 1) == 1, "write");
    look(name.c_str());
    make_directory(directory.c_str());
    look(directory.c_str());
    must(::pwrite(fd, "y", 1, 0) == 1 && ::close(fd) == 0, "write");
    look(name.c_str());
    must(::symlink("x", (directory + "/l").c_str()) == 0, "symlink");
    look(directory.c_str());
  }
  o.note("changes that seem older than the one before", std::to_string(back));
}

}  // namespace

std::span<const Case> time_cases() {
  static constexpr Case kCases[] = {
      {"times_of_file", of_file},           {"times_of_map", of_map},
      {"times_of_directory", of_directory}, {"times_of_targets", of_targets},
      {"times_setting", setting},           {"times_kept", kept_by_writing_back},
      {"times_in_order", in_order},
  };
  return kCases;
}

}  // namespace s3oram::conformance
