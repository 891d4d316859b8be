// The address at which a server listens, as users write it and as ZeroMQ expects it.
#pragma once

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Accepts "HOST:PORT", "tcp://HOST:PORT" or "ipc://PATH", and returns one of the latter two forms.
/// HOST is a name (looked up as IPv4), an IPv4 address, an IPv6 address in brackets or, to listen
/// on every interface, "*". PORT is 1..65535 or, to listen on any free port, "*". PATH may have 107
/// bytes, so a relative path is best. Errors: usage.
Result<std::string> parse_endpoint(const std::string& text);

/// Returns whether an endpoint is TCP. Like the functions below, it expects a result of
/// parse_endpoint().
bool is_tcp(const std::string& endpoint);
/// Returns whether a TCP endpoint needs IPv6 sockets.
bool wants_ipv6(const std::string& endpoint);
/// Returns the path of an ipc endpoint.
std::string ipc_path(const std::string& endpoint);

}  // namespace s3oram
