#include "tests/conformance/known_differences.h"

namespace s3oram::conformance {

std::span<const KnownDifference> known_differences() { return {}; }

}  // namespace s3oram::conformance
