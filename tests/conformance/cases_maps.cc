// Memory maps.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

constexpr std::size_t kPage = 4096;

char* map_file(int fd, std::size_t length, int protection, int flags, off_t offset = 0) {
  void* map = ::mmap(nullptr, length, protection, flags, fd, offset);
  must(map != MAP_FAILED, "mmap");
  return static_cast<char*>(map);
}

void shared(Observer& o) {
  make_file("f", std::string(3 * kPage, 'f'));
  const int fd = ::open("f", O_RDWR);
  char* map = map_file(fd, 3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  char* again = map_file(fd, kPage, PROT_READ, MAP_SHARED, kPage);
  std::memcpy(map + kPage + 5, "mapped", 6);
  o.note("another map", std::string(again + 5, 6));
  o.content("read", fd);
  o.call("write", ::pwrite(fd, "written", 7, 2 * kPage));
  o.note("seen in the map", std::string(map + 2 * kPage, 8));
  o.call("msync", ::msync(map, 3 * kPage, MS_SYNC));
  o.call("msync later", ::msync(map, 3 * kPage, MS_ASYNC));
  o.call("close", ::close(fd));
  std::memcpy(map, "closed", 6);
  o.call("munmap", ::munmap(map, 3 * kPage));
  o.content("content", "f");
  o.call("msync of nothing", ::msync(map, kPage, MS_SYNC));
}

void private_map(Observer& o) {
  make_file("f", std::string(2 * kPage, 'f'));
  const int fd = ::open("f", O_RDONLY);
  char* map = map_file(fd, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  std::memcpy(map, "mine", 4);
  o.content("file", "f");
  o.note("map", std::string(map, 6));
  make_file("g", "x");
  const int out = ::open("f", O_WRONLY);
  must(::pwrite(out, "new", 3, kPage) == 3, "write");
  o.note("a page not yet copied", std::string(map + kPage, 4));
}

void and_truncate(Observer& o) {
  make_file("f", std::string(2 * kPage, 'f'));
  const int fd = ::open("f", O_RDWR);
  char* map = map_file(fd, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  o.call("cut", ::ftruncate(fd, 100));
  o.check("zero behind the end", map[100] == 0 && map[kPage - 1] == 0 && map[99] == 'f');
  o.call("msync", ::msync(map, kPage, MS_SYNC));
  o.attributes("size", "f");
  o.call("grow", ::ftruncate(fd, 2 * kPage));
  o.content("content", fd);
  map[kPage] = 'y';
  o.call("punch", ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage));
  o.check("punched in the map", map[0] == 0 && map[99] == 0);
  o.check("the rest stays", map[kPage] == 'y');
  o.content("content", fd);
}

void of_holes(Observer& o) {
  make_file("f");
  const int fd = ::open("f", O_RDWR);
  constexpr std::size_t kSize = 1'000'000;
  must(::ftruncate(fd, kSize) == 0, "ftruncate");
  char* map = map_file(fd, kSize, PROT_READ | PROT_WRITE, MAP_SHARED);
  o.check("zero", map[0] == 0 && map[kSize - 1] == 0);
  for (std::size_t at = 17; at < kSize; at += 100'003) map[at] = 'h';
  o.content("read", fd);
  o.call("fsync", ::fsync(fd));
  o.call("munmap", ::munmap(map, kSize));
  o.call("advise", ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
  o.content("content", fd);
}

void of_unlinked(Observer& o) {
  make_file("f", std::string(kPage, 'f'));
  const int fd = ::open("f", O_RDWR);
  char* map = map_file(fd, kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  o.call("unlink", ::unlink("f"));
  o.call("close", ::close(fd));
  std::memcpy(map, "gone", 4);
  o.call("msync", ::msync(map, kPage, MS_SYNC));
  o.note("map", std::string(map, 6));
}

void between_processes(Observer& o) {
  make_file("f", std::string(kPage, 'f'));
  o.in_process([] {
    const int fd = ::open("f", O_RDWR);
    std::memcpy(map_file(fd, kPage, PROT_READ | PROT_WRITE, MAP_SHARED), "child", 5);
  });
  o.content("content", "f");
}

void executed(Observer& o) {
  make_file("script", "#!/bin/sh\nexit 7\n", 0755);
  o.in_process([&] {
    ::execl("./script", "script", nullptr);
    o.note("execl", error_name(errno));
  });
  must(::chmod("script", 0644) == 0, "chmod");
  o.in_process([&] {
    ::execl("./script", "script", nullptr);
    o.note("without the right", error_name(errno));
  });
}

}  // namespace

std::span<const Case> map_cases() {
  static constexpr Case kCases[] = {
      {"map_shared", shared},
      {"map_private", private_map},
      {"map_and_truncate", and_truncate},
      {"map_of_holes", of_holes},
      {"map_unlinked", of_unlinked},
      {"map_between_processes", between_processes},
      {"map_executed", executed},
  };
  return kCases;
}

}  // namespace s3oram::conformance
