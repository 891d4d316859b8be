// open(2) and its flags.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void exclusive(Observer& o) {
  const int fd = o.file("new", ::open("f", O_RDWR | O_CREAT | O_EXCL, 0640));
  o.attributes("new", "f");
  o.call("write", ::write(fd, "abc", 3));
  o.file("again", ::open("f", O_RDWR | O_CREAT | O_EXCL, 0600));
  o.attributes("after", "f");
  make_directory("d");
  o.file("directory", ::open("d", O_RDWR | O_CREAT | O_EXCL, 0600));
  must(::symlink("nowhere", "dangling") == 0, "symlink");
  o.file("dangling link", ::open("dangling", O_RDWR | O_CREAT | O_EXCL, 0600));
  o.file("dangling link without EXCL", ::open("dangling", O_RDWR | O_CREAT, 0600));
  o.attributes("made through the link", "nowhere");
  o.file("no parent", ::open("x/y", O_RDWR | O_CREAT | O_EXCL, 0600));
  o.file("file as parent", ::open("f/y", O_RDWR | O_CREAT | O_EXCL, 0600));
  o.file("empty name", ::open("", O_RDWR | O_CREAT, 0600));
  o.file("slash at the end", ::open("new/", O_RDWR | O_CREAT, 0600));
  o.names("names", ".");
}

void modes(Observer& o) {
  for (const mode_t mode : {0u, 0777u, 07777u, 04755u, 02755u, 01777u, 0444u}) {
    ::umask(0);
    const int fd = o.file("open", ::open("f", O_RDWR | O_CREAT, mode));
    o.attributes("file", "f");
    o.call("unlink", ::unlink("f"));
    ::close(fd);
    o.call("mkdir", ::mkdir("d", mode));
    o.attributes("directory", "d");
    o.call("rmdir", ::rmdir("d"));
  }
  for (const mode_t mask : {0777u, 077u, 027u, 0u}) {
    ::umask(mask);
    const int fd = o.file("open", ::open("f", O_RDWR | O_CREAT, 0666));
    o.attributes("masked file", "f");
    ::close(fd);
    o.call("unlink", ::unlink("f"));
    o.call("mkdir", ::mkdir("d", 0777));
    o.attributes("masked directory", "d");
    o.call("rmdir", ::rmdir("d"));
    o.call("mkfifo", ::mkfifo("p", 0666));
    o.attributes("masked fifo", "p");
    o.call("unlink", ::unlink("p"));
  }
}

void open_truncating(Observer& o) {
  make_file("f", "content");
  const int held = ::open("f", O_RDWR);
  ::close(o.file("trunc for writing", ::open("f", O_WRONLY | O_TRUNC)));
  o.attributes("after", "f");
  o.call("write through the other", ::pwrite(held, "xy", 2, 3));
  o.content("content", "f");
  ::close(o.file("create and trunc an old one", ::open("f", O_RDWR | O_CREAT | O_TRUNC, 0600)));
  o.attributes("after", "f");
  make_directory("d");
  o.file("trunc a directory", ::open("d", O_RDONLY | O_TRUNC));
  o.file("directory for writing", ::open("d", O_WRONLY));
  o.file("directory for both", ::open("d", O_RDWR));
  o.file("create on a directory", ::open("d", O_RDONLY | O_CREAT, 0600));
  must(::mkfifo("p", 0600) == 0, "mkfifo");
  o.file("trunc a fifo", ::open("p", O_RDWR | O_TRUNC | O_NONBLOCK));
}

void directory_flag(Observer& o) {
  make_file("f");
  make_directory("d");
  must(::symlink("d", "l") == 0, "symlink");
  o.file("directory", ::open("d", O_RDONLY | O_DIRECTORY));
  o.file("file", ::open("f", O_RDONLY | O_DIRECTORY));
  o.file("link to one", ::open("l", O_RDONLY | O_DIRECTORY));
  o.file("link to one, not followed", ::open("l", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  o.file("link with slash, not followed", ::open("l/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  o.file("missing", ::open("m", O_RDONLY | O_DIRECTORY));
  o.file("file with slash", ::open("f/", O_RDONLY));
  char byte = 0;
  const int fd = ::open("d", O_RDONLY);
  o.call("read", ::read(fd, &byte, 1));
  o.call("pread", ::pread(fd, &byte, 1, 0));
  o.call("write", ::write(fd, &byte, 1));
  o.call("ftruncate", ::ftruncate(fd, 0));
  o.call("truncate", ::truncate("d", 0));
  o.call("mmap", ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
  o.call("fsync", ::fsync(fd));
  o.call("fdatasync", ::fdatasync(fd));
  o.call("syncfs", ::syncfs(fd));
}

void no_follow(Observer& o) {
  make_file("f", "x");
  must(::symlink("f", "l") == 0 && ::symlink("loop", "loop") == 0, "symlink");
  o.file("link", ::open("l", O_RDONLY | O_NOFOLLOW));
  o.file("loop", ::open("loop", O_RDONLY));
  o.file("loop, create", ::open("loop", O_RDWR | O_CREAT, 0600));
  o.file("file", ::open("f", O_RDONLY | O_NOFOLLOW));
  o.file("link, create", ::open("l", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
}

void path_only(Observer& o) {
  make_file("f", "abc", 0);
  must(::symlink("f", "l") == 0, "symlink");
  const int fd = o.file("open", ::open("f", O_PATH));
  char byte = 0;
  o.call("read", ::read(fd, &byte, 1));
  o.call("write", ::write(fd, "x", 1));
  o.call("fchmod", ::fchmod(fd, 0600));
  o.call("fchown", ::fchown(fd, 1, 1));
  struct stat found {};
  o.call("fstat", ::fstat(fd, &found));
  o.attributes("attributes", found);
  const int link = o.file("link itself", ::open("l", O_PATH | O_NOFOLLOW));
  o.call("fstat", ::fstat(link, &found));
  o.attributes("link", found);
  char target[16];
  o.call("readlinkat", ::readlinkat(link, "", target, sizeof target));
  o.call("linkat by descriptor", ::linkat(fd, "", AT_FDCWD, "g", AT_EMPTY_PATH));
  o.attributes("linked", "g");
}

void unnamed(Observer& o) {
  const int fd = o.file("open", ::open(".", O_TMPFILE | O_RDWR, 0600));
  o.names("names", ".");
  if (fd >= 0) ::close(fd);
}

void access_modes(Observer& o) {
  make_file("f", "abc");
  char byte = 0;
  const int in = ::open("f", O_RDONLY), out = ::open("f", O_WRONLY);
  o.call("write to a reader", ::write(in, "x", 1));
  o.call("read from a writer", ::read(out, &byte, 1));
  o.call("ftruncate a reader", ::ftruncate(in, 0));
  o.call("fallocate a reader", ::fallocate(in, 0, 0, 10));
  o.call("mmap a writer",
         ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, out, 0) == MAP_FAILED ? -1 : 0);
  o.call("mmap a reader shared for writing",
         ::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, in, 0) == MAP_FAILED ? -1 : 0);
  o.call("lseek before the start", ::lseek(in, -1, SEEK_SET));
  o.call("lseek from the end", ::lseek(in, -1, SEEK_END));
  o.call("lseek behind the end", ::lseek(in, 10, SEEK_END));
  o.call("read there", ::read(in, &byte, 1));
  o.call("pread before the start", ::pread(in, &byte, 1, -1));
  o.call("append flag", ::fcntl(out, F_SETFL, O_APPEND));
  o.call("write", ::write(out, "d", 1));
  o.content("content", "f");
}

void at_functions(Observer& o) {
  make_directory("d");
  make_file("f");
  const int d = ::open("d", O_RDONLY | O_DIRECTORY), f = ::open("f", O_RDONLY);
  o.file("openat", ::openat(d, "x", O_RDWR | O_CREAT, 0600));
  o.file("openat of a file", ::openat(f, "x", O_RDWR | O_CREAT, 0600));
  o.call("mkdirat", ::mkdirat(d, "y", 0700));
  o.call("renameat", ::renameat(d, "x", AT_FDCWD, "z"));
  o.call("unlinkat a directory", ::unlinkat(d, "y", 0));
  o.call("unlinkat", ::unlinkat(d, "y", AT_REMOVEDIR));
  o.call("unlinkat a file as a directory", ::unlinkat(AT_FDCWD, "z", AT_REMOVEDIR));
  o.call("rmdir", ::rmdir("d"));
  o.file("openat in a removed one", ::openat(d, "x", O_RDWR | O_CREAT, 0600));
  o.call("mkdirat in a removed one", ::mkdirat(d, "x", 0700));
  o.call("symlinkat in a removed one", ::symlinkat("t", d, "x"));
  o.call("linkat in a removed one", ::linkat(AT_FDCWD, "f", d, "x", 0));
  o.call("rename into a removed one", ::renameat(AT_FDCWD, "f", d, "x"));
  struct stat found {};
  o.call("fstat", ::fstat(d, &found));
  o.attributes("removed", found);
  o.file("openat its dot", ::openat(d, ".", O_RDONLY));
  o.names("names", ".");
}

}  // namespace

std::span<const Case> open_cases() {
  static constexpr Case kCases[] = {
      {"open_exclusive", exclusive},
      {"open_modes", modes},
      {"open_truncating", open_truncating},
      {"open_directory", directory_flag},
      {"open_no_follow", no_follow},
      {"open_path_only", path_only},
      {"open_unnamed", unnamed},
      {"open_access_modes", access_modes},
      {"open_at_functions", at_functions},
  };
  return kCases;
}

}  // namespace s3oram::conformance
