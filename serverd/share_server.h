// The server's protocol engine: keeps one server's shares, answers retrievals, takes part in
// evictions. Runs on one executor; disk and arithmetic go to the pool.
#pragma once

#include <filesystem>
#include <memory>

#include "oramcore/base/async.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/wire/transport.h"

namespace s3oram {

class ShareServer {
 public:
  /// Opens (or, if empty, starts) the store in the directory `store`, which the caller has locked.
  /// The store remembers which server of its volume it is; `self` must agree.
  /// Everything passed in must outlive the server.
  static Result<std::unique_ptr<ShareServer>> open(const std::filesystem::path& store, Party self,
                                                   Executor executor, Executor pool, Clock& clock,
                                                   Random& random, Transport& transport,
                                                   Disk& disk = system_disk());
  virtual ~ShareServer() = default;

  /// Stops answering, waits for what the pool still does, makes everything durable. On `executor`.
  virtual Task<Status> stop() = 0;
};

}  // namespace s3oram
