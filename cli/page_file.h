// A page that a command writes, or the picture in it: the name's suffix says which.
#pragma once

#include <functional>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

class PageFile {
 public:
  /// `file` ends in .html, .svg or .png, and can be written: to be asked before what it shows is
  /// measured. A relative name means the directory that is the working directory now. Errors: as
  /// check_picture().
  static Result<PageFile> check(const std::string& file);

  /// Writes `picture`, an SVG image, or what `page` returns. Errors: failed.
  Status write(const std::string& picture, const std::function<std::string()>& page) const;

 private:
  explicit PageFile(std::string file) : file_(std::move(file)) {}
  std::string file_;
};

}  // namespace s3oram
