// A text in numbered lines for printing on paper, which a person can type in or scan:
//
//   1/42  4KD2M 0Q8RZ 77ABC 1JXKE 9VT3W 5N0PH ... 6GYF
//
// The letters are those of Crockford's base 32, which lacks I, L, O and U. When a line is read, I
// and L count as 1, O counts as 0, and lower-case letters count as upper-case ones. The last four
// letters are a checksum of the line and its number. Each line holds 25 bytes; the lines together
// hold the text, followed by 8 bytes of its BLAKE2b hash. Lines may come in any order, more than
// once, and between other text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns the lines of a sheet for `text`.
std::vector<std::string> sheet_lines(const std::string& text);

/// Returns whether `text` has a line that looks like one of a sheet.
bool is_sheet(const std::string& text);

/// Returns the text of a sheet that was typed or scanned into the file `path`. Errors:
/// damaged_vault (names the lines that are wrong or missing).
Result<std::string> read_sheet(const std::string& text, const std::filesystem::path& path);

}  // namespace s3oram
