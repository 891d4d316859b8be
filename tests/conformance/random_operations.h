// Random file operations, and their results as text that does not depend on the file system.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace s3oram::conformance {

struct Operation {
  int kind = 0;
  std::string path, other;
  unsigned flags = 0;
  std::uint64_t offset = 0, length = 0;
  unsigned number = 0;  // a descriptor's slot, a mode or a seed for bytes
  unsigned slot = 0, second_slot = 0;
};

Operation random_operation(std::mt19937_64& random);
std::string to_text(const Operation& operation);

/// A directory in which operations run, with paths relative to it.
class World {
 public:
  explicit World(const std::string& root);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Returns the results: numbers, names of errnos, sums of contents.
  std::string perform(const Operation& operation);
  int root() const { return root_; }

  static constexpr unsigned kSlots = 6;

 private:
  int root_;
  std::array<int, kSlots> files_;
};

}  // namespace s3oram::conformance
