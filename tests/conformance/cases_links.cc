// Hard and symbolic links.
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void hard(Observer& o) {
  make_file("f", "content");
  make_directory("d");
  must(::symlink("f", "l") == 0, "symlink");
  o.call("link", ::link("f", "d/g"));
  o.attributes("one", "f");
  o.attributes("other", "d/g");
  o.call("onto an old name", ::link("f", "d/g"));
  o.call("onto a directory", ::link("f", "d"));
  o.call("of a directory", ::link("d", "e"));
  o.call("of nothing", ::link("m", "n"));
  o.call("into nothing", ::link("f", "n/x"));
  o.call("below a file", ::link("f", "f/x"));
  o.call("of a link", ::link("l", "k"));
  o.attributes("a link", "k");
  o.call("of a followed link", ::linkat(AT_FDCWD, "l", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
  o.attributes("followed", "followed");
  make_file("f", "changed through one");
  o.content("content of the other", "d/g");
  o.call("chmod", ::chmod("d/g", 0600));
  o.attributes("mode of the one", "f");
  o.call("unlink", ::unlink("f"));
  o.attributes("one less", "d/g");
  o.call("unlink", ::unlink("followed"));
  o.attributes("one less", "d/g");
  struct stat a {
  }, b{};
  must(::lstat("l", &a) == 0 && ::lstat("k", &b) == 0, "stat");
  o.check("the links are one inode", a.st_ino == b.st_ino);
}

void many_links(Observer& o) {
  make_file("f");
  constexpr int kLinks = 300;
  for (int i = 0; i < kLinks; ++i) must(::link("f", std::to_string(i).c_str()) == 0, "link");
  o.attributes("many", "f");
  for (int i = 0; i < kLinks; i += 2) must(::unlink(std::to_string(i).c_str()) == 0, "unlink");
  o.attributes("half", "f");
}

void unlinked(Observer& o) {
  make_file("f", "content");
  const int fd = ::open("f", O_RDWR);
  o.call("unlink", ::unlink("f"));
  struct stat found {};
  o.call("fstat", ::fstat(fd, &found));
  o.attributes("unlinked", found);
  o.content("content", fd);
  o.call("write", ::pwrite(fd, "more", 4, 100'000));
  o.call("ftruncate", ::ftruncate(fd, 200'000));
  o.call("fsync", ::fsync(fd));
  o.content("grown", fd);
  o.call("fchmod", ::fchmod(fd, 0600));
  o.call("fchown", ::fchown(fd, 5, 6));
  o.call("fsetxattr", ::fsetxattr(fd, "user.x", "y", 1, 0));
  const timespec times[2] = {{1, 2}, {3, 4}};
  o.call("futimens", ::futimens(fd, times));
  must(::fstat(fd, &found) == 0, "fstat");
  o.attributes("after", found);
  o.check("time", found.st_mtim.tv_sec == 3 && found.st_mtim.tv_nsec == 4);
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  o.call("link again", ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, "again", AT_SYMLINK_FOLLOW));
  o.file("open through proc", ::open(self.c_str(), O_RDONLY));
  make_file("f", "new");
  o.content("new one of that name", "f");
  o.content("old one", fd);
  o.names("names", ".");
}

void symbolic(Observer& o) {
  make_file("f", "content");
  make_directory("d");
  char target[16];
  o.call("to a file", ::symlink("f", "l"));
  o.call("again", ::symlink("f", "l"));
  o.call("to itself", ::symlink("loop", "loop"));
  o.call("empty target", ::symlink("", "e"));
  o.call("onto a directory", ::symlink("f", "d"));
  o.call("below nothing", ::symlink("f", "n/x"));
  o.attributes("link", "l");
  o.content("through it", "l");
  o.content("loop", "loop");
  o.call("readlink", ::readlink("l", target, sizeof target));
  o.call("readlink of a file", ::readlink("f", target, sizeof target));
  o.call("readlink of a directory", ::readlink("d", target, sizeof target));
  o.call("symlink to a long path", ::symlink("a/long/target/of/a/link", "long"));
  o.call("readlink into little room", ::readlink("long", target, 5));
  o.note("what came", std::string(target, 5));
  o.call("readlink into none", ::readlink("long", target, 0));
  o.call("chmod through it", ::chmod("l", 0601));
  o.attributes("file", "f");
  o.call("chmod of the link", ::fchmodat(AT_FDCWD, "l", 0600, AT_SYMLINK_NOFOLLOW));
  o.call("lchown", ::lchown("l", 7, 8));
  o.attributes("link", "l");
  o.attributes("file", "f");
  o.call("truncate through it", ::truncate("l", 3));
  o.content("content", "f");
  o.call("chown through it", ::chown("l", 9, 10));
  o.attributes("file", "f");
  o.call("unlink", ::unlink("l"));
  o.attributes("file stays", "f");
  o.names("names", ".");
}

void chains(Observer& o) {
  make_file("f", "end");
  std::string last = "f";
  for (int i = 1; i <= 45; ++i) {
    const std::string name = std::to_string(i);
    must(::symlink(last.c_str(), name.c_str()) == 0, "symlink");
    last = name;
  }
  o.content("one", "1");
  o.content("forty", "40");
  o.content("forty-one", "41");
  must(::symlink("b", "a") == 0 && ::symlink("a", "b") == 0, "symlink");
  o.file("two that lead to each other", ::open("a", O_RDONLY));
  o.call("stat", ::access("a", F_OK));
  o.call("unlink", ::unlink("a"));
  must(::symlink("d/../f", "dots") == 0, "symlink");
  o.content("through a missing directory", "dots");
  make_directory("d");
  o.content("through a directory", "dots");
}

void lengths(Observer& o) {
  for (const std::size_t length : {1, 59, 60, 61, 255, 256, 1000, 4094}) {
    const std::string target(length, 't'), name = "l" + std::to_string(length);
    o.call("symlink of " + name, ::symlink(target.c_str(), name.c_str()));
    o.attributes(name, name.c_str());
    char buffer[5000];
    const ssize_t got = ::readlink(name.c_str(), buffer, sizeof buffer);
    o.call("readlink", got);
    o.check("the same", got >= 0 && std::string(buffer, static_cast<std::size_t>(got)) == target);
  }
  o.call("too long", ::symlink(std::string(PATH_MAX, 't').c_str(), "long"));
  o.call("longer", ::symlink(std::string(PATH_MAX + 1, 't').c_str(), "long"));
}

}  // namespace

std::span<const Case> link_cases() {
  static constexpr Case kCases[] = {
      {"link_hard", hard},         {"link_many", many_links}, {"link_unlinked", unlinked},
      {"link_symbolic", symbolic}, {"link_chains", chains},   {"link_lengths", lengths},
  };
  return kCases;
}

}  // namespace s3oram::conformance
