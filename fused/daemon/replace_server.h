// The control socket's request to replace a server.
#pragma once

#include <string>

#include "oramcore/volume/volume.h"

namespace s3oram {

/// Whether the request is one to replace a server: "replace-server N HOST:PORT,KEY".
bool is_replacement(const std::string& request);

/// Does it, and returns the answer: {"ok":true,"untold":[N, ...]}, with the servers that do not
/// know of the new one yet.
std::string replace_server(Volume& volume, const std::string& request);

}  // namespace s3oram
