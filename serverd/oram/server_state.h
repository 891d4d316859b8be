// The state that all parts of a server share: one session, one store, one executor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>

#include "oramcore/net/rpc.h"
#include "serverd/oram/access_record.h"
#include "serverd/oram/root_buffer.h"
#include "serverd/oram/server_metrics.h"
#include "serverd/oram/server_scheme.h"
#include "serverd/oram/share_server.h"
#include "serverd/oram/store_database.h"
#include "serverd/store/bucket_store.h"
#include "serverd/store/group_sync.h"

namespace s3oram {

/// The time to wait for another server on behalf of a client, which can do without that server.
inline constexpr Duration kPeerPatience = std::chrono::seconds(10);

inline tl::unexpected<Error> malformed() { return fail(Errc::bad_request, "malformed request"); }
/// Returns an answer that says only that the request succeeded.
inline Bytes done() { return Bytes(Rpc::kHeaderSize); }

/// It is wide because a server is one machine: each part (ServerRetrieval, ServerRoot, ServerHeal,
/// ServerLabels, ServerEviction, Sums) needs most of its fields. Used on one executor; not
/// thread-safe.
struct ServerState {
  ServerState(Control opened, std::filesystem::path store, Party self,
              const ServerEnvironment& environment);

  /// There must be a volume.
  const VolumeParams& params() const { return control.volume()->params; }
  /// Returns whether the same session is still open. Ask again after every wait.
  bool goes_on(std::uint64_t epoch) const { return open && control.session().epoch == epoch; }
  /// Errors: need_open.
  Status check_open() const;
  /// Errors: need_open, fenced.
  Status check_session(std::uint64_t epoch) const;
  /// Checks that this server has committed all evictions before `tree_version`. Errors:
  /// wrong_volume (the store was rolled back).
  Status check_evictions_until(std::uint64_t tree_version) const;
  Status check_tree_version(std::uint64_t tree_version) const;
  /// Returns a bound on the masked shares and relayed parts of other servers that no request here
  /// wants yet.
  std::size_t most_under_way() const;

  Control control;
  const std::filesystem::path directory;
  const Party self;
  Executor executor, pool, background, readers;
  Clock& clock;
  Random& random;
  Disk& disk;
  Transport& transport;
  const std::uint64_t memory;
  std::size_t cache_bytes;
  ServerMetrics metrics;
  ServerRecord record;

  // While the volume's slots are open.
  std::unique_ptr<ServerScheme> scheme;
  std::unique_ptr<BucketStore> bucket_store;
  std::unique_ptr<GroupSync> sync;
  RootBuffer root_buffer;
  std::set<BucketIndex> damaged;  // buckets of the current tree version with a damaged slot

  // The session.
  bool open = false;                        // a session has been opened since this process started
  std::uint16_t opening = 0;                // the number of this opening of the session
  std::size_t accesses = 0, evictions = 0;  // handlers under way
  Event handler_ended;
  Event changed;  // sums, relayed parts or the root buffer changed, or the session ended

  Rpc rpc;
};

}  // namespace s3oram
