// Records what a case of the conformance table observes, as lines of text. Two file systems agree
// where their lines agree.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace s3oram::conformance {

/// Returns the name of an errno, such as "ENOENT".
std::string error_name(int error);
/// Returns `text` with every byte that is not printable as \xNN.
std::string escaped(std::string_view text);
/// Returns "file", "directory", "symlink", ...
std::string type_name(mode_t mode);

/// Writes each line to a descriptor immediately, so that forked processes add to the same list.
/// Works in the current directory.
class Observer {
 public:
  explicit Observer(int out) : out_(out) {}

  void note(std::string_view what, std::string_view text);
  void check(std::string_view what, bool truth) { note(what, truth ? "yes" : "no"); }
  /// Records the number that a call returned, or its errno. Returns the number.
  long call(std::string_view what, long result);
  /// Does the same for a call that returns a descriptor, whose number means nothing.
  int file(std::string_view what, int fd);
  /// Records type, mode, links and owner, and the size unless it is a directory; of a link, its
  /// own.
  void attributes(std::string_view what, const char* path);
  void attributes(std::string_view what, const struct stat& found);
  /// Records the bytes of a file, or those of `fd` from its start.
  void content(std::string_view what, const char* path);
  void content(std::string_view what, int fd);
  /// Records the names in a directory, sorted, with their types.
  void names(std::string_view what, const char* path);
  /// Records which of the times of `path` the operation changes. Sets the times back first.
  void times(std::string_view what, const char* path, const std::function<void()>& operation);
  /// Runs `work` in a process of this user and these groups, the first of which is its primary
  /// group.
  void as_user(uid_t user, const std::vector<gid_t>& groups, const std::function<void()>& work);
  /// Runs `work` in a process of its own.
  void in_process(const std::function<void()>& work);

 private:
  const int out_;
};

/// Makes a file with this content. Fails the case if it cannot.
void make_file(const char* path, std::string_view content = "", mode_t mode = 0644);
void make_directory(const char* path, mode_t mode = 0755);
/// Ends the case as failed unless `truth` holds.
void must(bool truth, const char* what);
/// Waits until the clock of file times has advanced.
void wait_for_tick();

struct Case {
  const char* name;
  void (*run)(Observer&);
};

}  // namespace s3oram::conformance
