// Runs qrencode to draw the code. The text reaches it through a file in memory, because any user of
// the machine can see a command line.
#include "cli/qr_code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

constexpr const char* kQrProgram = "qrencode";
constexpr std::size_t kLargestCode = 4 << 20;

}  // namespace

Status check_qr(const std::string& option) {
  const auto end = run_program({kQrProgram, "--version"}, STDOUT_FILENO, 256);
  if (end && end->succeeded()) return {};
  return fail(Errc::unsupported, "{}: {} cannot be run; install the package qrencode", option,
              kQrProgram);
}

Result<std::string> qr_code(const std::string& text, QrKind kind) {
  const Descriptor file(::memfd_create("qr", MFD_CLOEXEC));
  if (file.get() < 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    return system_failure(errno, "a file in memory");
  const char* type = kind == QrKind::terminal ? "ANSIUTF8" : "SVG";
  S3O_ASSIGN(const auto end, run_program({kQrProgram, "-8", "-t", type, "-o", "-"}, STDOUT_FILENO,
                                         kLargestCode, file.get()));
  if (!end.succeeded()) return fail(Errc::failed, "{} has failed", kQrProgram);
  std::string code(end.said.begin(), end.said.end());
  if (const auto image = code.find("<svg"); kind == QrKind::svg && image != std::string::npos)
    code.erase(0, image);  // drops the XML declarations before the image
  return code;
}

}  // namespace s3oram
