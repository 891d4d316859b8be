// A text in numbered lines for paper, that a person types or scans again:
//
//   1/42  4KD2M 0Q8RZ 77ABC 1JXKE 9VT3W 5N0PH ... 6GYF
//
// The letters are those of Crockford's base 32: there is no I, L, O and U; in reading, I and L
// count as 1, O as 0, and small letters as large ones. The last four are a checksum of the line,
// with its number. A line holds 25 bytes of the text, with 8 bytes of BLAKE2b of it at the end.
// Lines may come in any order, more than once, and between other text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns the lines of a sheet for `text`.
std::vector<std::string> sheet_lines(const std::string& text);

/// Returns whether `text` has a line as of a sheet.
bool is_sheet(const std::string& text);

/// Returns the text for which a sheet was made that has been typed or scanned into the file `path`.
/// Errors: damaged_vault (names the lines that are wrong or missing).
Result<std::string> read_sheet(const std::string& text, const std::filesystem::path& path);

}  // namespace s3oram
