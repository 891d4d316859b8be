// Pictures of what a server reads and writes.
#pragma once

#include <string>
#include <vector>

#include "cli/record_findings.h"

namespace s3oram {

/// Returns an SVG image of several stretches side by side: what a plain server sees, what this one
/// sees, and what the timing shows; `table` is below.
std::string comparison_picture(const std::vector<RecordStretch>& stretches,
                               const FindingsTable& table);

/// Returns an image of a single record.
std::string record_picture(const RecordStretch& stretch, const FindingsTable& table);

/// Returns a page around a picture. The page needs no other files, no network and no script. The
/// paragraphs `before` and `after` and the table's cells are plain text.
std::string record_page(const std::string& title, const std::vector<std::string>& before,
                        const std::string& picture, const FindingsTable& table,
                        const std::vector<std::string>& after);

}  // namespace s3oram
