// The text that --json prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace s3oram {

/// Returns the document as text. Names of files and folders need not be UTF-8; bytes that are not
/// become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace s3oram
