// Where the mounted file system may differ from the reference, and why. Each is asserted: a line
// that agrees although it is listed is an error too. docs/filesystem.md lists the same.
#pragma once

#include <span>
#include <string_view>

namespace s3oram::conformance {

struct KnownDifference {
  std::string_view test, line;  // the line as ours gives it, up to its ": "
  std::string_view ours, reference;
  std::string_view reason;
};

std::span<const KnownDifference> known_differences();

}  // namespace s3oram::conformance
