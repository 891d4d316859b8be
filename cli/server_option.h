// --server HOST:PORT,KEY.
#pragma once

#include <string>
#include <vector>

#include "oramcore/state/vault.h"

namespace s3oram {

/// The servers in order. Errors: usage; also where an address or key comes twice, because one
/// server with two shares would learn everything.
Result<std::vector<ServerAddress>> parse_servers(const std::vector<std::string>& options);

}  // namespace s3oram
