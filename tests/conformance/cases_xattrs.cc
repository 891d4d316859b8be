// Extended attributes.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void list(Observer& o, const char* what, const char* path) {
  char buffer[4096];
  const ssize_t got = ::llistxattr(path, buffer, sizeof buffer);
  if (got < 0) return o.note(what, error_name(errno));
  std::vector<std::string> names;
  for (ssize_t at = 0; at < got;) {
    const std::string name = buffer + at;
    at += static_cast<ssize_t>(name.size()) + 1;
    if (!name.starts_with("security.")) names.push_back(name);  // the machine adds its own
  }
  std::sort(names.begin(), names.end());
  std::string joined;
  for (const std::string& name : names) joined += escaped(name) + " ";
  o.note(what, joined);
}

void get(Observer& o, const std::string& what, const char* path, const char* name) {
  char buffer[4096];
  const ssize_t got = ::lgetxattr(path, name, buffer, sizeof buffer);
  o.note(what, got < 0 ? error_name(errno) : escaped({buffer, static_cast<std::size_t>(got)}));
}

void setting_one(Observer& o) {
  make_file("f");
  o.call("set", ::setxattr("f", "user.a", "value", 5, 0));
  get(o, "get", "f", "user.a");
  o.call("create again", ::setxattr("f", "user.a", "x", 1, XATTR_CREATE));
  o.call("replace", ::setxattr("f", "user.a", "longer value", 12, XATTR_REPLACE));
  get(o, "get", "f", "user.a");
  o.call("replace a missing one", ::setxattr("f", "user.b", "x", 1, XATTR_REPLACE));
  o.call("create", ::setxattr("f", "user.b", "\0x\n\xff", 4, XATTR_CREATE));
  get(o, "get", "f", "user.b");
  o.call("empty value", ::setxattr("f", "user.empty", "", 0, 0));
  get(o, "get", "f", "user.empty");
  list(o, "list", "f");
  char small[3];
  o.call("length", ::getxattr("f", "user.a", nullptr, 0));
  o.call("too little room", ::getxattr("f", "user.a", small, 3));
  o.call("list length", ::listxattr("f", nullptr, 0) > 0 ? 0 : -1);
  o.call("list, too little room", ::listxattr("f", small, 3));
  o.call("remove", ::removexattr("f", "user.a"));
  o.call("remove again", ::removexattr("f", "user.a"));
  get(o, "get a removed one", "f", "user.a");
  o.call("both flags", ::setxattr("f", "user.c", "x", 1, XATTR_CREATE | XATTR_REPLACE));
  o.call("unknown flag", ::setxattr("f", "user.c", "x", 1, 64));
  list(o, "list", "f");
  o.call("missing file", ::setxattr("m", "user.c", "x", 1, 0));
  o.call("rename", ::rename("f", "g"));
  list(o, "after a rename", "g");
  must(::link("g", "h") == 0, "link");
  get(o, "by another name", "h", "user.b");
  const int fd = ::open("g", O_RDONLY);
  o.call("by a reader's descriptor", ::fsetxattr(fd, "user.fd", "x", 1, 0));
  o.call("remove by it", ::fremovexattr(fd, "user.b"));
  list(o, "list", "g");
}

void name_spaces(Observer& o) {
  make_file("f");
  for (const std::string& name :
       {std::string("user."), std::string("user"), std::string("a"), std::string(""),
        std::string("nothing.a"), std::string("trusted.a"), std::string("system.a"),
        std::string("USER.a"), "user." + std::string(250, 'n'), "user." + std::string(251, 'n'),
        std::string("user.with space"), std::string("user.\xff")}) {
    const std::string what = escaped(name).substr(0, 30) + " " + std::to_string(name.size()) + " ";
    o.call(what + "set", ::setxattr("f", name.c_str(), "v", 1, 0));
    get(o, what + "get", "f", name.c_str());
    o.call(what + "remove", ::removexattr("f", name.c_str()));
  }
  list(o, "list", "f");
}

void kinds_of_files(Observer& o) {
  make_directory("d");
  must(::symlink("d", "l") == 0 && ::mkfifo("p", 0600) == 0 &&
           ::mknod("n", S_IFCHR | 0600, makedev(1, 3)) == 0,
       "making");
  for (const char* path : {"d", "l", "p", "n"}) {
    for (const char* name : {"user.a", "trusted.a"}) {
      const std::string what = std::string(path) + " " + name + " ";
      o.call(what + "set", ::lsetxattr(path, name, "v", 1, 0));
      get(o, what + "get", path, name);
      o.call(what + "remove", ::lremovexattr(path, name));
    }
    list(o, path, path);
  }
  must(::chmod("d", 01777) == 0, "chmod");
  o.as_user(12'345, {23'456},
            [&] { o.call("another's sticky directory", ::setxattr("d", "user.a", "v", 1, 0)); });
}

void sizes(Observer& o) {
  make_file("f");
  for (const std::size_t size : {1, 100, 1000, 2000}) {
    const std::string value(size, 'v'), what = std::to_string(size) + " ";
    o.call(what + "set", ::setxattr("f", "user.size", value.data(), value.size(), 0));
    char buffer[4096];
    o.call(what + "get", ::getxattr("f", "user.size", buffer, sizeof buffer));
    o.call(what + "exact room", ::getxattr("f", "user.size", buffer, size));
    o.call(what + "less room", ::getxattr("f", "user.size", buffer, size - 1 ? size - 1 : 1));
  }
  const std::string huge(65'537, 'v');
  o.call("more than any may have", ::setxattr("f", "user.size", huge.data(), huge.size(), 0));
  for (int i = 0; i < 30; ++i) {
    const std::string name = "user.n" + std::to_string(i);
    must(::setxattr("f", name.c_str(), name.data(), name.size(), 0) == 0, "setxattr");
  }
  list(o, "many", "f");
}

void labels(Observer& o) {
  make_file("f");
  make_directory("d");
  for (const char* path : {"f", "d"})
    get(o, std::string("label of ") + path, path, "security.selinux");
}

}  // namespace

std::span<const Case> xattr_cases() {
  static constexpr Case kCases[] = {
      {"xattr_setting", setting_one},  {"xattr_name_spaces", name_spaces},
      {"xattr_kinds", kinds_of_files}, {"xattr_sizes", sizes},
      {"xattr_labels", labels},
  };
  return kCases;
}

}  // namespace s3oram::conformance
