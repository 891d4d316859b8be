// s3oramfs invite: makes a vault whose servers are run by other people, each of whom pastes one
// string.
#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/init.h"
#include "cli/qr_code.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

Status show(const std::vector<Invitation>& invitations, bool qr) {
  for (const Invitation& invitation : invitations) {
    const std::string text = to_text(invitation);
    std::cout << fmt::format(
        "Server {}, at {}. Its provider runs:\n\n  s3oramfs-serverd join {}\n\n",
        unsigned{invitation.server}, invitation.host_port, text);
    if (!qr) continue;
    S3O_ASSIGN(const auto code, qr_code(text, QrKind::terminal));
    std::cout << code;
  }
  std::cout << "Send each string only to its provider, over a channel that no one else can read.\n"
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
      "Creates a vault on servers that other people run: prints a string for each,\n"
      "which they pass to s3oramfs-serverd join, and waits until all have done so.\n"
      "If it is interrupted, run it again: it continues.",
      "s3oramfs invite");
  InitOptions options;
  bool qr = false;
  app.add_option("VAULT", options.vault, "The directory to create, or an empty one")->required();
  app.add_option("SERVER", options.invited, "HOST:PORT of each server")
      ->required()
      ->expected(1, 127);
  app.add_flag("--qr", qr, "Also show each string as a QR code");
  add_volume_options(app, options);
  options.patience.add_to(app);
  S3O_ASSIGN(const auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_TRY(check_addresses(options.invited));
  if (qr) S3O_TRY(check_qr("--qr"));
  options.deliver = [qr](const std::vector<Invitation>& missing, const std::vector<Invitation>&) {
    return missing.empty() ? Status{} : show(missing, qr);
  };
  return make_vault(options);
}

}  // namespace s3oram
