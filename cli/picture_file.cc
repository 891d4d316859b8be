// Writes pictures of commands. They are SVG; rsvg-convert, in Debian's librsvg2-bin, draws them as
// PNG.
#include "cli/picture_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

constexpr const char* kConverter = "rsvg-convert";

bool is_png(const std::string& file) { return file.ends_with(".png"); }

Status check_converter(const std::string& file, const std::string& option) {
  const auto end = run_program({kConverter, "--version"}, STDOUT_FILENO, 256);
  if (end && end->succeeded()) return {};
  return fail(Errc::unsupported,
              "{} {}: {}, which draws PNGs, cannot be run; install librsvg2-bin, or give a name "
              "that ends in .svg",
              option, file, kConverter);
}

}  // namespace

Status check_picture(const std::string& file, const std::string& option, bool page) {
  if (!is_png(file) && !file.ends_with(".svg") && !(page && file.ends_with(".html")))
    return fail(Errc::usage, "{} {}: give a name that ends in {}.svg or .png", option, file,
                page ? ".html, " : "");
  if (is_png(file)) S3O_TRY(check_converter(file, option));
  std::error_code ignored;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(file, ignored));
  errno = 0;
  if (!std::ofstream(file, std::ios::app)) return system_failure(errno, "{} {}", option, file);
  if (!there) std::filesystem::remove(file, ignored);
  return {};
}

Status write_picture(const std::string& file, const std::string& svg) {
  if (!is_png(file)) {
    std::ofstream out(file);
    out << svg << std::flush;
    if (!out) return fail(Errc::failed, "{}: cannot be written", file);
    return {};
  }
  const Descriptor source(::memfd_create("picture", 0));  // the converter inherits it
  if (source.get() < 0 ||
      ::write(source.get(), svg.data(), svg.size()) != static_cast<ssize_t>(svg.size()))
    return system_failure(errno, "{}", file);
  S3O_ASSIGN(const auto end,
             run_program({kConverter, "--format=png", "--zoom=2", "--output=" + file,
                          fmt::format("/dev/fd/{}", source.get())}));
  if (!end.succeeded()) return fail(Errc::failed, "{}: {} could not draw it", file, kConverter);
  return {};
}

}  // namespace s3oram
