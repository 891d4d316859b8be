// rename(2) and renameat2(2).
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

long rename2(const char* from, const char* to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

void plain(Observer& o) {
  make_file("f", "first");
  make_file("g", "second");
  make_directory("d");
  const int held = ::open("g", O_RDWR);
  o.call("file to a new name", ::rename("f", "h"));
  o.attributes("new", "h");
  o.attributes("old", "f");
  o.call("file over a file", ::rename("h", "g"));
  o.content("replaced", "g");
  o.content("the replaced, still open", held);
  struct stat found {};
  must(::fstat(held, &found) == 0, "fstat");
  o.attributes("the replaced", found);
  o.call("file into a directory", ::rename("g", "d/g"));
  o.content("moved", "d/g");
  o.call("missing", ::rename("m", "n"));
  o.call("to a missing directory", ::rename("d/g", "n/g"));
  o.call("to itself", ::rename("d/g", "d/g"));
  o.call("below a file", ::rename("d", "d/g/x"));
  o.names("names", ".");
  o.names("names below", "d");
}

void kinds(Observer& o) {
  make_file("f");
  make_file("g");
  make_directory("d");
  make_directory("full");
  make_file("full/x");
  make_directory("empty");
  must(::symlink("d", "l") == 0 && ::mkfifo("p", 0600) == 0, "symlink");
  o.call("file over a directory", ::rename("f", "d"));
  o.call("directory over a file", ::rename("d", "f"));
  o.call("directory over a full one", ::rename("d", "full"));
  o.call("directory over an empty one", ::rename("full", "empty"));
  o.names("moved", "empty");
  o.call("file over a link to a directory", ::rename("f", "l"));
  o.attributes("link replaced", "l");
  o.call("fifo over a file", ::rename("p", "g"));
  o.attributes("fifo", "g");
  o.call("file, slash at the end", ::rename("l", "new/"));
  o.call("directory, slash at the end", ::rename("d/", "new/"));
  o.call("dot", ::rename("new/.", "other"));
  o.call("onto dot", ::rename("empty", "new/."));
  o.call("dot dot", ::rename("new/..", "other"));
  o.names("names", ".");
}

void own_subdirectory(Observer& o) {
  make_directory("d");
  make_directory("d/e");
  make_directory("d/e/f");
  o.call("into itself", ::rename("d", "d/x"));
  o.call("into its child", ::rename("d", "d/e/x"));
  o.call("over its child", ::rename("d", "d/e"));
  o.call("child over its parent", ::rename("d/e", "d"));
  o.call("grandchild over its grandparent", ::rename("d/e/f", "d"));
  o.call("exchange with its child", rename2("d", "d/e", RENAME_EXCHANGE));
  o.call("exchange with its parent", rename2("d/e", "d", RENAME_EXCHANGE));
  o.attributes("attributes", "d");
}

void hard_links(Observer& o) {
  make_file("f", "x");
  must(::link("f", "g") == 0, "link");
  o.call("over its own other name", ::rename("f", "g"));
  o.names("both stay", ".");
  o.attributes("links", "f");
  o.call("exchange with its other name", rename2("f", "g", RENAME_EXCHANGE));
  o.call("onto its other name, noreplace", rename2("f", "g", RENAME_NOREPLACE));
  make_file("h", "y");
  o.call("over one of two names", ::rename("h", "g"));
  o.attributes("one name less", "f");
  o.content("content", "f");
  o.content("content", "g");
}

void no_replace(Observer& o) {
  make_file("f", "first");
  make_file("g", "second");
  make_directory("d");
  make_directory("e");
  must(::symlink("nowhere", "dangling") == 0, "symlink");
  o.call("onto a file", rename2("f", "g", RENAME_NOREPLACE));
  o.call("onto an empty directory", rename2("d", "e", RENAME_NOREPLACE));
  o.call("onto a dangling link", rename2("f", "dangling", RENAME_NOREPLACE));
  o.call("onto itself", rename2("f", "f", RENAME_NOREPLACE));
  o.call("to a new name", rename2("f", "h", RENAME_NOREPLACE));
  o.call("missing", rename2("f", "i", RENAME_NOREPLACE));
  o.content("content", "h");
  o.names("names", ".");
}

void exchange(Observer& o) {
  make_file("f", "first");
  make_file("g", "second!");
  make_directory("d");
  make_directory("d/sub");
  make_directory("e");
  must(::symlink("f", "l") == 0, "symlink");
  o.call("two files", rename2("f", "g", RENAME_EXCHANGE));
  o.content("first", "f");
  o.content("second", "g");
  o.call("a file and a directory", rename2("f", "d", RENAME_EXCHANGE));
  o.attributes("directory", "f");
  o.attributes("file", "d");
  o.call("across directories", rename2("f/sub", "g", RENAME_EXCHANGE));
  o.attributes("lost a directory", "f");
  o.attributes("now a file", "f/sub");
  o.attributes("now a directory", "g");
  o.call("with a link", rename2("l", "e", RENAME_EXCHANGE));
  o.attributes("link", "e");
  o.call("with nothing", rename2("l", "missing", RENAME_EXCHANGE));
  o.call("nothing with it", rename2("missing", "l", RENAME_EXCHANGE));
  o.call("both flags", rename2("f", "g", RENAME_EXCHANGE | RENAME_NOREPLACE));
  o.call("unknown flag", rename2("f", "g", 1u << 20));
  o.attributes("here", ".");
  o.names("names", ".");
}

void whiteout(Observer& o) {
  make_file("f");
  o.call("rename", rename2("f", "g", RENAME_WHITEOUT));
  o.attributes("moved", "g");
  o.attributes("left", "f");
  make_file("h");
  o.call("over another", rename2("g", "h", RENAME_WHITEOUT));
  o.attributes("left again", "g");
  o.call("exchange", rename2("g", "h", RENAME_WHITEOUT | RENAME_EXCHANGE));
  o.call("not over another", rename2("g", "h", RENAME_WHITEOUT | RENAME_NOREPLACE));
}

void across_file_systems(Observer& o) {
  make_file("f");
  o.call("rename", ::rename("f", "/proc/x"));
  o.call("link", ::link("f", "/proc/x"));
  o.attributes("stays", "f");
}

void keeps_attributes(Observer& o) {
  make_file("f", "x", 04711);
  must(::chown("f", 12, 34) == 0 && ::chmod("f", 04711) == 0, "chown");
  struct stat before {
  }, after{};
  must(::stat("f", &before) == 0, "stat");
  o.call("rename", ::rename("f", "g"));
  must(::stat("g", &after) == 0, "stat");
  o.attributes("after", "g");
  o.check("same inode", before.st_ino == after.st_ino);
}

}  // namespace

std::span<const Case> rename_cases() {
  static constexpr Case kCases[] = {
      {"rename_plain", plain},
      {"rename_kinds", kinds},
      {"rename_own_subdirectory", own_subdirectory},
      {"rename_hard_links", hard_links},
      {"rename_no_replace", no_replace},
      {"rename_exchange", exchange},
      {"rename_whiteout", whiteout},
      {"rename_across_file_systems", across_file_systems},
      {"rename_keeps_attributes", keeps_attributes},
  };
  return kCases;
}

}  // namespace s3oram::conformance
