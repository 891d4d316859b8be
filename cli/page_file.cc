// Checks and writes pages. Pages share the checks of pictures, but are written as plain text.
#include "cli/page_file.h"

#include <filesystem>
#include <fstream>

#include "cli/picture_file.h"

namespace s3oram {
namespace {

bool is_page(const std::string& file) { return file.ends_with(".html"); }

}  // namespace

Result<PageFile> PageFile::check(const std::string& file) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(file, error).string();
  if (error) return fail(Errc::failed, "--output {}: {}", file, error.message());
  S3O_TRY(check_picture(absolute, "--output", true));
  return PageFile(absolute);
}

Status PageFile::write(const std::string& picture, const std::function<std::string()>& page) const {
  return write_picture(file_, is_page(file_) ? page() : picture);
}

}  // namespace s3oram
