// Reads the request to replace a server, and passes it on to the volume.
#include "fused/daemon/replace_server.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "fused/daemon/control_socket.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

constexpr std::string_view kReplace = "replace-server ";

struct Wanted {
  Party server = 0;
  ServerAddress address;
};

Result<Wanted> parse_request(const std::string& request) {
  Wanted wanted;
  const char* const end = request.data() + request.size();
  const auto number = std::from_chars(request.data() + kReplace.size(), end, wanted.server);
  const std::string rest(number.ptr, end);
  const auto comma = rest.rfind(',');
  if (number.ec != std::errc() || !rest.starts_with(' ') || comma == std::string::npos)
    return fail(Errc::usage, "write {}N HOST:PORT,KEY", kReplace);
  wanted.address.host_port = rest.substr(1, comma - 1);
  S3O_TRY(parse_endpoint("tcp://" + wanted.address.host_port));
  S3O_ASSIGN(wanted.address.key, parse_public_key(rest.substr(comma + 1)));
  return wanted;
}

}  // namespace

bool is_replacement(const std::string& request) { return request.starts_with(kReplace); }

std::string replace_server(Volume& volume, const std::string& request) {
  const auto wanted = parse_request(request);
  if (!wanted) return control_failure(wanted.error());
  const auto untold = volume.replace_server(wanted->server, wanted->address);
  if (!untold) return control_failure(untold.error());
  return control_answer({{"ok", true}, {"untold", *untold}});
}

}  // namespace s3oram
