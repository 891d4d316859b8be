// A page that a command writes, or only the picture in it; the file's suffix says which.
#pragma once

#include <functional>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

class PageFile {
 public:
  /// Checks that `file` ends in .html, .svg or .png, and can be written. Call it before measuring
  /// what the page shows. A relative name refers to the current working directory. Errors: those of
  /// check_picture().
  static Result<PageFile> check(const std::string& file);

  /// Writes `picture`, an SVG image, or what `page` returns. Errors: failed.
  Status write(const std::string& picture, const std::function<std::string()>& page) const;

 private:
  explicit PageFile(std::string file) : file_(std::move(file)) {}
  std::string file_;
};

}  // namespace s3oram
