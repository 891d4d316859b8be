// The address at which a server listens, as users write it and as ZeroMQ takes it.
#pragma once

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Takes "HOST:PORT", "tcp://HOST:PORT" or "ipc://PATH" and returns one of the latter two forms.
/// HOST is a name (looked up as IPv4), an IPv4 address, an IPv6 address in brackets or, to listen
/// on every interface, "*". PORT is 1..65535 or, to listen on any free one, "*". PATH may have 107
/// bytes, so a relative one is best. Errors: usage.
Result<std::string> parse_endpoint(const std::string& text);

/// Whether an endpoint is TCP. Like the functions below, takes what parse_endpoint() returned.
bool is_tcp(const std::string& endpoint);
/// Whether a tcp endpoint needs IPv6 sockets.
bool wants_ipv6(const std::string& endpoint);
/// Returns the path of an ipc endpoint.
std::string ipc_path(const std::string& endpoint);

}  // namespace s3oram
