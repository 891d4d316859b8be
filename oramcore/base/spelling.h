// Guesses which word somebody has mistyped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace s3oram {

/// The one of `words` that is nearest to `typed`, by letters put in, left out or changed; empty if
/// none is so near that it may be a slip of the pen.
std::string nearest_word(std::string_view typed, const std::vector<std::string>& words);

}  // namespace s3oram
