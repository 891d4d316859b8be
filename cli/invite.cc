// s3oramfs invite: makes a vault whose servers are run by others, each of whom pastes one string.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "cli/command.h"
#include "cli/init.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

constexpr const char* kQrProgram = "qrencode";

Status check_qr() {
  const auto end = run_program({kQrProgram, "--version"}, STDERR_FILENO, 256);
  if (end && end->succeeded()) return {};
  return fail(Errc::unsupported, "--qr: {} cannot be run: install the package qrencode",
              kQrProgram);
}

/// The text reaches the program through a file in memory: a command line is there for all to see.
Status show_qr(const std::string& text) {
  const Descriptor file(::memfd_create("invitation", MFD_CLOEXEC));
  if (file.get() < 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    return system_failure(errno, "--qr");
  std::cout << std::flush;
  S3O_ASSIGN(const auto end,
             run_program({kQrProgram, "-t", "ANSIUTF8", "-o", "-"}, -1, 0, file.get()));
  if (!end.succeeded()) return fail(Errc::failed, "--qr: {} has failed", kQrProgram);
  return {};
}

Status show(const std::vector<Invitation>& invitations, bool qr) {
  for (const Invitation& invitation : invitations) {
    const std::string text = to_text(invitation);
    std::cout << fmt::format(
        "Server {}, at {}. Its provider runs:\n\n  s3oramfs-serverd join {}\n\n",
        unsigned{invitation.server}, invitation.host_port, text);
    if (qr) S3O_TRY(show_qr(text));
  }
  std::cout << "Send each string to its provider alone, by a way that others do not read.\n"
            << std::flush;
  return {};
}

Status check_addresses(const std::vector<std::string>& addresses) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::string& address = addresses[i];
    if (address.find('*') != std::string::npos || !parse_endpoint("tcp://" + address))
      return fail(Errc::usage, "{}: not of the form HOST:PORT (an IPv6 address in brackets)",
                  address);
    if (std::find(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(i), address) !=
        addresses.begin() + static_cast<std::ptrdiff_t>(i))
      return fail(Errc::usage, "{}: given twice: each server has its own address", address);
  }
  return {};
}

}  // namespace

Status run_invite(const Args& args) {
  CLI::App app(
      "Makes a vault on servers that others run: shows a string for each, which they\n"
      "give to s3oramfs-serverd join, and waits until all have. Run again, it goes on.",
      "s3oramfs invite");
  InitOptions options;
  bool qr = false;
  app.add_option("VAULT", options.vault, "The directory to make; may exist if it is empty")
      ->required();
  app.add_option("SERVER", options.invited, "HOST:PORT at which it will be; one or more")
      ->required()
      ->expected(1, 127);
  app.add_flag("--qr", qr, "Show each string as a QR code too");
  add_volume_options(app, options);
  options.patience.add_to(app);
  S3O_ASSIGN(const auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_TRY(check_addresses(options.invited));
  if (qr) S3O_TRY(check_qr());
  options.deliver = [qr](const std::vector<Invitation>& invitations) {
    return show(invitations, qr);
  };
  return make_vault(options);
}

}  // namespace s3oram
