// The client of ring behind the block device interface: accesses, evictions and commits.
// docs/protocol-ring.md follows one access through this class.
//
// Any number of accesses can be in flight. Each has its own turn, which it reserves before it asks
// for anything, and which it uses whatever happens: it asks for one point of each bucket on a path,
// and writes one slot of the log. After A turns, an eviction rewrites the buckets of the next path.
// How far accesses may be ahead of evictions depends only on public counters.
//
// The engine only coordinates: it opens and closes the volume, and leads each access from its turn
// to its write to the log. Each part below does one thing over the one OpenRing, and knows only the
// parts declared before it. When the engine closes, it waits for all coroutines that its parts have
// started with OpenRing::start.
#pragma once

#include "oramcore/schemes/ring/client/growing_ring.h"
#include "oramcore/schemes/ring/client/log_writer.h"
#include "oramcore/schemes/ring/client/ring_retriever.h"
#include "oramcore/schemes/ring/client/ring_scrubber.h"
#include "oramcore/schemes/ring/client/ring_session.h"
#include "oramcore/schemes/ring/client/turns.h"

namespace s3oram::ring {

class RingEngine final : public VolumeEngine {
 public:
  /// `state` is open but not loaded; `cache` is top.cache.
  RingEngine(const ClientEnvironment& environment, const VolumeId& volume,
             const VolumeParams& params, const Seed& sealing_key, RingState state,
             std::unique_ptr<File> cache);
  ~RingEngine() override;

  Task<Status> open(Duration patience, Evictions evictions = Evictions::as_due) override;
  Task<Status> close(bool with_commit = true) override;
  EngineStatus status() const override;
  /// Makes the server read every bucket that it holds from its disk, and rebuild damaged rows.
  /// There is only one server, so `servers` is ignored.
  Task<Result<Healed>> scrub(std::set<Party> servers, ScrubProgress progress = {}) override;
  Task<std::vector<Result<TrafficAnswer>>> server_traffic() override;

  std::uint32_t block_size() const override { return ring_.params.block_size; }
  void commit(std::function<void(Status)> done) override;
  void set_participant(CommitParticipant* participant) override {
    committer_.set_participant(participant);
  }
  std::vector<BlockId> mapped() override { return std::exchange(mapped_, {}); }
  std::uint64_t steps() const override { return ring_.servers.steps() + committer_.steps(); }
  Room room() override { return capacity_.room(discarding()); }
  void refresh_room() override;
  void look_for_room() override;

 private:
  using Request = DeviceRequest;
  using Path = AccessRecords::Path;

  Task<void> access(Request request) override;
  void forget(BlockId block) override;
  /// Uses a turn that belongs to the client.
  void log_again(Turn turn, BlockId block);
  /// Runs an access that has reserved its turn.
  Task<void> access_alone(Turn turn, Request request, Path path);
  Task<void> access_at(Turn turn, Request request, Path path);
  Task<void> access_path(Turn turn, Query query, Request request);
  void did_not_open(BlockId block, const Place& before, Leaf shown);
  Task<Result<std::optional<OpenedBlock>>> read_refilled(BlockId block);
  Leaf next_leaf(const Place& place, Leaf shown);
  Task<void> deliver(std::function<void(Result<Bytes>)> read, Result<Bytes> content);
  Task<Status> finish_accesses(std::map<Turn, TurnRecord> records);

  OpenRing ring_;
  RingCommitter committer_;
  GrowingRing growing_;
  Capacity capacity_;
  TopBlocks top_;
  TopRefill refill_;
  TopSync top_sync_;
  LogWriter log_writer_;
  Rewriter rewriter_;
  RingScrubber scrubber_;
  AccessRecords records_;
  RingRetriever retriever_;
  Turns turns_;
  RingSession session_;

  std::vector<BlockId> mapped_;  // mapped at opening; kept until mapped() is called
  std::uint64_t accesses_ = 0;
};

}  // namespace s3oram::ring
