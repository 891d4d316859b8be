// Several processes at the same time, and results that must hold however they interleave.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

constexpr int kProcesses = 6, kRounds = 100;

/// Returns the sum of the results of `work` in all processes.
int in_processes(const std::function<int(int)>& work) {
  void* memory = ::mmap(nullptr, kProcesses * sizeof(int), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED, "mmap");
  int* counts = static_cast<int*>(memory);
  pid_t children[kProcesses];
  for (int p = 0; p < kProcesses; ++p) {
    children[p] = ::fork();
    must(children[p] >= 0, "fork");
    if (children[p] != 0) continue;
    counts[p] = work(p);
    ::_exit(0);
  }
  int sum = 0;
  for (int p = 0; p < kProcesses; ++p) {
    int status = 0;
    must(::waitpid(children[p], &status, 0) == children[p] && status == 0, "a process");
    sum += counts[p];
  }
  return sum;
}

/// All processes try the same; one may succeed in each round.
void one_wins(Observer& o) {
  const auto race = [&](const char* what, const std::function<long(int, const char*)>& attempt) {
    make_directory(what);
    const int won = in_processes([&](int p) {
      int mine = 0;
      for (int i = 0; i < kRounds; ++i)
        mine += attempt(p, (std::string(what) + "/" + std::to_string(i)).c_str()) == 0;
      return mine;
    });
    o.note(what, std::to_string(won));
    o.names(what, what);
  };
  const auto own = [](int p) { return "own" + std::to_string(p); };
  for (int p = 0; p < kProcesses; ++p) make_file(own(p).c_str());
  race("open", [](int, const char* path) {
    const int fd = ::open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return fd < 0 ? -1 : ::close(fd);
  });
  race("mkdir", [](int, const char* path) { return ::mkdir(path, 0700); });
  race("symlink", [](int, const char* path) { return ::symlink("x", path); });
  race("link", [&](int p, const char* path) { return ::link(own(p).c_str(), path); });
  race("rename", [&](int p, const char* path) {
    const std::string mine = "mine" + std::to_string(p);
    const int fd = ::open(mine.c_str(), O_RDWR | O_CREAT, 0600);
    must(fd >= 0 && ::close(fd) == 0, "open");
    return ::renameat2(AT_FDCWD, mine.c_str(), AT_FDCWD, path, RENAME_NOREPLACE);
  });
  for (const char* what : {"open", "mkdir"}) {
    const int removed = in_processes([&](int) {
      int mine = 0;
      for (int i = 0; i < kRounds; ++i) {
        const std::string path = std::string(what) + "/" + std::to_string(i);
        mine += (what[0] == 'o' ? ::unlink(path.c_str()) : ::rmdir(path.c_str())) == 0;
      }
      return mine;
    });
    o.note(std::string("removed of ") + what, std::to_string(removed));
    o.names(what, what);
  }
}

/// Each process has its own names in one directory.
void one_directory(Observer& o) {
  make_directory("d");
  in_processes([](int p) {
    for (int i = 0; i < kRounds; ++i) {
      const std::string path = "d/" + std::to_string(p) + "-" + std::to_string(i);
      make_file(path.c_str(), path);
      if (i % 2 == 0) must(::rename(path.c_str(), (path + "-renamed").c_str()) == 0, "rename");
      if (i % 3 == 0) must(::mkdir((path + "-d").c_str(), 0700) == 0, "mkdir");
      if (i % 5 == 1) must(::unlink((path + (i % 2 == 0 ? "-renamed" : "")).c_str()) == 0, "gone");
    }
    return 0;
  });
  o.names("names", "d");
  o.attributes("links", "d");
  o.content("one", "d/3-4-renamed");
}

/// A program opens a name that is replaced again and again. It finds either content, whole.
void replacing(Observer& o) {
  const std::size_t size = 20'000;
  make_file("f", std::string(size, 'a'));
  const int wrong = in_processes([&](int p) {
    int bad = 0;
    for (int i = 0; i < kRounds; ++i) {
      if (p % 2 == 0) {
        const std::string mine = "new" + std::to_string(p);
        make_file(mine.c_str(), std::string(size, static_cast<char>('b' + i % 20)));
        must(::rename(mine.c_str(), "f") == 0, "rename");
        continue;
      }
      const int fd = ::open("f", O_RDONLY);
      std::string data(size + 1, '\0');
      const ssize_t got = fd < 0 ? -1 : ::read(fd, data.data(), data.size());
      data.resize(size);
      bad += got != static_cast<ssize_t>(size) || data != std::string(size, data[0]);
      ::close(fd);
    }
    return bad;
  });
  o.note("missing or torn", std::to_string(wrong));
  o.names("names", ".");
}

/// Ranges of one file side by side, within pages and blocks.
void one_file(Observer& o) {
  constexpr std::size_t kLength = 777;
  make_file("f");
  in_processes([](int p) {
    const int fd = ::open("f", O_RDWR);
    const std::string data(kLength, static_cast<char>('A' + p));
    for (int i = 0; i < kRounds; ++i) {
      const auto offset = static_cast<off_t>((i * kProcesses + p) * kLength);
      must(::pwrite(fd, data.data(), kLength, offset) == kLength, "pwrite");
      if (i % 25 == p) must(::fsync(fd) == 0, "fsync");
    }
    return 0;
  });
  o.attributes("attributes", "f");
  o.content("content", "f");
}

}  // namespace

std::span<const Case> together_cases() {
  static constexpr Case kCases[] = {
      {"together_one_wins", one_wins},
      {"together_one_directory", one_directory},
      {"together_replacing", replacing},
      {"together_one_file", one_file},
  };
  return kCases;
}

}  // namespace s3oram::conformance
