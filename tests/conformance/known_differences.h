// The differences that the mounted file system may have from the reference, and the reasons. Each
// difference is asserted: it is an error if a listed line agrees. docs/filesystem.md lists the same
// differences.
#pragma once

#include <span>
#include <string_view>

namespace s3oram::conformance {

struct KnownDifference {
  std::string_view test, line;  // the line that ours gives, up to its ": "
  std::string_view ours, reference;
  std::string_view reason;
};

std::span<const KnownDifference> known_differences();

}  // namespace s3oram::conformance
