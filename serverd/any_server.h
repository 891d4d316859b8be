// Opens the server of a store, whatever scheme its volume has.
#pragma once

#include "serverd/oram/share_server.h"

namespace s3oram {

/// Opens the store in the directory `store`, which the caller has locked, or starts an empty one.
/// The scheme of the store's volume decides which server it gets. As long as no client has used a
/// volume in the store, the scheme of the volume that a client is about to make decides instead.
/// Errors: those of the servers; unsupported (a ring's server should record what it reads).
Result<std::unique_ptr<ShareServer>> open_server(const std::filesystem::path& store, Party self,
                                                 const ServerEnvironment& environment);

}  // namespace s3oram
