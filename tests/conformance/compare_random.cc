// compare_random OURS REFERENCE [--seed N] [--seconds S]: runs the same random operations in both,
// which must give the same results; now and then the whole trees are compared. On a difference it
// prints the last operations; the seed repeats all of them, in empty directories. Exit codes: 1 a
// difference, 2 the test itself cannot run.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <random>
#include <string>

#include "tests/conformance/random_operations.h"
#include "tests/conformance/tree_listing.h"

namespace s3oram::conformance {
namespace {

constexpr unsigned kBetweenTrees = 3'000;  // operations
constexpr std::size_t kRemembered = 60;

int compare(const std::string& ours, const std::string& reference, std::uint64_t seed,
            unsigned seconds) {
  ::umask(022);
  World mine(ours), other(reference);
  std::mt19937_64 random(seed);
  std::deque<std::string> last;
  std::uint64_t operations = 0, failures = 0, trees = 0, lines = 0;
  const auto report = [&](const std::string& what, const std::string& a, const std::string& b) {
    std::cout << "seed " << seed << ", operation " << operations << ": " << what
              << "\n  ours       " << a << "\n  reference  " << b << "\nThe operations before:\n";
    for (const std::string& text : last) std::cout << "  " << text << "\n";
    return 1;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (bool over = false; !over;) {
    over = std::chrono::steady_clock::now() >= end;
    const Operation operation = random_operation(random);
    const std::string a = mine.perform(operation), b = other.perform(operation);
    ++operations;
    failures += b.starts_with("E");
    last.push_back(to_text(operation) + ": " + b);
    if (last.size() > kRemembered) last.pop_front();
    if (a != b) return report("a result differs", a, b);
    if (operations % kBetweenTrees != 0 && !over) continue;
    const auto left = list_tree(mine.root()), right = list_tree(other.root());
    ++trees;
    lines += right.size();
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      const std::string x = i < left.size() ? left[i] : "nothing";
      const std::string y = i < right.size() ? right[i] : "nothing";
      if (x != y) return report("the trees differ", x, y);
    }
  }
  std::cout << "seed " << seed << ": " << operations << " operations agree (" << failures
            << " failed on both), and " << trees << " times the trees (" << lines << " lines)\n";
  return 0;
}

}  // namespace
}  // namespace s3oram::conformance

int main(int argc, char** argv) {
  std::uint64_t seed = std::random_device()();
  unsigned seconds = 60;
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--seconds") seconds = static_cast<unsigned>(std::atoi(argv[i + 1]));
  }
  if (argc < 3 || argc % 2 == 0) {
    std::cerr << "usage: compare_random OURS REFERENCE [--seed N] [--seconds S]\n";
    return 2;
  }
  return s3oram::conformance::compare(argv[1], argv[2], seed, seconds);
}
