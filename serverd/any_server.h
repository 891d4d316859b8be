// The server of a store, of whichever scheme its volume is.
#pragma once

#include "serverd/oram/share_server.h"

namespace s3oram {

/// Opens the store in the directory `store`, which the caller has locked, or starts an empty one.
/// The scheme of the store's volume decides which server it is. While no client has ever used a
/// volume there, the scheme of the one that a client is about to make decides. Errors: those of the
/// servers; unsupported (a ring's server is to record what it reads).
Result<std::unique_ptr<ShareServer>> open_server(const std::filesystem::path& store, Party self,
                                                 const ServerEnvironment& environment);

}  // namespace s3oram
