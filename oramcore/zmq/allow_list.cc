// Parses the addresses that may connect to a server.
#include "oramcore/zmq/allow_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace s3oram {
namespace {

using boost::system::error_code;

std::optional<unsigned short> parse_bits(std::string_view text, unsigned short most) {
  unsigned short bits = 0;
  const char* end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, bits);
  if (wrong != std::errc() || rest != end || bits > most) return std::nullopt;
  return bits;
}

/// Returns whether no bit is set after the prefix. If one is, the text is more likely a mistake
/// than a network.
bool is_exact(const Network& network) {
  return std::visit([](const auto& one) { return one == one.canonical(); }, network);
}

std::string to_string(const Network& network) {
  return std::visit([](const auto& one) { return one.canonical().to_string(); }, network);
}

}  // namespace

Result<Network> parse_network(const std::string& text) {
  const auto slash = text.find('/');
  error_code error;
  const auto address = asio::ip::make_address(text.substr(0, slash), error);
  const unsigned short most = !error && address.is_v6() ? 128 : 32;
  const auto bits = slash == std::string::npos
                        ? std::optional(most)
                        : parse_bits(std::string_view(text).substr(slash + 1), most);
  if (error || !bits || (address.is_v6() && address.to_v6().scope_id() != 0))
    return fail(Errc::usage,
                "{}: give an address or a network in numbers, like 192.0.2.7, 192.0.2.0/24 or "
                "2001:db8::/32",
                text);
  const Network network = address.is_v4() ? Network(asio::ip::network_v4(address.to_v4(), *bits))
                                          : Network(asio::ip::network_v6(address.to_v6(), *bits));
  if (slash != std::string::npos && !is_exact(network))
    return fail(Errc::usage, "{}: the address has bits after the first {}; write {}", text, *bits,
                to_string(network));
  return network;
}

asio::ip::address plain(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return address;
}

bool is_allowed(const std::vector<Network>& networks, const asio::ip::address& address) {
  if (networks.empty()) return true;
  const auto from = plain(address);
  return std::ranges::any_of(networks, [&](const Network& network) {
    if (const auto* v4 = std::get_if<asio::ip::network_v4>(&network))
      return from.is_v4() &&
             asio::ip::network_v4(from.to_v4(), v4->prefix_length()).canonical() == *v4;
    const auto& v6 = std::get<asio::ip::network_v6>(network);
    return from.is_v6() &&
           asio::ip::network_v6(asio::ip::address_v6(from.to_v6().to_bytes()), v6.prefix_length())
                   .canonical() == v6;
  });
}

}  // namespace s3oram
