// The longest names and paths, and names and paths that are too long.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void names(Observer& o) {
  const std::string longest(NAME_MAX, 'n'), longer(NAME_MAX + 1, 'n');
  std::string umlauts;
  while (umlauts.size() + 2 <= NAME_MAX) umlauts += "\xc3\xa4";
  make_file("f");
  make_directory("d");
  struct stat found {};
  for (const std::string& name : {longest, longer, umlauts, umlauts + "\xc3\xa4"}) {
    const std::string what = std::to_string(name.size()) + " ";
    const char* path = name.c_str();
    o.call(what + "stat", ::stat(path, &found));
    o.call(what + "mkdir", ::mkdir(path, 0755));
    o.call(what + "rmdir", ::rmdir(path));
    o.file(what + "open", ::open(path, O_RDWR | O_CREAT, 0644));
    o.names(what + "names", ".");
    o.call(what + "unlink", ::unlink(path));
    o.call(what + "symlink", ::symlink("f", path));
    o.call(what + "unlink", ::unlink(path));
    o.call(what + "link", ::link("f", path));
    o.call(what + "unlink", ::unlink(path));
    o.call(what + "mkfifo", ::mkfifo(path, 0644));
    o.call(what + "unlink", ::unlink(path));
    o.call(what + "rename to", ::rename("f", path));
    o.call(what + "rename from", ::rename(path, "f"));
    o.call(what + "access", ::access(path, F_OK));
    o.call(what + "truncate", ::truncate(path, 0));
    o.call(what + "chmod", ::chmod(path, 0600));
    o.file(what + "in a directory", ::open(("d/" + name).c_str(), O_RDWR | O_CREAT, 0644));
    o.call(what + "below it", ::access((name + "/x").c_str(), F_OK));
  }
  o.names("names", ".");
}

void paths(Observer& o) {
  struct stat found {};
  // The path consists of one-letter names, so that only the path is too long; PATH_MAX counts the
  // final zero.
  std::string path;
  while (path.size() + 2 < PATH_MAX) path += "./";
  for (const std::size_t length : {PATH_MAX - 2, PATH_MAX - 1, PATH_MAX, PATH_MAX + 1}) {
    const std::string name = std::string(length - path.size() > 4 ? 0 : length - path.size(), 'x');
    const std::string whole = path + name;
    const std::string what = "PATH_MAX " + std::to_string(static_cast<long>(length) - PATH_MAX);
    o.call(what + " stat", ::stat(whole.c_str(), &found));
    o.file(what + " open", ::open(whole.c_str(), O_RDWR | O_CREAT, 0644));
    o.call(what + " rename", ::rename(whole.c_str(), "x"));
    o.call(what + " unlink", ::unlink(whole.c_str()));
    o.call(what + " mkdir", ::mkdir(whole.c_str(), 0755));
  }
}

/// A tree that is deeper than any path can name.
void deep_tree(Observer& o) {
  const std::string level(200, 'v');
  int made = 0;
  for (; made < 30; ++made)
    must(::mkdir(level.c_str(), 0755) == 0 && ::chdir(level.c_str()) == 0, "level");
  make_file("f", "deep");
  o.content("content", "f");
  o.names("names", ".");
  std::string path;
  for (int i = 0; i < made; ++i) must(::chdir("..") == 0, "up");
  for (int i = 0; i < made; ++i) path += level + "/";
  o.call("by the whole path", ::access((path + "f").c_str(), F_OK));
}

}  // namespace

std::span<const Case> long_name_cases() {
  static constexpr Case kCases[] = {
      {"long_names", names},
      {"long_paths", paths},
      {"long_tree", deep_tree},
  };
  return kCases;
}

}  // namespace s3oram::conformance
