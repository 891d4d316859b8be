// The server's protocol engine: keeps one server's shares, answers retrievals, takes part in
// evictions. Runs on one executor; disk and arithmetic go to pools.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "oramcore/base/async.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/metrics.h"
#include "oramcore/base/random.h"
#include "oramcore/net/transport.h"
#include "serverd/oram/scheme.h"
#include "serverd/store/access_log.h"

namespace s3oram {

/// What a server uses and does not own. All of it must outlive the server.
struct ServerEnvironment {
  Executor executor;    // the server's own: one thread
  Executor pool;        // for work that a request waits for
  Executor background;  // for evictions; a pool of lower priority
  Executor readers;     // for reading buckets: each of its threads holds one bucket version
  Clock& clock;
  Random& random;
  Transport& transport;
  Disk& disk = system_disk();
  std::uint64_t memory = usable_memory();                 // bytes; it warns if they are too few
  std::size_t cache_bytes = default_cache_bytes(memory);  // of buckets in memory
  Metrics& metrics = unread_metrics();
  AccessLog* record = nullptr;  // of what is read and written; none if null
  /// Notes another server's address and key, "N=HOST:PORT,KEY", and uses them from now on. Empty
  /// where they never change.
  std::function<Status(const std::string& peer)> take_peer = {};
};

class ShareServer {
 public:
  /// Opens the store in the directory `store`, which the caller has locked, or starts an empty one.
  /// The store knows which server of its volume it is; `self` must agree. A server whose shares are
  /// gone, although control.db lists them, opens nevertheless and says so in every answer.
  static Result<std::unique_ptr<ShareServer>> open(const std::filesystem::path& store, Party self,
                                                   ServerSchemes schemes,
                                                   const ServerEnvironment& environment);
  virtual ~ShareServer() = default;

  /// Stops answering, waits for the pool, and makes everything durable. On `executor`.
  virtual Task<Status> stop() = 0;

  /// The number of servers of its volume; 0 before there is one.
  virtual unsigned parties() const = 0;
  /// Whether a client has ever opened the store's volume. If not, another volume may take its
  /// place.
  virtual bool is_used() const = 0;

  /// Keeps so many bytes of buckets in memory from now on. On `executor`.
  virtual void set_cache_bytes(std::size_t bytes) = 0;
  /// Checks that the store is still what it was and, if not, whether it has been put right. Until
  /// then every request is answered with the error. To be called about every second, on `executor`.
  virtual void look_after_store() = 0;

  /// Updates its gauges, and counters that are kept elsewhere. On `executor`.
  virtual void gauge() = 0;
};

}  // namespace s3oram
