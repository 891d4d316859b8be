// What a case of the conformance table saw, as lines of text: two file systems agree where the
// lines do.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace s3oram::conformance {

/// The name of an errno: "ENOENT".
std::string error_name(int error);
/// Every byte that is not printable as \xNN.
std::string escaped(std::string_view text);
/// "file", "directory", "symlink", ...
std::string type_name(mode_t mode);

/// Writes each line to a descriptor at once, so that forked processes add to the same list.
/// Works in the current directory.
class Observer {
 public:
  explicit Observer(int out) : out_(out) {}

  void note(std::string_view what, std::string_view text);
  void check(std::string_view what, bool truth) { note(what, truth ? "yes" : "no"); }
  /// Notes the number that a call gave, or its errno; gives the number back.
  long call(std::string_view what, long result);
  /// The same for a call that gives a descriptor, whose number says nothing.
  int file(std::string_view what, int fd);
  /// Type, mode, links, owner, and for all but directories the size; of the link itself.
  void attributes(std::string_view what, const char* path);
  void attributes(std::string_view what, const struct stat& found);
  /// The bytes of a file, or those of `fd` from its start.
  void content(std::string_view what, const char* path);
  void content(std::string_view what, int fd);
  /// The names in a directory, sorted, with their types.
  void names(std::string_view what, const char* path);
  /// Which of the times of `path` `operation` moves. The times are set back first.
  void times(std::string_view what, const char* path, const std::function<void()>& operation);
  /// Runs `work` in a process of this user and these groups, the first of them its own.
  void as_user(uid_t user, const std::vector<gid_t>& groups, const std::function<void()>& work);
  /// Runs `work` in a process of its own.
  void in_process(const std::function<void()>& work);

 private:
  const int out_;
};

/// Makes a file with this content; fails the case if it cannot.
void make_file(const char* path, std::string_view content = "", mode_t mode = 0644);
void make_directory(const char* path, mode_t mode = 0755);
/// For what a case cannot go on without.
void must(bool truth, const char* what);
/// Until the clock of file times has moved on.
void wait_for_tick();

struct Case {
  const char* name;
  void (*run)(Observer&);
};

}  // namespace s3oram::conformance
