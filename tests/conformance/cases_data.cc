// Reading and writing: appending, vectors, copies, direct access, several descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

std::string pattern(std::size_t length) {
  std::string data(length, '\0');
  for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<char>(i * 7 + i / 251);
  return data;
}

void appending(Observer& o) {
  make_file("f", "start");
  const int fd = ::open("f", O_RDWR | O_APPEND), other = ::open("f", O_RDWR);
  o.call("write", ::write(fd, "-one", 4));
  o.call("position", ::lseek(fd, 0, SEEK_CUR));
  o.call("seek", ::lseek(fd, 0, SEEK_SET));
  o.call("write", ::write(fd, "-two", 4));
  o.call("grow by another", ::pwrite(other, "far", 3, 100));
  o.call("write", ::write(fd, "-three", 6));
  o.call("pwrite appends", ::pwrite(fd, "-four", 5, 0));
  o.call("cut by another", ::ftruncate(other, 5));
  o.call("write", ::write(fd, "-five", 5));
  o.content("content", "f");
  o.call("flags", ::fcntl(fd, F_SETFL, 0));
  o.call("pwrite", ::pwrite(fd, "S", 1, 0));
  o.content("content", "f");
}

/// Several processes append records. None is lost, torn or overwritten.
void appending_together(Observer& o) {
  constexpr int kProcesses = 6, kRecords = 200, kLength = 37;
  make_file("f");
  pid_t children[kProcesses];
  for (int p = 0; p < kProcesses; ++p) {
    children[p] = ::fork();
    must(children[p] >= 0, "fork");
    if (children[p] != 0) continue;
    const int fd = ::open("f", O_WRONLY | O_APPEND);
    const std::string record = std::string(kLength - 1, static_cast<char>('a' + p)) + "\n";
    for (int i = 0; i < kRecords; ++i)
      must(::write(fd, record.data(), record.size()) == kLength, "append");
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    must(::waitpid(child, &status, 0) == child && status == 0, "an appender");
  }
  const int fd = ::open("f", O_RDONLY);
  std::map<char, int> count;
  bool whole = true;
  char record[kLength];
  while (::read(fd, record, kLength) == kLength) {
    for (int i = 0; i < kLength - 1; ++i) whole = whole && record[i] == record[0];
    ++count[record[0]];
  }
  o.check("every record is whole", whole);
  for (const auto& [letter, records] : count)
    o.note(std::string(1, letter), std::to_string(records));
  o.attributes("attributes", "f");
}

void vectors(Observer& o) {
  make_file("f");
  const int fd = ::open("f", O_RDWR);
  std::string one = "one", empty, three = "three", big = pattern(200'000);
  const iovec out[] = {
      {one.data(), 3}, {empty.data(), 0}, {three.data(), 5}, {big.data(), big.size()}};
  o.call("writev", ::writev(fd, out, 4));
  o.content("content", "f");
  char a[2], b[100];
  const iovec in[] = {{a, 2}, {b, 100}};
  o.call("preadv", ::preadv(fd, in, 2, 1));
  o.note("bytes", escaped({a, 2}) + " " + escaped({b, 6}));
  o.call("pwritev", ::pwritev(fd, out, 3, 50));
  o.call("pwritev2 with append", ::pwritev2(fd, out, 1, 0, RWF_APPEND));
  o.call("pwritev2 with dsync", ::pwritev2(fd, out, 1, 5, RWF_DSYNC));
  void* const nowhere = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  o.call("write from nowhere", ::write(fd, nowhere, 10));
  o.call("read to nowhere", ::pread(fd, nowhere, 10, 0));
  o.content("content", "f");
}

void copying(Observer& o) {
  const std::string data = pattern(400'000);
  make_file("f", data);
  make_file("g");
  const int from = ::open("f", O_RDWR), to = ::open("g", O_RDWR);
  const auto copy_between = [&](const char* what, int a, off_t at, int b, off_t target,
                                std::size_t length, unsigned flags = 0) {
    std::size_t done = 0;
    while (done < length) {
      const ssize_t n = ::copy_file_range(a, &at, b, &target, length - done, flags);
      if (n < 0) return o.note(what, error_name(errno));
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    o.note(what, std::to_string(done));
  };
  copy_between("all", from, 0, to, 0, 400'000);
  o.content("content", "g");
  copy_between("to a distance", from, 100, to, 500'000, 150'000);
  o.content("content", "g");
  copy_between("over the end", from, 399'990, to, 10, 100);
  copy_between("behind the end", from, 400'000, to, 10, 100);
  copy_between("within the file", from, 0, from, 200'000, 100'000);
  o.content("content", "f");
  copy_between("onto itself", from, 0, from, 50, 100);
  copy_between("with a flag", from, 0, to, 0, 10, 1);
  const int reader = ::open("g", O_RDONLY), appender = ::open("g", O_WRONLY | O_APPEND);
  copy_between("to a reader", from, 0, reader, 0, 10);
  copy_between("to an appender", from, 0, appender, 0, 10);
  copy_between("from a writer", appender, 0, from, 0, 10);
  make_directory("d");
  copy_between("from a directory", ::open("d", O_RDONLY), 0, to, 0, 10);
  make_file("h");
  const int sent = ::open("h", O_RDWR);
  off_t at = 5;
  o.call("sendfile", ::sendfile(sent, from, &at, 1000));
  o.content("content", "h");
}

void direct(Observer& o) {
  constexpr std::size_t kPage = 4096;
  alignas(4096) static char pages[4 * kPage];
  make_file("f");
  const int fd = o.file("open", ::open("f", O_RDWR | O_DIRECT));
  const int cached = ::open("f", O_RDWR);
  std::memset(pages, 'd', sizeof pages);
  o.call("write", ::pwrite(fd, pages, sizeof pages, 0));
  o.content("cached", cached);
  o.call("cached write", ::pwrite(cached, "cached", 6, kPage));
  o.call("read", ::pread(fd, pages, 2 * kPage, 0));
  o.note("bytes", escaped({pages + kPage - 2, 10}));
  std::memset(pages, 'e', sizeof pages);
  o.call("write over cached pages", ::pwrite(fd, pages, kPage, kPage));
  o.content("cached", cached);
  o.call("read at the end", ::pread(fd, pages, kPage, sizeof pages));
  o.call("read over the end", ::pread(fd, pages, 2 * kPage, 3 * kPage));
  o.call("write behind the end", ::pwrite(fd, pages, kPage, 100 * kPage));
  o.attributes("attributes", "f");
  o.content("cached", cached);
  o.call("cut to an odd size", ::ftruncate(fd, 3 * kPage + 10));
  o.call("read the odd end", ::pread(fd, pages, 2 * kPage, 2 * kPage));
}

void many_descriptors(Observer& o) {
  make_file("f");
  const int one = ::open("f", O_RDWR), two = ::open("f", O_RDWR), same = ::dup(one);
  o.call("write", ::write(one, "first", 5));
  o.content("seen by the other", two);
  o.call("write by the other", ::write(two, "F", 1));
  o.call("write by the copy", ::write(same, "+", 1));
  o.call("position", ::lseek(one, 0, SEEK_CUR));
  o.content("content", "f");
  o.call("cut by path", ::truncate("f", 2));
  o.content("seen", one);
  o.in_process([&] {
    must(::write(one, "child", 5) == 5, "write");
    ::fsync(one);
  });
  o.call("position after a child", ::lseek(one, 0, SEEK_CUR));
  o.content("content", two);
  for (const int fd : {one, two, same}) o.call("close", ::close(fd));
  o.content("after all are closed", "f");
}

void synchronous(Observer& o) {
  for (const int flag : {O_SYNC, O_DSYNC, O_SYNC | O_APPEND}) {
    const int fd = o.file("open", ::open("f", O_RDWR | O_CREAT | flag, 0644));
    o.call("write", ::write(fd, "synchronous", 11));
    o.call("write", ::write(fd, pattern(300'000).data(), 300'000));
    o.content("content", "f");
    o.call("sync_file_range", ::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
    o.call("fdatasync", ::fdatasync(fd));
    ::close(fd);
  }
  o.call("advise", ::posix_fadvise(::open("f", O_RDONLY), 0, 0, POSIX_FADV_DONTNEED));
  o.content("content", "f");
}

}  // namespace

std::span<const Case> data_cases() {
  static constexpr Case kCases[] = {
      {"data_appending", appending},     {"data_appending_together", appending_together},
      {"data_vectors", vectors},         {"data_copying", copying},
      {"data_direct", direct},           {"data_many_descriptors", many_descriptors},
      {"data_synchronous", synchronous},
  };
  return kCases;
}

}  // namespace s3oram::conformance
