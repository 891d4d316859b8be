// Rights of other users. The kernel decides them by the modes and owners that it is given.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

constexpr uid_t kOther = kUser + 1;
constexpr gid_t kSecond = kOtherGroup + 1;

void try_all(Observer& o, const char* who) {
  const std::string as = std::string(who) + " ";
  for (const char* path : {"f", "d"}) {
    const std::string what = as + path + " ";
    const bool directory = path[0] == 'd';
    ::close(o.file(what + "read", ::open(path, O_RDONLY)));
    if (!directory) ::close(o.file(what + "write", ::open(path, O_WRONLY)));
    for (const int how : {R_OK, W_OK, X_OK, R_OK | W_OK})
      o.call(what + "access " + std::to_string(how), ::access(path, how));
  }
  o.call(as + "truncate", ::truncate("f", 0));
  o.names(as + "list", "d");
  o.call(as + "look up", ::access("d/x", F_OK));
  o.call(as + "create", ::close(::open("d/new", O_RDWR | O_CREAT | O_EXCL, 0644)));
  o.call(as + "remove", ::unlink("d/new"));
  o.call(as + "mkdir", ::mkdir("d/new", 0755));
  o.call(as + "rmdir", ::rmdir("d/new"));
  o.call(as + "chdir", ::chdir("d"));
}

void classes(Observer& o) {
  for (const mode_t mode : {0u, 0400u, 0200u, 0100u, 0700u, 0040u, 0020u, 0010u, 0070u, 0004u,
                            0002u, 0001u, 0007u, 0644u, 0755u, 0077u}) {
    make_file("f", "x", mode);
    make_directory("d", 0700);
    make_file("d/x");
    must(::chown("f", kUser, kGroup) == 0 && ::chown("d", kUser, kGroup) == 0, "chown");
    must(::chmod("f", mode) == 0 && ::chmod("d", mode) == 0, "chmod");
    char text[16];
    std::snprintf(text, sizeof text, "%o ", mode);
    o.as_user(kUser, {kGroup}, [&] { try_all(o, (std::string(text) + "owner").c_str()); });
    o.as_user(kOther, {kGroup}, [&] { try_all(o, (std::string(text) + "group").c_str()); });
    o.as_user(kOther, {kOtherGroup, kGroup},
              [&] { try_all(o, (std::string(text) + "second group").c_str()); });
    o.as_user(kOther, {kOtherGroup}, [&] { try_all(o, (std::string(text) + "others").c_str()); });
    must(::unlink("f") == 0 && ::unlink("d/x") == 0 && ::rmdir("d") == 0, "removing");
  }
}

void changing(Observer& o) {
  const auto fresh = [] {
    make_file("f", "x", 0644);
    must(::setxattr("f", "trusted.t", "1", 1, 0) == 0, "setxattr");
    must(::chown("f", kUser, kGroup) == 0, "chown");
  };
  const auto try_change = [&](const std::string& who) {
    o.call(who + " chmod", ::chmod("f", 0666));
    o.call(who + " chown to another", ::chown("f", kOther, static_cast<gid_t>(-1)));
    o.call(who + " chown to itself", ::chown("f", ::getuid(), static_cast<gid_t>(-1)));
    o.call(who + " chgrp to a group of its own", ::chown("f", static_cast<uid_t>(-1), kSecond));
    o.call(who + " chgrp to a foreign group", ::chown("f", static_cast<uid_t>(-1), 1));
    const timespec past[2] = {{1, 1}, {2, 2}};
    o.call(who + " utimensat", ::utimensat(AT_FDCWD, "f", past, 0));
    o.call(who + " touch", ::utimensat(AT_FDCWD, "f", nullptr, 0));
    const timespec omit[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    o.call(who + " utimensat of nothing", ::utimensat(AT_FDCWD, "f", omit, 0));
    const timespec half[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    o.call(who + " utimensat of one", ::utimensat(AT_FDCWD, "f", half, 0));
    o.call(who + " setxattr", ::setxattr("f", "user.a", "b", 1, 0));
    o.call(who + " getxattr", ::getxattr("f", "user.a", nullptr, 0));
    o.call(who + " removexattr", ::removexattr("f", "user.a"));
    o.call(who + " setxattr trusted", ::setxattr("f", "trusted.a", "b", 1, 0));
    o.call(who + " getxattr trusted", ::getxattr("f", "trusted.a", nullptr, 0));
    o.call(who + " listxattr", ::listxattr("f", nullptr, 0));
    o.attributes(who + " after", "f");
  };
  fresh();
  o.as_user(kUser, {kGroup, kSecond}, [&] { try_change("owner"); });
  fresh();
  must(::chmod("f", 0666) == 0, "chmod");
  o.as_user(kOther, {kGroup, kSecond}, [&] { try_change("writer"); });
  must(::chmod("f", 0600) == 0, "chmod");
  o.as_user(kOther, {kGroup, kSecond}, [&] { try_change("stranger"); });
}

void sticky(Observer& o) {
  const auto fresh = [](mode_t mode) {
    make_directory("t", 0777);
    make_directory("u", 0777);
    must(::chmod("t", mode) == 0 && ::chown("t", kOther, kGroup) == 0, "chown");
    for (const char* name : {"t/mine", "t/theirs"}) {
      make_file(name, name, 0666);
      must(::chown(name, name[2] == 'm' ? kUser : 777, kGroup) == 0, "chown");
    }
    make_directory("t/dir", 0777);
    must(::chown("t/dir", 777, kGroup) == 0, "chown");
  };
  const auto clean = [] {
    for (const char* name :
         {"t/mine", "t/theirs", "t/x", "t/new", "t/moved", "u/out", "u/mine", "t/link"})
      ::unlink(name);
    for (const char* name : {"t/dir", "u/dir", "t", "u"}) ::rmdir(name);
  };
  for (const mode_t mode : {0777u, 01777u, 01755u}) {
    for (const uid_t user : {kUser, kOther}) {
      fresh(mode);
      char text[32];
      std::snprintf(text, sizeof text, "%o user %u ", mode, user);
      const std::string what = text;
      o.as_user(user, {kGroup}, [&] {
        make_file("u/mine", "u");
        o.call(what + "link", ::link("t/theirs", "t/link"));
        o.call(what + "rename of its own", ::rename("t/mine", "t/moved"));
        o.call(what + "rename of another's", ::rename("t/theirs", "t/x"));
        o.call(what + "rename over another's", ::rename("u/mine", "t/theirs"));
        o.call(what + "rename out", ::rename("t/theirs", "u/out"));
        o.call(what + "directory out", ::rename("t/dir", "u/dir"));
        o.call(what + "unlink of its own", ::unlink("t/moved"));
        o.call(what + "unlink of another's", ::unlink("t/theirs"));
        o.call(what + "rmdir of another's", ::rmdir("t/dir"));
        o.call(what + "create", ::close(::open("t/new", O_RDWR | O_CREAT, 0600)));
        o.call(what + "unlink of the new", ::unlink("t/new"));
      });
      clean();
    }
  }
}

void moving_directories(Observer& o) {
  make_directory("a", 0777);
  make_directory("b", 0777);
  make_directory("a/theirs", 0755);
  make_directory("a/mine", 0755);
  make_directory("a/open", 0777);
  must(::chown("a/mine", kUser, kGroup) == 0, "chown");
  o.as_user(kUser, {kGroup}, [&] {
    o.call("one that may not be written", ::rename("a/theirs", "b/theirs"));
    o.call("one in its place", ::rename("a/theirs", "a/other"));
    o.call("its own", ::rename("a/mine", "b/mine"));
    o.call("one that all may write", ::rename("a/open", "b/open"));
  });
  o.names("a", "a");
  o.names("b", "b");
}

void open_rights_stay(Observer& o) {
  make_file("f", "content", 0666);
  o.as_user(kUser, {kGroup}, [&] {
    const int fd = o.file("open", ::open("f", O_RDWR));
    o.file("create for reading only", ::open("/proc/self/cwd/n", O_RDWR | O_CREAT, 0400));
    o.call("write", ::write(fd, "C", 1));
    o.content("read", fd);
  });
  make_directory("d", 0777);
  o.as_user(kUser, {kGroup}, [&] {
    const int fd = o.file("a new file with no rights", ::open("d/n", O_RDWR | O_CREAT, 0));
    o.call("write", ::write(fd, "x", 1));
    o.call("ftruncate", ::ftruncate(fd, 100));
    o.call("fchmod", ::fchmod(fd, 0400));
    o.call("fsync", ::fsync(fd));
    o.call("write", ::write(fd, "x", 1));
    o.content("read", fd);
    o.file("again for writing", ::open("d/n", O_WRONLY));
    o.attributes("new", "d/n");
  });
}

}  // namespace

std::span<const Case> permission_cases() {
  static constexpr Case kCases[] = {
      {"permission_classes", classes},
      {"permission_changing", changing},
      {"permission_sticky", sticky},
      {"permission_moving_directories", moving_directories},
      {"permission_open_rights", open_rights_stay},
  };
  return kCases;
}

}  // namespace s3oram::conformance
