// mkdir, rmdir, unlink and mknod, and unusual names.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

void mkdir_errors(Observer& o) {
  make_file("f");
  must(::symlink("nowhere", "dangling") == 0, "symlink");
  o.call("mkdir", ::mkdir("d", 0755));
  o.attributes("attributes", "d");
  o.call("again", ::mkdir("d", 0755));
  o.call("on a file", ::mkdir("f", 0755));
  o.call("below a file", ::mkdir("f/x", 0755));
  o.call("below nothing", ::mkdir("n/x", 0755));
  o.call("on a dangling link", ::mkdir("dangling", 0755));
  o.call("dot", ::mkdir(".", 0755));
  o.call("dot dot", ::mkdir("..", 0755));
  o.call("below, dot", ::mkdir("d/.", 0755));
  o.call("slash at the end", ::mkdir("e/", 0755));
  o.call("empty", ::mkdir("", 0755));
  o.names("names", ".");
}

void rmdir_errors(Observer& o) {
  make_directory("d");
  make_directory("d/e");
  make_file("f");
  must(::symlink("d", "l") == 0, "symlink");
  o.call("not empty", ::rmdir("d"));
  o.call("file", ::rmdir("f"));
  o.call("link to a directory", ::rmdir("l"));
  o.call("link to a directory, slash", ::rmdir("l/"));
  o.call("missing", ::rmdir("m"));
  o.call("dot", ::rmdir("d/e/."));
  o.call("dot dot", ::rmdir("d/e/.."));
  o.attributes("links before", "d");
  o.call("empty", ::rmdir("d/e"));
  o.attributes("links after", "d");
  o.call("slash at the end", ::rmdir("d/"));
  o.names("names", ".");
}

void unlink_errors(Observer& o) {
  make_directory("d");
  make_file("f");
  must(::symlink("d", "l") == 0, "symlink");
  o.call("directory", ::unlink("d"));
  o.call("missing", ::unlink("m"));
  o.call("below a file", ::unlink("f/x"));
  o.call("slash at the end", ::unlink("f/"));
  o.call("dot", ::unlink("."));
  o.call("link to a directory", ::unlink("l"));
  o.call("file", ::unlink("f"));
  o.call("again", ::unlink("f"));
  o.names("names", ".");
}

void directory_links(Observer& o) {
  make_directory("d");
  o.attributes("empty", "d");
  for (const char* name : {"d/1", "d/2", "d/3"}) make_directory(name);
  make_file("d/f");
  o.attributes("three directories", "d");
  o.call("move one out", ::rename("d/1", "1"));
  o.attributes("two", "d");
  o.call("over another", ::rename("1", "d/2"));
  o.attributes("still two", "d");
  o.call("rmdir", ::rmdir("d/3"));
  o.attributes("one", "d");
  make_directory("e");
  o.call("move the last", ::rename("d/2", "e/2"));
  o.attributes("none", "d");
  o.attributes("new parent", "e");
  struct stat parent {
  }, dots{};
  must(::stat("e", &parent) == 0 && ::stat("e/2/..", &dots) == 0, "stat");
  o.check("dot dot leads to the new parent", parent.st_ino == dots.st_ino);
}

void odd_names(Observer& o) {
  for (const char* name :
       {"a\nb",        "\n",      " ",   "tab\t",      "\xff\xfe", "\xc3\x28",  "\x01",
        "back\\slash", "*",       "...", "-rf",        "\xc3\xa9", "e\xcc\x81", "CASE",
        "case",        ".hidden", "a:b", "\"quoted\"", "%s%n",     "\x7f"}) {
    o.call("make " + escaped(name), ::close(::open(name, O_RDWR | O_CREAT | O_EXCL, 0644)));
    o.attributes("made", name);
    o.call("link", ::symlink(name, (std::string("l") + name).c_str()));
  }
  o.names("names", ".");
  o.call("rename", ::rename("a\nb", "\xff\n\xff"));
  o.call("unlink", ::unlink("\n"));
  o.names("names", ".");
}

void many_levels(Observer& o) {
  constexpr int kLevels = 60;
  for (int i = 0; i < kLevels; ++i) must(::mkdir("d", 0755) == 0 && ::chdir("d") == 0, "level");
  make_file("deep", "down here");
  for (int i = 0; i < kLevels; ++i) must(::chdir("..") == 0, "up");
  std::string path;
  for (int i = 0; i < kLevels; ++i) path += "d/";
  o.content("content", (path + "deep").c_str());
  o.call("move the top", ::rename("d", "e"));
  o.content("content", ("e" + path.substr(1) + "deep").c_str());
}

void removed_working_directory(Observer& o) {
  make_directory("d");
  must(::chdir("d") == 0, "chdir");
  o.call("rmdir", ::rmdir("../d"));
  o.names("names", ".");
  o.file("create", ::open("f", O_RDWR | O_CREAT, 0600));
  o.call("mkdir", ::mkdir("e", 0700));
  o.attributes("dot", ".");
  char path[64];
  o.call("getcwd", ::getcwd(path, sizeof path) ? 0 : -1);
}

}  // namespace

std::span<const Case> name_cases() {
  static constexpr Case kCases[] = {
      {"mkdir", mkdir_errors},
      {"rmdir", rmdir_errors},
      {"unlink", unlink_errors},
      {"directory_links", directory_links},
      {"odd_names", odd_names},
      {"many_levels", many_levels},
      {"removed_working_directory", removed_working_directory},
  };
  return kCases;
}

}  // namespace s3oram::conformance
