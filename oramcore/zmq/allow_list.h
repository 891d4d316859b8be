// The addresses that may connect to a server.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <string>
#include <variant>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// An IPv4 or IPv6 network; a single address is the smallest one.
using Network = std::variant<asio::ip::network_v4, asio::ip::network_v6>;

/// Reads "ADDRESS" or "ADDRESS/BITS", in numbers. Errors: usage.
Result<Network> parse_network(const std::string& text);

/// Returns the IPv4 address for one that is mapped into IPv6 (::ffff:a.b.c.d), and any other
/// address unchanged.
asio::ip::address plain(const asio::ip::address& address);

/// Returns whether `address` is in one of the networks. An empty list admits every address.
bool is_allowed(const std::vector<Network>& networks, const asio::ip::address& address);

}  // namespace s3oram
