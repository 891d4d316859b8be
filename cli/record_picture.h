// Pictures of what a server reads and writes.
#pragma once

#include <string>
#include <vector>

#include "cli/record_findings.h"

namespace s3oram {

/// An SVG image of several stretches side by side: what a plain server sees, what this one sees,
/// and what shows against the clock; and beneath, `table`.
std::string comparison_picture(const std::vector<RecordStretch>& stretches,
                               const FindingsTable& table);

/// One of a single record.
std::string record_picture(const RecordStretch& stretch, const FindingsTable& table);

/// A page around a picture, which needs nothing else: no file, no network and no script.
/// `paragraphs` and the table's cells are plain text.
std::string record_page(const std::string& title, const std::vector<std::string>& before,
                        const std::string& picture, const FindingsTable& table,
                        const std::vector<std::string>& after);

}  // namespace s3oram
