// Reading directories, including while they change.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>

#include "tests/conformance/cases.h"

namespace s3oram::conformance {
namespace {

constexpr int kEntries = 3000;  // more than one request returns

std::string long_name(int i) { return "entry-with-a-name-of-some-length-" + std::to_string(i); }

void fill(const std::string& directory, int from, int to) {
  for (int i = from; i < to; ++i) make_file((directory + "/" + long_name(i)).c_str());
}

void many(Observer& o) {
  make_directory("d");
  fill("d", 0, kEntries);
  o.names("names", "d");
  o.attributes("attributes", "d");
  o.call("rmdir", ::rmdir("d"));
}

/// POSIX: an entry that exists before and after is seen exactly once.
void while_changing(Observer& o) {
  make_directory("d");
  fill("d", 0, kEntries);
  DIR* directory = ::opendir("d");
  must(directory != nullptr, "opendir");
  std::map<std::string, int> seen;
  int count = 0;
  for (const dirent* entry = ::readdir(directory); entry; entry = ::readdir(directory), ++count) {
    ++seen[entry->d_name];
    if (count % 10 == 0 && count / 10 < 200) {
      // At every tenth entry one name is removed and another added.
      const std::string gone = "d/" + long_name(10 * (count / 10));
      must(::unlink(gone.c_str()) == 0, "unlink");
      make_file(("d/new" + std::to_string(count)).c_str());
    }
  }
  ::closedir(directory);
  int missing = 0, twice = 0;
  for (int i = 0; i < kEntries; ++i)
    if (i % 10 != 0 || i >= 2000) missing += !seen.contains(long_name(i));
  for (const auto& [name, times] : seen) twice += times > 1;
  o.note("missing of those that stayed", std::to_string(missing));
  o.note("seen twice", std::to_string(twice));
  o.names("names afterwards", "d");
}

void removing_while_reading(Observer& o) {
  make_directory("d");
  fill("d", 0, kEntries);
  DIR* directory = ::opendir("d");
  int removed = 0;
  while (const dirent* entry = ::readdir(directory))
    if (entry->d_name[0] == 'e') removed += ::unlinkat(::dirfd(directory), entry->d_name, 0) == 0;
  ::closedir(directory);
  o.note("removed", std::to_string(removed));
  o.names("names", "d");
  o.call("rmdir", ::rmdir("d"));
}

void positions(Observer& o) {
  make_directory("d");
  fill("d", 0, 500);
  DIR* directory = ::opendir("d");
  std::map<int, long> at;
  std::map<int, std::string> next;
  long position = ::telldir(directory);
  int count = 0;
  for (const dirent* entry = ::readdir(directory); entry; entry = ::readdir(directory), ++count) {
    at[count] = position;
    next[count] = entry->d_name;
    position = ::telldir(directory);
  }
  o.note("entries", std::to_string(count));
  bool back = true;
  for (const int i : {0, 1, 2, 100, 250, 501, 3}) {
    ::seekdir(directory, at[i]);
    const dirent* entry = ::readdir(directory);
    back = back && entry && next[i] == entry->d_name;
  }
  o.check("seekdir leads back", back);
  ::seekdir(directory, position);
  o.check("at the end is nothing", ::readdir(directory) == nullptr);
  make_file("d/later");
  must(::unlink(("d/" + long_name(7)).c_str()) == 0, "unlink");
  ::rewinddir(directory);
  bool later = false, gone = true;
  int again = 0;
  for (const dirent* entry = ::readdir(directory); entry; entry = ::readdir(directory), ++again) {
    later = later || std::string(entry->d_name) == "later";
    gone = gone && long_name(7) != entry->d_name;
  }
  o.note("entries after rewinddir", std::to_string(again));
  o.check("a new name is seen", later);
  o.check("a removed one is not", gone);
  ::closedir(directory);
}

void dots(Observer& o) {
  make_directory("d");
  make_directory("d/e");
  o.names("names", "d/e");
  struct stat here {
  }, up{}, parent{}, self{};
  must(::stat("d/e", &here) == 0 && ::stat("d/e/.", &self) == 0 && ::stat("d/e/..", &up) == 0 &&
           ::stat("d", &parent) == 0,
       "stat");
  o.check("dot", here.st_ino == self.st_ino);
  o.check("dot dot", up.st_ino == parent.st_ino);
  bool right = true;
  DIR* directory = ::opendir("d/e");
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    right = right && entry->d_ino == (name == "." ? here.st_ino : parent.st_ino);
  }
  ::closedir(directory);
  o.check("numbers in the listing", right);
}

void numbers_agree(Observer& o) {
  make_file("f");
  make_directory("d");
  must(::symlink("f", "l") == 0 && ::link("f", "g") == 0 && ::mkfifo("p", 0600) == 0, "making");
  DIR* directory = ::opendir(".");
  bool right = true;
  while (const dirent* entry = ::readdir(directory)) {
    struct stat found {};
    if (std::string(entry->d_name) == "..") continue;
    right = right && ::lstat(entry->d_name, &found) == 0 && found.st_ino == entry->d_ino &&
            static_cast<mode_t>(DTTOIF(entry->d_type)) == (found.st_mode & S_IFMT);
  }
  ::closedir(directory);
  o.check("numbers and types are those of stat", right);
}

void errors(Observer& o) {
  make_file("f");
  make_directory("d");
  const auto open_it = [&](const char* path) {
    DIR* directory = ::opendir(path);
    o.call(std::string("opendir ") + path, directory ? 0 : -1);
    if (directory) ::closedir(directory);
  };
  for (const char* path : {"f", "m", "d", "d/", "f/x", ""}) open_it(path);
  const int fd = ::open("d", O_RDONLY | O_DIRECTORY);
  o.call("fsync", ::fsync(fd));
  make_file("d/x");
  o.call("fsync of a new name", ::fsync(fd));
  o.call("fdatasync", ::fdatasync(fd));
  o.call("lseek", ::lseek(fd, 0, SEEK_SET));
  o.call("removed", ::unlink("d/x"));
  o.call("rmdir", ::rmdir("d"));
  o.call("fsync of a removed one", ::fsync(fd));
}

}  // namespace

std::span<const Case> directory_cases() {
  static constexpr Case kCases[] = {
      {"directory_many", many},
      {"directory_while_changing", while_changing},
      {"directory_removing", removing_while_reading},
      {"directory_positions", positions},
      {"directory_dots", dots},
      {"directory_numbers", numbers_agree},
      {"directory_errors", errors},
  };
  return kCases;
}

}  // namespace s3oram::conformance
