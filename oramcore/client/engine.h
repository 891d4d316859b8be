// The oblivious client: S3ORAM.Access (Protocol 2), evictions (Subroutine 3) and commits, behind
// the block device interface. docs/protocol.md follows one access through this class.
//
// Any number of accesses can be in flight. Each reserves a write number before it retrieves, and
// uses that number whatever happens (protocol/layout.h). Once all servers have acknowledged the A
// writes of a tree version's first group, the eviction is planned, prepared, decided by a commit of
// vault.db, and committed. Meanwhile accesses continue: they fill the other group, and read the
// tree version before the eviction until every server has the new one.
//
// The engine only coordinates: it opens and closes the volume, and leads each access from its write
// number to its root write. Each part below does one thing over the one VolumeState, and knows only
// the parts declared before it. When the engine closes, it waits for all coroutines that its parts
// have started with VolumeState::start.
#pragma once

#include "oramcore/client/eviction_loop.h"
#include "oramcore/client/growing_volume.h"
#include "oramcore/client/replacer.h"
#include "oramcore/client/returning_servers.h"
#include "oramcore/client/scrubber.h"
#include "oramcore/client/volume_sessions.h"
#include "oramcore/client/write_numbers.h"

namespace s3oram {

/// The class is wide because each part is a field.
class Engine final : public VolumeEngine {
 public:
  /// `state` has been opened but not loaded.
  Engine(const ClientEnvironment& environment, const VolumeId& volume, const VolumeParams& params,
         std::unique_ptr<ClientScheme> scheme, ClientState state);
  ~Engine() override;

  Task<Status> open(Duration patience, Evictions evictions = Evictions::as_due) override;
  Task<Status> close(bool with_commit = true) override;
  EngineStatus status() const override;
  Task<Result<Healed>> scrub(std::set<Party> servers, ScrubProgress progress = {}) override;
  Task<Result<std::vector<Party>>> replace(Replacement replacement) override;
  Task<std::vector<Result<TrafficAnswer>>> server_traffic() override;

  std::uint32_t block_size() const override { return state_.params.block_size; }
  void commit(std::function<void(Status)> done) override;
  void set_participant(CommitParticipant* participant) override {
    committer_.set_participant(participant);
  }
  std::vector<BlockId> mapped() override;
  std::uint64_t steps() const override { return state_.servers.steps() + committer_.steps(); }
  Room room() override { return capacity_.room(discarding()); }
  void refresh_room() override;
  void look_for_room() override;

 private:
  using Request = DeviceRequest;

  Task<void> access(Request request) override;
  void forget(BlockId block) override;
  /// Runs the access that has reserved this write number.
  Task<Status> access_at(WriteNumber write_number, Request request);
  /// Commits the access record.
  Task<Status> commit_access_record(WriteNumber write_number, BlockId block, Leaf leaf);
  Task<void> access_path(WriteNumber write_number, Leaf leaf, Request request);
  Task<void> read_only(Request request);
  Task<void> deliver(std::function<void(Result<Bytes>)> read, Bytes content);
  /// Reads the next block and writes it back, so that it no longer has layers.
  Task<void> maintain(WriteNumber write_number);
  BlockId next_to_maintain();
  Task<Status> finish_accesses(std::vector<AccessRecord> access_records);
  void take_up(ClientState::Loaded& loaded);
  void return_to_tree(BlockId block);

  VolumeState state_;
  Committer committer_;
  GrowingVolume growing_;
  Capacity capacity_;
  SlotShares slots_;
  HealingTurn healing_turn_;
  Settler settler_;
  RepairRecord repair_record_;
  Prover prover_;
  Healer healer_;
  Scrubber scrubber_;
  Retriever retriever_;
  RootWriter root_writer_;
  EvictionGate eviction_gate_;
  ReturningServers returning_;
  EvictionLoop evictions_;
  Replacer replacer_;
  VolumeSessions sessions_;
  WriteNumbers write_numbers_;

  std::vector<BlockId> mapped_;  // when the volume was opened; kept until mapped() is called
  BlockId maintained_ = 0;       // blocks before it were read and written back last
  std::uint64_t accesses_ = 0;
};

}  // namespace s3oram
