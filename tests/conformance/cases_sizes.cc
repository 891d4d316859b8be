// Sizes: truncate, holes, fallocate, and the largest offsets.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void truncating(Observer& o) {
  make_file("f", std::string(10'000, 'x'));
  make_directory("d");
  must(::mkfifo("p", 0600) == 0, "mkfifo");
  for (const long size : {20'000L, 5L, 5L, 0L, 1L, 4096L, 4095L, 1'000'003L, 131'072L, 131'071L}) {
    o.call("truncate to " + std::to_string(size), ::truncate("f", size));
    o.attributes("attributes", "f");
    o.content("content", "f");
  }
  const int fd = ::open("f", O_RDWR);
  must(::pwrite(fd, "end", 3, 131'068) == 3, "write");
  for (const long size : {131'069L, 140'000L, 3L, 70'000L}) {
    o.call("ftruncate to " + std::to_string(size), ::ftruncate(fd, size));
    o.content("content", fd);
  }
  o.call("negative", ::truncate("f", -1));
  o.call("ftruncate negative", ::ftruncate(fd, -1));
  o.call("directory", ::truncate("d", 0));
  o.call("fifo", ::truncate("p", 0));
  o.call("missing", ::truncate("m", 0));
  o.call("below a file", ::truncate("f/x", 0));
  o.attributes("attributes", "f");
}

void behind_the_end(Observer& o) {
  make_file("f", "start");
  const int fd = ::open("f", O_RDWR);
  char bytes[10] = {};
  o.call("read at the end", ::pread(fd, bytes, 10, 5));
  o.call("read behind it", ::pread(fd, bytes, 10, 1'000'000));
  o.call("read over it", ::pread(fd, bytes, 10, 3));
  o.call("write behind it", ::pwrite(fd, "end", 3, 300'000));
  o.attributes("attributes", "f");
  o.content("content", fd);
  o.call("write of nothing behind it", ::pwrite(fd, "", 0, 500'000));
  o.attributes("attributes", "f");
  // The bytes that were cut off do not come back.
  o.call("cut", ::ftruncate(fd, 299'999));
  o.call("grow", ::ftruncate(fd, 300'010));
  o.content("content", fd);
}

void holes(Observer& o) {
  constexpr long kMany = 1'000'000, kEnd = 8'000'000;
  make_file("f");
  const int fd = ::open("f", O_RDWR);
  o.call("seek for data in an empty file", ::lseek(fd, 0, SEEK_DATA));
  o.call("seek for a hole in an empty file", ::lseek(fd, 0, SEEK_HOLE));
  must(::ftruncate(fd, kEnd) == 0, "ftruncate");
  must(::pwrite(fd, "data", 4, 4 * kMany) == 4, "write");
  o.call("seek behind the end", ::lseek(fd, kEnd, SEEK_DATA));
  o.call("seek behind the end", ::lseek(fd, kEnd, SEEK_HOLE));
  o.call("seek before the start", ::lseek(fd, -1, SEEK_DATA));
  // File systems may report more than these bytes as data, but never less.
  for (const bool synced : {false, true}) {
    if (synced) must(::fsync(fd) == 0, "fsync");
    const long data = ::lseek(fd, 0, SEEK_DATA);
    o.check("data starts no later than it does", data >= 0 && data <= 4 * kMany);
    o.call("from the data itself", ::lseek(fd, 4 * kMany, SEEK_DATA));
    o.check("no hole in it", ::lseek(fd, 4 * kMany, SEEK_HOLE) >= 4 * kMany + 4);
    const long hole = ::lseek(fd, 0, SEEK_HOLE);
    o.check("a hole is somewhere", hole >= 0 && hole <= kEnd);
    o.check("it is no data", hole == kEnd || ::lseek(fd, hole, SEEK_DATA) != hole);
    struct stat found {};
    must(::fstat(fd, &found) == 0, "fstat");
    if (synced) o.check("it takes less than its size", found.st_blocks * 512 < kEnd / 2);
    if (synced) o.check("it takes something", found.st_blocks > 0);
  }
}

void allocating(Observer& o) {
  make_file("f", "0123456789");
  make_directory("d");
  const int fd = ::open("f", O_RDWR);
  const auto allocate = [&](const char* what, int mode, long offset, long length) {
    o.call(what, ::fallocate(fd, mode, offset, length));
    o.attributes("attributes", "f");
    o.content("content", fd);
  };
  allocate("more", 0, 0, 20);
  allocate("less", 0, 5, 5);
  allocate("keep the size", FALLOC_FL_KEEP_SIZE, 0, 100'000);
  allocate("far away", 0, 100'000, 50'000);
  allocate("punch a bit", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3);
  allocate("punch over the end", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8, 1'000'000);
  allocate("punch behind the end", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 900'000, 1);
  o.call("punch without keep", ::fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 1));
  o.call("nothing", ::fallocate(fd, 0, 0, 0));
  o.call("negative offset", ::fallocate(fd, 0, -1, 1));
  o.call("negative length", ::fallocate(fd, 0, 0, -1));
  o.call("beyond all", ::fallocate(fd, 0, LONG_MAX, 10));
  o.call("unknown mode", ::fallocate(fd, 1 << 20, 0, 1));
  o.call("punch and zero",
         ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 1));
  o.call("posix_fallocate", ::posix_fallocate(fd, 0, 200'000));
  o.attributes("attributes", "f");
  o.call("directory", ::fallocate(::open("d", O_RDONLY), 0, 0, 1));
  must(::mkfifo("p", 0600) == 0, "mkfifo");
  o.call("fifo", ::fallocate(::open("p", O_RDWR | O_NONBLOCK), 0, 0, 1));
}

void punching(Observer& o) {
  constexpr long kSize = 1'500'000;
  std::string data(kSize, '\0');
  for (long i = 0; i < kSize; ++i) data[static_cast<std::size_t>(i)] = static_cast<char>(i % 251);
  make_file("f", data);
  const int fd = ::open("f", O_RDWR);
  const auto punch = [&](long offset, long length) {
    o.call("punch", ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length));
    o.content("content", fd);
  };
  punch(100, 5000);
  punch(131'072, 262'144);
  punch(kSize - 10, 100);
  must(::fsync(fd) == 0, "fsync");
  punch(600'000, 300'001);
  o.call("write into it", ::pwrite(fd, "here", 4, 700'000));
  o.content("content", fd);
  punch(0, kSize);
  o.attributes("attributes", "f");
  must(::fsync(fd) == 0, "fsync");
  struct stat found {};
  must(::fstat(fd, &found) == 0, "fstat");
  o.check("takes next to nothing", found.st_blocks * 512 < 10'000);
}

void large_offsets(Observer& o) {
  make_file("f");
  const int fd = ::open("f", O_RDWR);
  for (const long offset : {(1L << 31) - 2, (1L << 32) - 2, 1L << 40, (1L << 43) + 12'345}) {
    const std::string what = std::to_string(offset) + " ";
    char bytes[8] = {};
    o.call(what + "write", ::pwrite(fd, "abcd", 4, offset));
    o.call(what + "read", ::pread(fd, bytes, 8, offset - 2));
    o.note(what + "bytes", escaped({bytes, 8}));
    o.attributes(what, "f");
    o.call(what + "fsync", ::fsync(fd));
    o.call(what + "lseek", ::lseek(fd, 0, SEEK_END));
  }
  o.call("cut", ::ftruncate(fd, (1L << 32) - 1));
  char byte = 0;
  o.call("read the last", ::pread(fd, &byte, 1, (1L << 32) - 2));
  o.note("byte", escaped({&byte, 1}));
  o.call("grow", ::ftruncate(fd, 1L << 43));
  o.call("read a hole", ::pread(fd, &byte, 1, (1L << 42)));
  o.call("write at the end of all numbers", ::pwrite(fd, "abcd", 4, LONG_MAX - 2));
  o.call("write before the start", ::pwrite(fd, "x", 1, -1));
  o.call("lseek beyond all", ::lseek(fd, LONG_MAX, SEEK_CUR) < 0 ? -1 : 0);
  o.call("to nothing", ::ftruncate(fd, 0));
}

void limited(Observer& o) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};
  make_file("f");
  const int fd = ::open("f", O_RDWR);
  must(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  const std::string data(600, 'x');
  o.call("below the limit", ::write(fd, data.data(), data.size()));
  o.call("over the limit", ::write(fd, data.data(), data.size()));
  o.call("at the limit", ::write(fd, data.data(), data.size()));
  o.call("truncate over it", ::ftruncate(fd, 1001));
  o.call("truncate to it", ::ftruncate(fd, 1000));
  o.call("fallocate over it", ::fallocate(fd, 0, 0, 2000));
  o.attributes("attributes", "f");
}

}  // namespace

std::span<const Case> size_cases() {
  static constexpr Case kCases[] = {
      {"size_truncating", truncating}, {"size_behind_the_end", behind_the_end},
      {"size_holes", holes},           {"size_allocating", allocating},
      {"size_punching", punching},     {"size_large_offsets", large_offsets},
      {"size_limited", limited},
  };
  return kCases;
}

}  // namespace s3oram::conformance
