// The server's protocol engine: keeps one server's shares, answers retrievals, and takes part in
// evictions. Runs on one executor; disk and arithmetic work goes to pools.
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
#include "serverd/oram/server_scheme.h"
#include "serverd/store/access_log.h"

namespace s3oram {

/// The objects that a server uses and does not own. All of them must outlive the server.
struct ServerEnvironment {
  Executor executor;    // runs the server's coroutines, on one thread
  Executor pool;        // runs work that a request waits for
  Executor background;  // runs evictions; a pool of lower priority
  Executor readers;     // reads buckets; each of its threads holds one bucket version
  Clock& clock;
  Random& random;
  Transport& transport;
  Disk& disk = system_disk();
  std::uint64_t memory = usable_memory();                 // bytes; it warns if they are too few
  std::size_t cache_bytes = default_cache_bytes(memory);  // bytes of buckets in memory
  Metrics& metrics = unread_metrics();
  AccessLog* record = nullptr;  // records what is read and written; null if nothing does
  /// Stores another server's address and key, "N=HOST:PORT,KEY", and uses them from now on. Empty
  /// if addresses never change.
  std::function<Status(const std::string& peer)> take_peer = {};
};

class ShareServer {
 public:
  /// Opens the store in the directory `store`, which the caller has locked, or starts an empty one.
  /// The store knows the number of its server; `self` must agree. A server whose shares are gone,
  /// although control.db lists them, still opens, and says so in every answer.
  static Result<std::unique_ptr<ShareServer>> open(const std::filesystem::path& store, Party self,
                                                   ServerSchemes schemes,
                                                   const ServerEnvironment& environment);
  virtual ~ShareServer() = default;

  /// Stops answering, waits for the pool, and makes everything durable. Call it on `executor`.
  virtual Task<Status> stop() = 0;

  /// Returns the number of servers of the volume; 0 before there is a volume.
  virtual unsigned parties() const = 0;
  /// Returns whether a client has ever opened the store's volume. If not, another volume may take
  /// its place.
  virtual bool is_used() const = 0;

  /// Sets how many bytes of buckets to keep in memory. Call it on `executor`.
  virtual void set_cache_bytes(std::size_t bytes) = 0;
  /// Checks that the store is still the one that was opened. If it is not, every request is
  /// answered with the error until a later call finds the store put right. Call it about every
  /// second, on `executor`.
  virtual void look_after_store() = 0;

  /// Updates the gauges, and counters that are kept elsewhere. Call it on `executor`.
  virtual void gauge() = 0;
};

}  // namespace s3oram
