// What all parts of a server work on: one session, one store, one executor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>

#include "oramcore/net/rpc.h"
#include "serverd/oram/access_record.h"
#include "serverd/oram/root_buffer.h"
#include "serverd/oram/scheme.h"
#include "serverd/oram/server_metrics.h"
#include "serverd/oram/share_server.h"
#include "serverd/oram/store_database.h"
#include "serverd/store/bucket_store.h"
#include "serverd/store/group_sync.h"

namespace s3oram {

/// How long to wait for another server on behalf of a client that has other ways.
inline constexpr Duration kPeerPatience = std::chrono::seconds(10);

inline tl::unexpected<Error> malformed() { return fail(Errc::bad_request, "malformed request"); }
/// Returns an answer that says no more than that all went well.
inline Bytes done() { return Bytes(Rpc::kHeaderSize); }

/// It is wide because a server is one machine: each part (ServerRetrieval, ServerRoot,
/// ServerHeal, ServerLabels, ServerEviction, Sums) needs most of its fields. One executor; not
/// thread-safe.
struct ServerState {
  ServerState(Control opened, std::filesystem::path store, Party self,
              const ServerEnvironment& environment);

  /// There is a volume.
  const VolumeParams& params() const { return control.volume()->params; }
  /// Returns whether the same session is still open. To be asked again after every wait.
  bool goes_on(std::uint64_t epoch) const { return open && control.session().epoch == epoch; }
  /// Errors: need_open, fenced.
  Status check_session(std::uint64_t epoch) const;
  /// Checks that this server has committed the client's tree version. Errors: wrong_volume (the
  /// store was set back).
  Status check_evictions_until(std::uint64_t tree_version) const;
  Status check_tree_version(std::uint64_t tree_version) const;
  /// Bounds the masked shares and relayed parts of other servers that no request here wants yet.
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
  std::set<BucketIndex> damaged;  // buckets of the present tree version with a damaged slot

  // The session.
  bool open = false;                        // a session was opened since this process started
  std::uint16_t opening = 0;                // of this session, by the client's count
  std::size_t accesses = 0, evictions = 0;  // handlers under way
  Event handler_ended;
  Event changed;  // of sums, of relayed parts, of the root buffer; or the session ends

  Rpc rpc;
};

}  // namespace s3oram
