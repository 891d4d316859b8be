// compare_cases OURS REFERENCE: runs every case in a fresh directory of each of the two directories
// and compares what the cases saw. The reference, the kernel's own file system, is the expected
// result. Exit codes: 1 they differ, 2 the test itself cannot run.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/known_differences.h"

namespace s3oram::conformance {
namespace {

constexpr unsigned kDeadline = 60;  // seconds for a case

using Lines = std::vector<std::string>;

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto group :
       {open_cases(), name_cases(), rename_cases(), link_cases(), long_name_cases(), time_cases(),
        permission_cases(), set_id_cases(), size_cases(), data_cases(), map_cases(), lock_cases(),
        xattr_cases(), special_cases(), directory_cases(), volume_cases(), together_cases(),
        acl_cases()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

Lines run(const Case& test, const std::string& root) {
  const std::string directory = root + "/" + test.name;
  std::filesystem::create_directory(directory);
  const int notes = ::memfd_create("notes", 0);
  must(notes >= 0, "memfd_create");
  const pid_t child = ::fork();
  must(child >= 0, "fork");
  if (child == 0) {
    ::alarm(kDeadline);
    ::umask(022);
    must(::chdir(directory.c_str()) == 0, directory.c_str());
    Observer observer(notes);
    test.run(observer);
    ::_exit(0);
  }
  int status = 0;
  must(::waitpid(child, &status, 0) == child, "waitpid");
  Lines lines;
  std::string text(static_cast<std::size_t>(::lseek(notes, 0, SEEK_END)), '\0');
  must(::pread(notes, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()), "notes");
  ::close(notes);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (status != 0) lines.push_back("case: ended with status " + std::to_string(status));
  return lines;
}

/// Marks the known differences that occur, and prints the others.
bool agree(const Case& test, const Lines& ours, const Lines& reference,
           std::set<const KnownDifference*>& used) {
  bool good = true;
  for (std::size_t i = 0; i < std::max(ours.size(), reference.size()); ++i) {
    const std::string mine = i < ours.size() ? ours[i] : "nothing";
    const std::string other = i < reference.size() ? reference[i] : "nothing";
    if (mine == other) continue;
    const auto known = known_differences();
    const auto match = std::find_if(known.begin(), known.end(), [&](const KnownDifference& k) {
      const std::string line(k.line);
      return k.test == test.name && mine == line + ": " + std::string(k.ours) &&
             other == line + ": " + std::string(k.reference);
    });
    if (match != known.end()) {
      used.insert(&*match);
      continue;
    }
    good = false;
    std::cout << test.name << "\n  ours       " << mine << "\n  reference  " << other << "\n";
  }
  return good;
}

int run_all(const std::string& ours, const std::string& reference, const std::string& only) {
  std::set<const KnownDifference*> used;
  std::size_t cases = 0, lines = 0, wrong = 0;
  for (const Case& test : all_cases()) {
    if (!only.empty() && only != test.name) continue;
    const Lines mine = run(test, ours), others = run(test, reference);
    ++cases;
    lines += others.size();
    wrong += !agree(test, mine, others, used);
    if (std::any_of(others.begin(), others.end(),
                    [](const auto& line) { return line.starts_with("case: "); }))
      ++wrong, std::cout << test.name << ": the case itself fails: " << others.back() << "\n";
  }
  for (const KnownDifference& known : known_differences())
    if (only.empty() && !used.contains(&known)) {
      ++wrong;
      std::cout << known.test << ": \"" << known.line
                << "\" is listed as different, and is not: " << known.reason << "\n";
    }
  std::cout << cases << " cases, " << lines << " lines, " << used.size() << " known differences, "
            << wrong << " wrong\n";
  return wrong > 0 || cases == 0 ? 1 : 0;
}

}  // namespace
}  // namespace s3oram::conformance

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: compare_cases OURS REFERENCE [CASE]\n";
    return 2;
  }
  if (::getuid() != 0) {
    std::cerr << "compare_cases: must be root, to be other users in turn\n";
    return 2;
  }
  return s3oram::conformance::run_all(argv[1], argv[2], argc > 3 ? argv[3] : "");
}
