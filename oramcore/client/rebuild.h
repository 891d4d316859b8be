// Rebuilds a client's lost state from what the servers hold: the tree version, and every block's
// place and leaf, taken from the labels beside the sealed blocks (protocol/label.h).
//
// Brings the servers to the newest tree version that t + 1 of them have reached, makes the slots of
// the root buffer whole, and reads all labels, bucket by bucket. A mirror is rebuilt from those of
// its servers that answer and hold the volume, if they are enough to open it (in_step.h); the
// others are recorded as left out, and catch up later. The servers learn nothing beyond these
// steps. Finds every block that all servers had acknowledged, in its newest version; a write
// that was under way may be found or not. Blocks in the client's own stash are not found.
//
// Until the caller stores the state, nothing has changed but the servers' session and shares that
// servers lacked, so a rebuild can be interrupted at any point and started again. If an earlier
// state can still be read and was the last one used, the new session is recorded in it, and it
// decides which tree version counts. It can be used as before until the new state is stored.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oramcore/client/agreement.h"
#include "oramcore/client/client_scheme.h"
#include "oramcore/client/client_state.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/testimony.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

struct Rebuilt {
  ClientState::Loaded state;    // what ClientState::create() takes
  std::vector<BlockId> backup;  // the blocks that belong to a backup, ascending
  /// Slots on which no t + 1 servers agree, so that their content is lost. (The content may be a
  /// write that was under way, if one of the few servers that had it has damaged it.)
  std::uint64_t damaged = 0;
  bool former_was_last = false;  // nobody has used the volume since the earlier state
};

struct FormerState {
  ClientState state;
  ClientState::Loaded loaded;  // loaded from `state`

  /// Loads the earlier state. Errors: those of ClientState's open() and load().
  static Result<FormerState> load(const std::filesystem::path& file, const VolumeParams& params,
                                  Disk& disk = system_disk());
};

/// Used once. One executor; not thread-safe.
/// It is wide because it is one procedure of many steps (ask, agree, read labels, settle, write),
/// each of them a method.
class Rebuild {
 public:
  Rebuild(const ClientEnvironment& environment, const VolumeId& volume, const VolumeParams& params,
          std::unique_ptr<ClientScheme> scheme, std::optional<FormerState> former = {});

  /// Opens a session, which ends that of any other client, and rebuilds. All servers must answer at
  /// first, or those that suffice; later, run() waits for each of these that is away. Reports to
  /// `progress` how far it is. Errors: unreachable, servers_disagree, wrong_volume (a server's
  /// store was rolled back, or belongs to another volume) ...
  Task<Result<Rebuilt>> run(Duration patience,
                            std::function<void(const std::string&)> progress = {});
  /// Makes run() end soon, with shutting_down.
  void stop() { servers_.stop(); }

 private:
  Task<Status> find_servers(Duration patience);
  /// Returns what keeps the server from taking part; empty if it can.
  Task<Result<std::string>> hindrance(Party server, Duration patience);
  std::set<Party> left_out() const;
  Task<Result<Stand>> survey(Duration patience);
  Task<Status> take_over(Duration patience);
  Task<Status> check_tree_version(Party server, OpenAnswer answer);
  Result<std::uint64_t> next_epoch(const Stand& stand) const;
  Task<Status> agree_on_tree_version(const Stand& stand, Duration patience);
  /// Adds to an error about servers that contradict each other which server may settle it.
  Status with_those_away(Status status, const Stand& stand) const;
  Task<Status> take_back(const Stand& stand, std::uint64_t tree_version);
  Task<Status> bring_forward(const Stand& stand, std::uint64_t tree_version);
  Task<Status> catch_up(Bytes behind, std::uint64_t tree_version);
  Task<Status> confirm(std::uint64_t tree_version, Duration patience);
  /// Returns whether t + 1 servers have prepared or installed what the earlier state decided, which
  /// means that nobody has continued without it.
  bool decided_by_former(const Stand& stand, std::uint64_t tree_version) const;
  /// Forgets the earlier state if t + 1 servers show that it was not the last one used. Errors:
  /// servers_disagree (fewer show it, and those that do not answer might).
  Status judge_former(const Stand& stand, bool took_over);
  /// Returns whether `witnesses` servers show that another copy of the earlier state has used the
  /// volume since, or the servers lack something that they had according to the state.
  bool used_since_former(const Stand& stand, std::size_t witnesses) const;
  Task<Result<std::vector<BucketShape>>> layout_of(Party server);
  Task<Status> learn_stamps();
  Task<Status> mend_root(const Stand& stand);
  bool is_elsewhere(const Stand& stand, std::uint16_t slot, std::uint64_t stamp) const;
  Task<Status> mend_root_slot(std::uint16_t slot, const Stand& stand);
  Task<Status> scan();
  Task<Status> scan_some();
  Task<Status> scan_bucket(BucketIndex bucket);
  Task<Status> scan_heads(BucketIndex bucket);
  Task<Result<std::optional<Label>>> judge_heads(SlotAddress at, const std::vector<Bytes>& heads);
  Task<Result<std::vector<LabelShare>>> labels(Party server, BucketIndex bucket);
  Task<Result<std::optional<Label>>> judge(SlotAddress at, const std::vector<LabelShare>& shares);
  void found(const Label& label, SlotAddress at);

  Task<Result<std::optional<Agreement>>> agree(SlotAddress at, Bytes of);
  bool is_in_root_buffer(SlotAddress at) const;
  SlotPlace slot_place(SlotAddress at) const;
  Task<Status> write(SlotAddress at, std::uint64_t access, Party server, Bytes share);
  Task<Status> mend(SlotAddress at, std::uint64_t access, const Agreement& agreed);
  void tell(bool now);

  /// The number of servers whose contents of a slot determine it.
  std::size_t enough() const { return params_.enough(); }
  /// The number of servers of which at least one is honest.
  std::size_t many() const { return params_.scheme.threshold + std::size_t{1}; }

  ClientEnvironment environment_;
  VolumeParams params_;
  const std::unique_ptr<ClientScheme> scheme_;
  Servers servers_;
  std::optional<FormerState> former_;
  std::function<void(const std::string&)> progress_;

  Bytes members_;  // the servers from which the state is rebuilt, ascending
  Session session_;
  std::optional<TreeState> tree_;                       // once it is known
  std::vector<std::uint64_t> stamps_;                   // stamps of the root's slots
  std::map<BucketIndex, std::uint64_t> bucket_stamps_;  // stamps on which t + 1 servers agree
  BucketIndex next_ = kRoot;                            // the next bucket to scan
  bool failed_ = false;
  Duration told_{};
  PositionMap positions_;
  std::set<BlockId> guessed_;  // blocks whose leaf is not known
  std::set<BlockId> backup_;
  std::set<BucketIndex> rewritten_;  // buckets where a server left out may hold other bytes
  std::uint64_t damaged_ = 0;
};

}  // namespace s3oram
