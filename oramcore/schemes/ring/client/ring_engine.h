// The client of ring behind the block device interface: accesses, evictions and commits.
// docs/protocol-ring.md follows one access through this class.
//
// Any number of accesses can be in flight. Each has its own turn, which it reserves before it asks
// for anything, and which it uses whatever happens: it asks for one point of each bucket on a path,
// and writes one slot of the log. After A turns, an eviction rewrites the buckets of the next path.
// How far accesses may be ahead of evictions depends only on public counters.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/client_scheme.h"
#include "oramcore/schemes/ring/client/growing_ring.h"
#include "oramcore/schemes/ring/client/log_writer.h"
#include "oramcore/schemes/ring/client/ring_scrubber.h"

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
  Room room() override { return capacity_.room(discarding()); }
  void refresh_room() override;
  void look_for_room() override;

 private:
  using Request = DeviceRequest;
  /// The path along which an access asks: that of its block's leaf, or a random one.
  enum class Path { of_block, random };
  /// The question of an access, and the number of the value that is its block.
  struct Query {
    TurnRecord record;
    std::optional<std::size_t> wanted;
    std::optional<Place> cached;  // its place in the top; held
  };
  /// The read of top.cache that goes with each retrieval.
  struct CacheRead {
    std::optional<Result<OpenedBlock>> found;  // unset if a random slot is read
    bool ended = false;
    Event end;
  };

  // ring_engine.cc: opening and closing
  Task<Status> compare_with_server(const RingState::Loaded& loaded, Duration patience);
  Task<Result<SurveyAnswer>> survey(Duration patience);
  Task<Status> bring_server_along(OpenAnswer answer, Duration patience);
  Task<Status> open_session(std::vector<Session> sessions, Duration patience);
  Task<Status> finish_accesses(std::map<Turn, TurnRecord> records);
  Task<void> probe();

  // ring_access.cc: accesses
  Task<void> access(Request request) override;
  Task<void> access_at(Turn turn, Request request, Path path);
  Task<void> access_path(Turn turn, Query query, Request request);
  Task<Result<Turn>> reserve_turn(BlockId block);
  std::optional<BlockId> to_log_again(Turn turn, BlockId wanted) const;
  Task<void> access_alone(Turn turn, Request request, Path path);
  Task<Result<Query>> intend(Turn turn, BlockId block, Path path);
  Leaf next_leaf(const Place& place, Leaf shown);
  Ask ask_for(BucketIndex bucket, const std::optional<Place>& wanted);
  void choose_asks(Query& query);
  void hold_cached(Query& query);
  Task<Status> renew(Turn turn, Query& query);
  Task<Result<std::optional<OpenedBlock>>> retrieve(Turn turn, Query query);
  enum class Verdict : std::uint8_t { fits, altered, lost };
  Task<std::vector<Verdict>> verdicts(const std::vector<Ask>& asks, const RetrieveAnswer& answer);
  Task<Result<Payload>> values_of(Turn turn, Query& query);
  Task<void> read_cache(BlockId block, std::optional<Place> place, CacheRead& to);
  void did_not_open(BlockId block, const Place& before, Leaf shown);
  Task<void> deliver(std::function<void(Result<Bytes>)> read, Result<Bytes> content);
  void forget(BlockId block) override;

  OpenRing ring_;
  Committer committer_;
  GrowingRing growing_;
  Capacity capacity_;
  TopBlocks top_;
  TopRefill refill_;
  TopSync top_sync_;
  LogWriter log_writer_;
  Rewriter rewriter_;
  Scrubber scrubber_;

  std::vector<BlockId> mapped_;  // mapped at opening; kept until mapped() is called

  bool opened_ = false;
  std::set<BlockId> in_flight_;  // blocks for which an access has a turn

  bool probing_ = false;
  std::uint64_t accesses_ = 0;
  LogLimit told_of_answers_;
};

}  // namespace s3oram::ring
