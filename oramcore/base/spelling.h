// Guesses which word was mistyped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace s3oram {

/// Returns the word in `words` that is nearest to `typed`, counting inserted, omitted and changed
/// letters; empty if none is near enough to be a typing error.
std::string nearest_word(std::string_view typed, const std::vector<std::string>& words);

}  // namespace s3oram
