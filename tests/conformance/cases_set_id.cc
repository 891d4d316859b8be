// The set-user-id and set-group-id bits: what clears them, and how directories pass them on.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void each(Observer& o, const char* what, const std::function<void()>& work,
          const std::vector<mode_t>& modes = {06777, 06776, 02677, 04666}) {
  for (const mode_t mode : modes) {
    make_file("f", "content");
    must(::chown("f", kUser, kGroup) == 0 && ::chmod("f", mode) == 0, "chown");
    char text[80];
    std::snprintf(text, sizeof text, "%o, %s, as ", mode, what);
    o.as_user(kUser, {kGroup}, work);
    o.attributes(text + std::string("owner"), "f");
    must(::chmod("f", mode) == 0, "chmod");
    o.as_user(kUser + 1, {kOtherGroup}, work);
    o.attributes(text + std::string("another"), "f");
    must(::chmod("f", mode) == 0, "chmod");
    o.in_process(work);
    o.attributes(text + std::string("root"), "f");
    must(::unlink("f") == 0, "unlink");
  }
}

void clearing(Observer& o) {
  each(o, "write", [] {
    const int fd = ::open("f", O_WRONLY);
    must(::write(fd, "x", 1) == 1 && ::close(fd) == 0, "write");
  });
  each(o, "write nothing", [] {
    const int fd = ::open("f", O_WRONLY);
    must(::write(fd, "x", 0) == 0 && ::close(fd) == 0, "write");
  });
  each(o, "append", [] {
    const int fd = ::open("f", O_WRONLY | O_APPEND);
    must(::write(fd, "x", 1) == 1 && ::fsync(fd) == 0, "write");
  });
  each(o, "truncate", [] { must(::truncate("f", 3) == 0, "truncate"); });
  each(o, "ftruncate", [] {
    const int fd = ::open("f", O_RDWR);
    must(::ftruncate(fd, 10'000) == 0, "ftruncate");
  });
  each(o, "open with trunc", [] { must(::close(::open("f", O_WRONLY | O_TRUNC)) == 0, "open"); });
  each(o, "open for writing", [] { must(::close(::open("f", O_RDWR)) == 0, "open"); });
  each(o, "fallocate", [] {
    const int fd = ::open("f", O_RDWR);
    must(::fallocate(fd, 0, 0, 10'000) == 0, "fallocate");
  });
  each(o, "punch", [] {
    const int fd = ::open("f", O_RDWR);
    must(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4) == 0, "punch");
  });
  each(o, "direct write", [] {
    const int fd = ::open("f", O_WRONLY | O_DIRECT);
    alignas(4096) static const char page[4096] = {};
    must(fd < 0 || ::write(fd, page, sizeof page) == sizeof page, "write");
  });
}

/// On such a file the bit gives nobody's rights; it once asked for mandatory locks.
void without_group_execution(Observer& o) {
  each(o, "write",
       [] {
         const int fd = ::open("f", O_WRONLY);
         must(::write(fd, "x", 1) == 1 && ::close(fd) == 0, "write");
       },
       {02666});
  each(o, "truncate", [] { must(::truncate("f", 3) == 0, "truncate"); }, {02666});
}

void chown_clears(Observer& o) {
  for (const mode_t mode : {06777u, 06767u, 02666u, 04666u}) {
    char text[32];
    std::snprintf(text, sizeof text, "%o ", mode);
    const std::string what = text;
    make_file("f");
    make_directory("d");
    must(::chown("f", kUser, kGroup) == 0, "chown");
    const auto after = [&](const char* by, long result) {
      o.call(what + by, result);
      o.attributes(what + by, "f");
      must(::chmod("f", mode) == 0, "chmod");
    };
    must(::chmod("f", mode) == 0 && ::chmod("d", mode) == 0, "chmod");
    after("root, owner", ::chown("f", kUser + 1, static_cast<gid_t>(-1)));
    after("root, group", ::chown("f", static_cast<uid_t>(-1), kOtherGroup));
    after("root, the same", ::chown("f", kUser, kOtherGroup));
    after("root, nothing", ::chown("f", static_cast<uid_t>(-1), static_cast<gid_t>(-1)));
    o.as_user(kUser, {kGroup, kOtherGroup}, [&] {
      o.call(what + "user, group", ::chown("f", static_cast<uid_t>(-1), kGroup));
      o.attributes(what + "user, group", "f");
    });
    o.call(what + "directory", ::chown("d", kUser, kGroup));
    o.attributes(what + "directory", "d");
    must(::unlink("f") == 0 && ::rmdir("d") == 0, "removing");
  }
}

void chmod_rights(Observer& o) {
  make_file("f");
  make_directory("d");
  must(::chown("f", kUser, kOtherGroup) == 0 && ::chown("d", kUser, kOtherGroup) == 0, "chown");
  o.as_user(kUser, {kGroup}, [&] {  // not in the file's group
    for (const mode_t mode : {07777u, 02755u, 04755u, 01644u, 02644u}) {
      o.call("chmod", ::chmod("f", mode));
      o.attributes("file", "f");
      o.call("chmod", ::chmod("d", mode));
      o.attributes("directory", "d");
    }
  });
}

void group_of_directory(Observer& o) {
  make_directory("d");
  must(::chown("d", 0, kGroup) == 0 && ::chmod("d", 02777) == 0, "chown");
  const auto make_all = [&](const char* who) {
    const std::string prefix = std::string("d/") + who;
    ::umask(0);
    o.call("file", ::close(::open((prefix + "f").c_str(), O_RDWR | O_CREAT, 02755)));
    o.call("plain file", ::close(::open((prefix + "g").c_str(), O_RDWR | O_CREAT, 0644)));
    o.call("directory", ::mkdir((prefix + "d").c_str(), 0755));
    o.call("fifo", ::mkfifo((prefix + "p").c_str(), 0644));
    o.call("mknod", ::mknod((prefix + "n").c_str(), S_IFREG | 02770, 0));
    o.call("symlink", ::symlink("x", (prefix + "l").c_str()));
    for (const char* kind : {"f", "g", "d", "p", "n", "l"})
      o.attributes(std::string(who) + kind, (prefix + kind).c_str());
    o.call("below", ::mkdir((prefix + "d/e").c_str(), 0700));
    o.attributes("below", (prefix + "d/e").c_str());
  };
  o.in_process([&] { make_all("root-"); });
  o.as_user(kUser, {kGroup}, [&] { make_all("member-"); });
  o.as_user(kUser, {kOtherGroup}, [&] { make_all("stranger-"); });
  o.as_user(kUser, {kOtherGroup, kGroup}, [&] { make_all("second-"); });
  make_file("moved");
  o.call("moved in", ::rename("moved", "d/moved"));
  o.attributes("keeps its group", "d/moved");
}

}  // namespace

std::span<const Case> set_id_cases() {
  static constexpr Case kCases[] = {
      {"set_id_clearing", clearing},
      {"set_id_without_group_execution", without_group_execution},
      {"set_id_chown", chown_clears},
      {"set_id_chmod", chmod_rights},
      {"set_id_directory", group_of_directory},
  };
  return kCases;
}

}  // namespace s3oram::conformance
