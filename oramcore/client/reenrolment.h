// Re-enrols servers whose stores are lost: opens a session with the others, brings them to the
// client's tree version, asks them which buckets exist, and tells the lost ones. After that the
// volume can be opened. All shares of the re-enrolled servers count as damaged, and are healed like
// any others (healer.h).
#pragma once

#include <set>
#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

using Buckets = std::vector<BucketShape>;

/// Merges another server's answer, which must equal the previous ones except for stamps that a
/// store of an older format does not know. Errors: corrupt.
Status merge_layouts(Buckets& all, const Buckets& other);

/// Asks a server for the buckets of the client's tree version, at most `part` of them per message.
Task<Result<Buckets>> layout_at(Servers& servers, Party server, std::uint64_t epoch,
                                const TreeState& tree, const VolumeParams& params,
                                std::uint32_t part, Duration patience);

/// Fills in up to `part` buckets after the first `request.from`, and whether they are the last.
void take_part(const Buckets& buckets, std::uint32_t part, ReenrolRequest& request);

/// Used once. One executor; not thread-safe.
class Reenrolment {
 public:
  /// `state` is open, and can be loaded again afterwards. Both must outlive this. A message lists
  /// at most `part` buckets.
  Reenrolment(const ClientEnvironment& environment, const VolumeId& volume,
              const VolumeParams& params, ClientState& state,
              std::uint32_t part = LayoutRequest::kMost);

  /// Checks that enough servers are left. Errors: damaged_vault.
  static Status check_enough(const VolumeParams& params, std::size_t lost);

  /// Re-enrols the servers `lost`, which hold no volume. The others, at least t + 1, must hold the
  /// newest tree version or the one before. A mirror can do without some that do not answer. Can be
  /// interrupted at any point, and started again. Errors: unreachable, stale_vault, wrong_volume,
  /// unsupported (a server's version cannot do this), damaged_vault (too many are lost), corrupt
  /// (the others do not agree).
  Task<Status> run(std::set<Party> lost, Duration patience);
  /// Checks that the volume can do without the servers that do not answer while the stores of
  /// `unfit` are rebuilt. Errors: unreachable, those of ClientState::load().
  Task<Status> check_present(std::set<Party> unfit, Duration patience);
  /// Makes run() end soon, with shutting_down.
  void stop() { servers_.stop(); }

 private:
  Task<Result<std::set<Party>>> find_absent(const std::set<Party>& without, Duration patience);
  Task<Status> open(const std::set<Party>& lost, std::vector<Session> known, Duration patience);
  Task<Result<Buckets>> layout(const std::set<Party>& lost, Duration patience);
  Task<Status> tell(Party server, const Buckets& buckets, Duration patience);

  ClientEnvironment environment_;
  VolumeId volume_;
  VolumeParams params_;
  ClientState& state_;
  std::uint32_t part_;
  Servers servers_;
  TreeState tree_;
  std::vector<std::uint64_t> root_;  // as in OpenRequest
  Session session_;
};

}  // namespace s3oram
