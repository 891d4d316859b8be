// The control socket's request to replace a server.
#pragma once

#include <string>

#include "oramcore/volume/volume.h"

namespace s3oram {

/// Returns whether the request is "replace-server N HOST:PORT,KEY".
bool is_replacement(const std::string& request);

/// Replaces the server and returns the answer: {"ok":true,"untold":[N, ...]}, which lists the
/// servers that do not know of the new one yet.
std::string replace_server(Volume& volume, const std::string& request);

}  // namespace s3oram
