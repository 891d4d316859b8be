// The server's protocol engine: keeps one server's shares, answers retrievals, takes part in
// evictions. Runs on one executor; disk and arithmetic go to pools.
#pragma once

#include <filesystem>
#include <memory>

#include "oramcore/base/async.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/metrics.h"
#include "oramcore/base/random.h"
#include "oramcore/net/transport.h"
#include "serverd/store/access_log.h"

namespace s3oram {

/// Everything that a server does not own. All must outlive it.
struct ServerEnvironment {
  Executor executor;    // the server's own: one thread
  Executor pool;        // for what somebody waits for
  Executor background;  // for evictions; a pool of lower priority
  Executor readers;     // for reading buckets: as many at a time as it has threads, each a frame
  Clock& clock;
  Random& random;
  Transport& transport;
  Disk& disk = system_disk();
  std::uint64_t memory = usable_memory();  // bytes, of which it warns if they will not do
  std::size_t cache_bytes = default_cache_bytes(memory);  // of buckets in memory
  Metrics& metrics = unread_metrics();
  AccessLog* record = nullptr;  // of what is read and written; none if null
};

class ShareServer {
 public:
  /// Opens (or, if empty, starts) the store in the directory `store`, which the caller has locked.
  /// The store remembers which server of its volume it is; `self` must agree. A server whose shares
  /// are gone, although control.db has them, opens all the same and says so to everybody.
  static Result<std::unique_ptr<ShareServer>> open(const std::filesystem::path& store, Party self,
                                                   const ServerEnvironment& environment);
  virtual ~ShareServer() = default;

  /// Stops answering, waits for what the pool still does, makes everything durable. On `executor`.
  virtual Task<Status> stop() = 0;

  /// How many servers its volume has; none before there is one.
  virtual unsigned parties() const = 0;

  /// Keeps so many bytes of buckets in memory from now on. On `executor`.
  virtual void set_cache_bytes(std::size_t bytes) = 0;
  /// Looks whether the store is still what it was, and, if it is not, whether it has been put right
  /// meanwhile. Until then every request is answered by what is wrong with it. To be called every
  /// second or so, on `executor`.
  virtual void look_after_store() = 0;

  /// Brings its gauges up to date, and counters that others count. On `executor`.
  virtual void gauge() = 0;
};

}  // namespace s3oram
