// Access control lists: their effect on modes and rights, and how they are inherited.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

constexpr const char* kAccessList = "system.posix_acl_access";
constexpr const char* kDefaultList = "system.posix_acl_default";
constexpr std::uint16_t kUserObject = 1, kNamedUser = 2, kGroupObject = 4, kNamedGroup = 8,
                        kMask = 16, kOthers = 32;
constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr uid_t kStranger = kUser + 1;

struct Entry {
  std::uint16_t tag, permissions;
  std::uint32_t id = kNone;
};

std::string list_of(const std::vector<Entry>& entries, std::uint32_t version = 2) {
  std::string text;
  const auto append = [&text](auto number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(version);
  for (const Entry& entry : entries) {
    append(entry.tag);
    append(entry.permissions);
    append(entry.id);
  }
  return text;
}

long set(const char* path, const char* name, const std::string& value) {
  return ::setxattr(path, name, value.data(), value.size(), 0);
}

std::vector<Entry> minimal(std::uint16_t user, std::uint16_t group, std::uint16_t others) {
  return {{kUserObject, user}, {kGroupObject, group}, {kOthers, others}};
}

/// Returns a list that also gives rights to a named user and a named group.
std::vector<Entry> extended(std::uint16_t user, std::uint16_t group, std::uint16_t mask,
                            std::uint16_t others = 0) {
  return {{kUserObject, 7},  {kNamedUser, user, kUser},
          {kGroupObject, 5}, {kNamedGroup, group, kGroup},
          {kMask, mask},     {kOthers, others}};
}

/// Records the mode and both lists of a file.
void note_lists(Observer& o, const std::string& what, const char* path) {
  o.attributes(what, path);
  for (const char* name : {kAccessList, kDefaultList}) {
    char buffer[4096];
    const ssize_t got = ::lgetxattr(path, name, buffer, sizeof buffer);
    o.note(what + (name == kAccessList ? " access" : " default"),
           got < 0 ? error_name(errno) : escaped({buffer, static_cast<std::size_t>(got)}));
  }
  char names[4096];
  const ssize_t got = ::llistxattr(path, names, sizeof names);
  const std::string all = got > 0 ? std::string(names, static_cast<std::size_t>(got)) : "";
  o.check(what + " lists access", all.find(kAccessList) != std::string::npos);
  o.check(what + " lists default", all.find(kDefaultList) != std::string::npos);
}

void setting(Observer& o) {
  make_file("f", "x", 0640);
  make_directory("d");
  o.call("minimal", set("f", kAccessList, list_of(minimal(6, 4, 4))));
  note_lists(o, "minimal", "f");
  o.call("extended", set("f", kAccessList, list_of(extended(6, 4, 6))));
  note_lists(o, "extended", "f");
  o.times("times", "f", [] { set("f", kAccessList, list_of(extended(7, 7, 7))); });
  o.call("minimal again", set("f", kAccessList, list_of(minimal(7, 5, 1))));
  note_lists(o, "minimal again", "f");
  o.call("remove none", ::removexattr("f", kAccessList));
  o.call("extended", set("f", kAccessList, list_of(extended(6, 4, 6))));
  o.call("remove", ::removexattr("f", kAccessList));
  note_lists(o, "removed", "f");
  o.call("no entries", set("f", kAccessList, list_of({})));
  o.call("default of a file", set("f", kDefaultList, list_of(minimal(7, 5, 5))));
  o.call("remove default of a file", ::removexattr("f", kDefaultList));
  o.call("default", set("d", kDefaultList, list_of(minimal(7, 5, 5))));
  note_lists(o, "default", "d");
  o.call("extended default", set("d", kDefaultList, list_of(extended(6, 4, 6))));
  o.call("access of it", set("d", kAccessList, list_of(extended(5, 5, 5))));
  note_lists(o, "both", "d");
  o.call("remove default", ::removexattr("d", kDefaultList));
  o.call("remove default again", ::removexattr("d", kDefaultList));
  note_lists(o, "one", "d");
  must(::symlink("f", "l") == 0, "symlink");
  o.call("link", ::lsetxattr("l", kAccessList, list_of(minimal(7, 5, 5)).data(), 28, 0));
  o.call("link's", ::lgetxattr("l", kAccessList, nullptr, 0));
  o.call("through the link", set("l", kAccessList, list_of(extended(4, 4, 4))));
  note_lists(o, "through the link", "f");
}

void malformed(Observer& o) {
  make_file("f", "x", 0640);
  make_directory("d");
  const std::string good = list_of(extended(6, 4, 6));
  const auto refuse = [&](const char* what, const std::string& value) {
    o.call(what, set("d", kAccessList, value));
    o.call(std::string(what) + ", default", set("d", kDefaultList, value));
  };
  refuse("one byte", "v");
  refuse("half an entry", good.substr(0, good.size() - 4));
  refuse("trailing bytes", good + "x");
  refuse("no others", list_of({{kUserObject, 7}, {kGroupObject, 5}}));
  refuse("no owner", list_of({{kGroupObject, 5}, {kOthers, 5}}));
  refuse("no group", list_of({{kUserObject, 5}, {kOthers, 5}}));
  refuse("two owners",
         list_of({{kUserObject, 5}, {kUserObject, 5}, {kGroupObject, 5}, {kOthers, 5}}));
  refuse("wrong order", list_of({{kGroupObject, 5}, {kUserObject, 5}, {kOthers, 5}}));
  refuse("no mask",
         list_of({{kUserObject, 5}, {kNamedUser, 5, kUser}, {kGroupObject, 5}, {kOthers, 5}}));
  refuse("too many permissions", list_of(minimal(8, 5, 5)));
  refuse("no such tag", list_of({{kUserObject, 5}, {kGroupObject, 5}, {kOthers, 5}, {64, 5}}));
  refuse(
      "nobody's",
      list_of(
          {{kUserObject, 5}, {kNamedUser, 5, kNone}, {kGroupObject, 5}, {kMask, 5}, {kOthers, 5}}));
  note_lists(o, "after", "d");
  o.call("a user twice", set("f", kAccessList,
                             list_of({{kUserObject, 5},
                                      {kNamedUser, 5, kUser},
                                      {kNamedUser, 4, kUser},
                                      {kGroupObject, 5},
                                      {kMask, 5},
                                      {kOthers, 5}})));
  note_lists(o, "a user twice", "f");
  o.call("ids without a meaning", set("f", kAccessList,
                                      list_of({{kUserObject, 6, 5},
                                               {kNamedUser, 5, kUser},
                                               {kGroupObject, 5, 6},
                                               {kMask, 5, 7},
                                               {kOthers, 5, 8}})));
  note_lists(o, "ids without a meaning", "f");
}

void changing_modes(Observer& o) {
  make_file("f", "x", 0640);
  must(set("f", kAccessList, list_of(extended(7, 7, 6, 4))) == 0, "setxattr");
  for (const mode_t mode : {0000u, 0777u, 0750u, 0705u, 04751u, 02770u, 01644u}) {
    o.call("chmod", ::chmod("f", mode));
    note_lists(o, "mode " + std::to_string(mode), "f");
  }
  o.call("chown", ::chown("f", kStranger, kOtherGroup));
  note_lists(o, "chown", "f");
  must(::chmod("f", 06777) == 0, "chmod");
  o.as_user(kUser, {kGroup}, [&] {
    const int fd = o.file("open", ::open("f", O_WRONLY));
    o.call("write clears set-ids", ::write(fd, "y", 1));
    o.call("truncate", ::ftruncate(fd, 0));
  });
  note_lists(o, "written", "f");
}

void rights(Observer& o) {
  for (const std::uint16_t mask : {0, 4, 6, 7}) {
    make_file("f", "x", 0600);
    make_directory("d");
    for (const char* path : {"f", "d"})
      must(set(path, kAccessList, list_of(extended(6, 5, mask, 1))) == 0, "setxattr");
    const auto try_all = [&](const std::string& who) {
      const std::string what = "mask " + std::to_string(mask) + " " + who + " ";
      ::close(o.file(what + "read", ::open("f", O_RDONLY)));
      ::close(o.file(what + "write", ::open("f", O_WRONLY)));
      o.call(what + "execute", ::access("f", X_OK));
      ::close(o.file(what + "list", ::open("d", O_RDONLY | O_DIRECTORY)));
      o.call(what + "create", ::close(::open("d/new", O_RDWR | O_CREAT, 0644)));
      o.call(what + "remove", ::unlink("d/new"));
    };
    o.as_user(kUser, {kOtherGroup}, [&] { try_all("user"); });
    o.as_user(kStranger, {kGroup}, [&] { try_all("group"); });
    o.as_user(kStranger, {kOtherGroup, kGroup}, [&] { try_all("second group"); });
    o.as_user(kStranger, {kOtherGroup}, [&] { try_all("others"); });
    must(::unlink("f") == 0 && ::rmdir("d") == 0, "removing");
  }
}

void rights_that_change(Observer& o) {
  make_file("f", "x", 0600);
  const auto may = [&](const char* what) {
    o.as_user(kUser, {kOtherGroup}, [&] { ::close(o.file(what, ::open("f", O_RDONLY))); });
  };
  may("before");
  must(set("f", kAccessList, list_of(extended(4, 0, 4))) == 0, "setxattr");
  may("given");
  must(::chmod("f", 0700) == 0, "chmod");
  may("masked");
  must(::chmod("f", 0740) == 0, "chmod");
  may("unmasked");
  must(::link("f", "g") == 0 && ::rename("g", "h") == 0, "link");
  may("another name");
  must(::removexattr("f", kAccessList) == 0, "removexattr");
  may("removed");
}

void who_may_set(Observer& o) {
  make_file("f", "x", 0666);
  make_directory("d", 0777);
  must(::chown("f", kUser, kGroup) == 0 && ::chown("d", kUser, kGroup) == 0, "chown");
  must(set("f", kAccessList, list_of(extended(6, 6, 6, 6))) == 0, "setxattr");
  const auto try_all = [&](const std::string& who) {
    o.call(who + " set", set("f", kAccessList, list_of(extended(7, 7, 7, 7))));
    o.call(who + " set default", set("d", kDefaultList, list_of(extended(7, 7, 7, 7))));
    o.call(who + " get", ::getxattr("f", kAccessList, nullptr, 0));
    o.call(who + " remove", ::removexattr("f", kAccessList));
    o.call(who + " remove default", ::removexattr("d", kDefaultList));
  };
  o.as_user(kStranger, {kGroup}, [&] { try_all("stranger"); });
  note_lists(o, "after the stranger", "f");
  o.as_user(kUser, {kGroup}, [&] { try_all("owner"); });
  note_lists(o, "after the owner", "f");
}

void set_group_id(Observer& o) {
  const auto try_as = [&](const std::string& who, const std::vector<gid_t>& groups) {
    make_file("f", "x", 0770);
    must(::chown("f", kUser, kGroup) == 0 && ::chmod("f", 02770) == 0, "chmod");
    o.as_user(kUser, groups,
              [&] { o.call(who, set("f", kAccessList, list_of(extended(6, 6, 7)))); });
    note_lists(o, who, "f");
    must(::unlink("f") == 0, "unlink");
  };
  try_as("member", {kGroup});
  try_as("second group", {kOtherGroup, kGroup});
  try_as("no member", {kOtherGroup});
  make_file("f", "x", 02770);
  must(::chown("f", kUser, kGroup) == 0 && ::chmod("f", 02770) == 0, "chmod");
  o.call("root", set("f", kAccessList, list_of(minimal(6, 7, 0))));
  note_lists(o, "root", "f");
}

void inheriting(Observer& o) {
  const std::vector<std::vector<Entry>> defaults = {minimal(7, 5, 5), minimal(6, 0, 0),
                                                    extended(6, 5, 7, 5), extended(7, 7, 4, 0)};
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    for (const mode_t mask : {0000u, 0022u, 0077u, 0777u}) {
      const std::string what = std::to_string(i) + " umask " + std::to_string(mask) + " ";
      make_directory("d");
      must(set("d", kDefaultList, list_of(defaults[i])) == 0, "setxattr");
      ::umask(mask);
      for (const mode_t mode : {0666u, 0777u, 0600u, 0444u}) {
        const std::string each = what + "mode " + std::to_string(mode) + " ";
        ::close(o.file(each + "create", ::open("d/f", O_RDWR | O_CREAT, mode)));
        note_lists(o, each + "file", "d/f");
        o.call(each + "mkdir", ::mkdir("d/d", mode));
        note_lists(o, each + "directory", "d/d");
        o.call(each + "mknod", ::mknod("d/n", S_IFCHR | mode, makedev(1, 3)));
        note_lists(o, each + "device", "d/n");
        o.call(each + "mkfifo", ::mkfifo("d/p", mode));
        note_lists(o, each + "pipe", "d/p");
        for (const char* name : {"d/f", "d/n", "d/p"}) must(::unlink(name) == 0, "unlink");
        must(::rmdir("d/d") == 0, "rmdir");
      }
      o.call(what + "symlink", ::symlink("x", "d/l"));
      note_lists(o, what + "link", "d/l");
      must(::unlink("d/l") == 0 && ::rmdir("d") == 0, "rmdir");
      ::umask(022);
    }
  }
}

void umasks(Observer& o) {
  for (const mode_t mask : {0000u, 0022u, 0077u, 0777u}) {
    ::umask(mask);
    const std::string what = "umask " + std::to_string(mask) + " ";
    ::close(o.file(what + "create", ::open("f", O_RDWR | O_CREAT, 0777)));
    o.attributes(what + "file", "f");
    o.call(what + "mkdir", ::mkdir("d", 01777));
    o.attributes(what + "directory", "d");
    o.call(what + "mknod", ::mknod("n", S_IFREG | 0666, 0));
    o.attributes(what + "node", "n");
    ::umask(022);
    must(::unlink("f") == 0 && ::unlink("n") == 0 && ::rmdir("d") == 0, "removing");
  }
}

void inheriting_deeply(Observer& o) {
  make_directory("d", 02775);
  must(::chown("d", kUser, kGroup) == 0 && ::chmod("d", 02777) == 0, "chmod");
  must(set("d", kDefaultList, list_of(extended(7, 6, 7, 1))) == 0, "setxattr");
  must(set("d", kAccessList, list_of(extended(7, 7, 7, 7))) == 0, "setxattr");
  o.as_user(kStranger, {kOtherGroup}, [&] {
    o.call("mkdir", ::mkdir("d/a", 0755));
    o.call("mkdir", ::mkdir("d/a/b", 0700));
    ::close(o.file("create", ::open("d/a/b/f", O_RDWR | O_CREAT, 0640)));
  });
  for (const char* path : {"d/a", "d/a/b", "d/a/b/f"}) note_lists(o, path, path);
  o.as_user(kUser, {kOtherGroup}, [&] {
    ::close(o.file("read", ::open("d/a/b/f", O_RDONLY)));
    ::close(o.file("write", ::open("d/a/b/f", O_WRONLY)));
    ::close(o.file("create", ::open("d/a/mine", O_RDWR | O_CREAT, 0600)));
  });
  o.call("moved out", ::rename("d/a/b/f", "f"));
  note_lists(o, "moved out", "f");
  make_file("g", "", 0644);
  o.call("moved in", ::rename("g", "d/g"));
  note_lists(o, "moved in", "d/g");
  o.call("linked in", ::link("d/g", "d/a/g"));
  note_lists(o, "linked in", "d/a/g");
  const int fd = ::open("d", O_TMPFILE | O_RDWR, 0666);
  if (fd < 0) return;  // the case open_unnamed asserts which kernels support it
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  o.call("give it a name", ::linkat(AT_FDCWD, path, AT_FDCWD, "d/unnamed", AT_SYMLINK_FOLLOW));
  note_lists(o, "unnamed", "d/unnamed");
}

}  // namespace

std::span<const Case> acl_cases() {
  static constexpr Case kCases[] = {
      {"acl_setting", setting},
      {"acl_malformed", malformed},
      {"acl_changing_modes", changing_modes},
      {"acl_rights", rights},
      {"acl_rights_that_change", rights_that_change},
      {"acl_who_may_set", who_may_set},
      {"acl_set_group_id", set_group_id},
      {"acl_inheriting", inheriting},
      {"acl_umasks", umasks},
      {"acl_inheriting_deeply", inheriting_deeply},
  };
  return kCases;
}

}  // namespace s3oram::conformance
