// Locks between processes: flock(2), POSIX locks, and those of open file descriptions.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void whole_file(Observer& o) {
  make_file("f");
  const int fd = ::open("f", O_RDWR), other = ::open("f", O_RDONLY);
  o.call("shared", ::flock(fd, LOCK_SH | LOCK_NB));
  o.call("shared by another", ::flock(other, LOCK_SH | LOCK_NB));
  o.call("exclusive beside it", ::flock(fd, LOCK_EX | LOCK_NB));
  o.call("unlock", ::flock(other, LOCK_UN));
  o.call("exclusive", ::flock(fd, LOCK_EX | LOCK_NB));
  o.in_process([&] {
    const int mine = ::open("f", O_RDWR);
    o.call("child, own descriptor", ::flock(mine, LOCK_SH | LOCK_NB));
    o.call("child, inherited", ::flock(fd, LOCK_EX | LOCK_NB));
  });
  o.call("close", ::close(fd));
  o.call("after close", ::flock(other, LOCK_EX | LOCK_NB));
}

struct flock range(short type, off_t start, off_t length) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return lock;
}

void ask(Observer& o, const std::string& what, int fd, off_t start, off_t length,
         int command = F_GETLK) {
  struct flock lock = range(F_WRLCK, start, length);
  if (::fcntl(fd, command, &lock) != 0) return o.note(what, error_name(errno));
  o.note(what, lock.l_type == F_UNLCK
                   ? "free"
                   : (lock.l_type == F_RDLCK ? "read " : "write ") + std::to_string(lock.l_start) +
                         "+" + std::to_string(lock.l_len));
}

void ranges(Observer& o) {
  make_file("f", "0123456789");
  const int fd = ::open("f", O_RDWR);
  const auto set = [&](const char* what, short type, off_t start, off_t length) {
    struct flock lock = range(type, start, length);
    o.call(what, ::fcntl(fd, F_SETLK, &lock));
  };
  const auto seen = [&](const char* what) {
    o.in_process([&] {
      for (const off_t start : {0, 5, 10, 20, 1000})
        ask(o, std::string(what) + " " + std::to_string(start), fd, start, 5);
      for (const short type : {F_RDLCK, F_WRLCK}) {
        struct flock lock = range(type, 0, 10);
        o.call("child sets", ::fcntl(fd, F_SETLK, &lock));
      }
    });
  };
  set("write", F_WRLCK, 0, 10);
  seen("one");
  set("read over a part", F_RDLCK, 5, 10);
  seen("two");
  set("unlock the middle", F_UNLCK, 3, 4);
  seen("three");
  set("to the end", F_WRLCK, 20, 0);
  seen("four");
  ask(o, "own locks are no hindrance", fd, 0, 0);
  const int second = ::open("f", O_RDWR);
  o.call("close of any descriptor", ::close(second));
  seen("all gone");
  const int reader = ::open("f", O_RDONLY);
  struct flock lock = range(F_WRLCK, 0, 1);
  o.call("write lock by a reader", ::fcntl(reader, F_SETLK, &lock));
  lock = range(F_RDLCK, -1, 1);
  o.call("before the start", ::fcntl(fd, F_SETLK, &lock));
}

void of_descriptions(Observer& o) {
  make_file("f");
  const int fd = ::open("f", O_RDWR), other = ::open("f", O_RDWR);
  struct flock lock = range(F_WRLCK, 0, 10);
  o.call("set", ::fcntl(fd, F_OFD_SETLK, &lock));
  o.call("set by another", ::fcntl(other, F_OFD_SETLK, &lock));
  ask(o, "asked by another", other, 5, 1, F_OFD_GETLK);
  o.call("set as a process", ::fcntl(other, F_SETLK, &lock));
  o.call("close", ::close(fd));
  o.call("set by another", ::fcntl(other, F_OFD_SETLK, &lock));
}

/// A waiting process gets the lock when it is released.
void waiting(Observer& o) {
  make_file("f");
  int ready[2], done[2];
  must(::pipe(ready) == 0 && ::pipe(done) == 0, "pipe");
  const int fd = ::open("f", O_RDWR);
  struct flock lock = range(F_WRLCK, 0, 0);
  o.call("parent locks", ::fcntl(fd, F_SETLK, &lock));
  if (::fork() == 0) {
    const int mine = ::open("f", O_RDWR);
    struct flock wanted = range(F_WRLCK, 0, 0);
    must(::fcntl(mine, F_SETLK, &wanted) < 0 && ::write(ready[1], "r", 1) == 1, "ready");
    must(::fcntl(mine, F_SETLKW, &wanted) == 0 && ::pwrite(mine, "child", 5, 0) == 5, "waiting");
    must(::write(done[1], "d", 1) == 1, "done");
    ::_exit(0);
  }
  char byte = 0;
  must(::read(ready[0], &byte, 1) == 1, "ready");
  lock = range(F_UNLCK, 0, 0);
  o.call("parent unlocks", ::fcntl(fd, F_SETLK, &lock));
  must(::read(done[0], &byte, 1) == 1, "done");
  o.content("after", "f");
}

}  // namespace

std::span<const Case> lock_cases() {
  static constexpr Case kCases[] = {
      {"lock_whole_file", whole_file},
      {"lock_ranges", ranges},
      {"lock_of_descriptions", of_descriptions},
      {"lock_waiting", waiting},
  };
  return kCases;
}

}  // namespace s3oram::conformance
