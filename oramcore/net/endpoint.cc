// Parses the endpoints at which servers listen, and takes them apart.
#include "oramcore/net/endpoint.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";
constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

bool is_port(std::string_view text) {
  if (text == "*") return true;
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

// Others send us addresses, which are shown on terminals and kept in files of lines, so no byte may
// act there.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return byte > ' ' && byte <= '~'; });
}

bool is_host(std::string_view text) {
  const bool bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  if (bracketed) {
    text = text.substr(1, text.size() - 2);
    const auto zone = text.find('%');  // the name of an interface, as in fe80::1%eth0
    if (text.substr(0, zone).find_first_not_of("0123456789abcdefABCDEF:.") !=
        std::string_view::npos)
      return false;
    if (zone != std::string_view::npos) text = text.substr(zone + 1);
  }
  // ZeroMQ reads ';' as "from this source address", and '/' is a remnant of a URL.
  return !text.empty() && is_plain(text) && text.find_first_of("/;,[]") == std::string_view::npos &&
         (bracketed || text.find(':') == std::string_view::npos);
}

}  // namespace

Result<std::string> parse_endpoint(const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with(kIpc)) {
    const auto path = rest.substr(kIpc.size());
    // ZeroMQ gives names that begin with @ or * a special meaning, in which no directory protects
    // them.
    if (path.empty() || path.front() == '@' || path.front() == '*')
      return fail(Errc::usage, "endpoint {}: ipc:// needs the path of a socket", printable(text));
    if (std::ranges::any_of(path, [](char byte) { return (byte & 0xff) < ' ' || byte == 0x7f; }))
      return fail(Errc::usage, "endpoint {}: the path has a control character", printable(text));
    if (path.size() > kLongestPath)
      return fail(Errc::usage,
                  "endpoint {}: the path has {} bytes, but a socket's may have {}; give it "
                  "relative to the working directory",
                  printable(text), path.size(), kLongestPath);
    return text;
  }
  if (rest.starts_with(kTcp)) rest.remove_prefix(kTcp.size());
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || !is_host(rest.substr(0, colon)) ||
      !is_port(rest.substr(colon + 1)))
    return fail(Errc::usage,
                "endpoint {}: write HOST:PORT with a port from 1 to 65535 (an IPv6 address in "
                "brackets), or ipc://PATH",
                printable(text));
  return std::string(kTcp) + std::string(rest);
}

bool is_tcp(const std::string& endpoint) { return endpoint.starts_with(kTcp); }

bool wants_ipv6(const std::string& endpoint) {
  return endpoint.starts_with("tcp://[") || endpoint.starts_with("tcp://*");
}

std::string ipc_path(const std::string& endpoint) { return endpoint.substr(kIpc.size()); }

}  // namespace s3oram
