// Fifos, sockets and device nodes.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void fifos(Observer& o) {
  o.call("mkfifo", ::mkfifo("p", 0640));
  o.call("again", ::mkfifo("p", 0640));
  o.attributes("attributes", "p");
  o.file("open for writing, nobody reads", ::open("p", O_WRONLY | O_NONBLOCK));
  const int in = o.file("open for reading", ::open("p", O_RDONLY | O_NONBLOCK));
  const int out = o.file("open for writing", ::open("p", O_WRONLY | O_NONBLOCK));
  char bytes[8] = {};
  o.call("read of nothing", ::read(in, bytes, 8));
  o.call("write", ::write(out, "through", 7));
  o.call("read", ::read(in, bytes, 8));
  o.note("bytes", std::string(bytes, 7));
  o.call("lseek", ::lseek(in, 0, SEEK_SET));
  o.call("fsync", ::fsync(in));
  o.call("link", ::link("p", "q"));
  o.call("unlink", ::unlink("p"));
  o.call("write after that", ::write(out, "x", 1));
  o.attributes("other name", "q");
  o.call("chmod", ::chmod("q", 0600));
  o.call("chown", ::chown("q", 3, 4));
  o.attributes("changed", "q");
}

void sockets(Observer& o) {
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "s");
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  o.call("bind", ::bind(server, name, sizeof address));
  o.attributes("attributes", "s");
  o.call("bind again", ::bind(::socket(AF_UNIX, SOCK_STREAM, 0), name, sizeof address));
  o.call("listen", ::listen(server, 1));
  const int client = ::socket(AF_UNIX, SOCK_STREAM, 0);
  o.call("connect", ::connect(client, name, sizeof address));
  const int accepted = o.file("accept", ::accept(server, nullptr, nullptr));
  char bytes[4] = {};
  o.call("send", ::write(client, "abc", 3));
  o.call("receive", ::read(accepted, bytes, 4));
  o.file("open", ::open("s", O_RDWR));
  o.call("rename", ::rename("s", "t"));
  o.call("connect to the old name",
         ::connect(::socket(AF_UNIX, SOCK_STREAM, 0), name, sizeof address));
  o.call("unlink", ::unlink("t"));
}

void nodes(Observer& o) {
  const auto show = [&](const char* path) {
    struct stat found {};
    must(::lstat(path, &found) == 0, path);
    o.attributes(path, found);
    o.note(path, std::to_string(major(found.st_rdev)) + ":" + std::to_string(minor(found.st_rdev)));
  };
  o.call("character device", ::mknod("c", S_IFCHR | 0620, makedev(1, 3)));
  show("c");
  o.call("block device", ::mknod("b", S_IFBLK | 0660, makedev(240, 70'000)));
  show("b");
  o.call("file", ::mknod("f", S_IFREG | 0600, 0));
  show("f");
  o.call("untyped", ::mknod("u", 0600, 0));
  show("u");
  o.call("fifo", ::mknod("p", S_IFIFO | 0600, 0));
  show("p");
  o.call("socket", ::mknod("s", S_IFSOCK | 0600, 0));
  show("s");
  o.call("directory", ::mknod("d", S_IFDIR | 0700, 0));
  o.call("link", ::mknod("l", S_IFLNK | 0700, 0));
  o.call("again", ::mknod("f", S_IFREG | 0600, 0));
  o.call("truncate", ::truncate("c", 0));
  o.names("names", ".");
  make_directory("open", 0777);
  o.as_user(12'345, {23'456}, [&] {
    o.call("user, device", ::mknod("open/c", S_IFCHR | 0600, makedev(1, 3)));
    o.call("user, fifo", ::mknod("open/p", S_IFIFO | 0600, 0));
    o.call("user, file", ::mknod("open/f", S_IFREG | 0600, 0));
    o.call("user, untyped", ::mknod("open/u", 0600, 0));
  });
  o.names("names", "open");
}

}  // namespace

std::span<const Case> special_cases() {
  static constexpr Case kCases[] = {
      {"special_fifos", fifos},
      {"special_sockets", sockets},
      {"special_nodes", nodes},
  };
  return kCases;
}

}  // namespace s3oram::conformance
