// The oblivious client: S3ORAM.Access (Protocol 2), evictions (Subroutine 3) and commits, behind
// the block device interface. docs/protocol.md follows one access through it.
//
// Any number of accesses are in flight. Each reserves a write number before it retrieves, and uses
// it whatever happens (protocol/layout.h). Once all servers have acknowledged the A writes of a
// tree version's first group, the eviction is planned, prepared, decided by a commit of vault.db,
// and committed. Accesses go on meanwhile: they fill the other group, and read the tree version
// before the eviction until every server has the new one.
//
// The class is wide because accesses, evictions, healing, capacity and commits are coroutines of
// one thread over one state: positions, session and tree version. Each concern has a source of its
// own (engine_*.cc) and should become an object over that state.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "oramcore/base/async.h"
#include "oramcore/client/agreement.h"
#include "oramcore/client/attendance.h"
#include "oramcore/client/capacity.h"
#include "oramcore/client/catch_up.h"
#include "oramcore/client/client_state.h"
#include "oramcore/client/commit_loop.h"
#include "oramcore/client/engine_metrics.h"
#include "oramcore/client/scheme.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

class Engine final : public VolumeEngine, private GrowingTree {
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

  std::uint32_t block_size() const override { return params_.block_size; }
  void commit(std::function<void(Status)> done) override;
  void set_participant(CommitParticipant* participant) override { participant_ = participant; }
  std::vector<BlockId> mapped() override;
  Room room() override { return capacity_.room(discarding()); }
  void refresh_room() override;
  void look_for_room() override;

 private:
  using Request = DeviceRequest;
  /// A root write that all servers have acknowledged, while earlier ones are still open.
  struct RootWrite {
    bool acknowledged = false;
    BlockId block = kNoBlock;  // kNoBlock: it holds none
    // Counts only while this is the block's version: not after a discard.
    std::uint64_t replaces = 0;
    Leaf leaf = 0;
    std::uint64_t version = 0;
    std::function<void(Status)> written;
  };

  // engine.cc: accesses
  void die(Error reason) override;
  Task<void> access(Request request) override;
  /// The access that has reserved this write number.
  Task<Status> access_at(WriteNumber write_number, Request request);
  /// Reads and writes back the next block, so that it has no layers any more.
  Task<void> maintain(WriteNumber write_number);
  bool is_maintenance(WriteNumber write_number) const;
  BlockId next_to_maintain();
  Task<void> access_path(WriteNumber write_number, Leaf leaf, Request request);
  Task<void> read_only(Request request);
  Task<void> deliver(std::function<void(Result<Bytes>)> read, Bytes content);
  Task<Status> finish_accesses(std::vector<AccessRecord> access_records);
  /// Asks a server for something that is done already, to find out without an access that it was
  /// restarted or now belongs to another client.
  Task<void> probe(Party server);
  Task<Result<std::set<Party>>> find_servers(Duration patience);
  Task<Status> compare_with_servers(ClientState::Loaded& loaded, std::set<Party> answering,
                                    Duration patience);
  Task<Status> bring_to_version(Party server, OpenAnswer stands, Duration patience);
  Task<Status> open_sessions(std::vector<Session> known, const std::set<Party>& answering,
                             Duration patience);
  void forget(BlockId block) override;
  bool is_found_by(Leaf leaf, BlockId block) const;
  bool is_given_up(BlockId block) const;
  void mark_unreadable(BlockId block);
  /// Marks the block in a slot that is about to be given up as unreadable.
  void mark_unreadable(SlotAddress at);
  void mark_readable(BlockId block);
  Task<Result<WriteNumber>> reserve_write_number();
  /// Returns when an access that is ahead of the eviction should begin; a time in the past if now.
  Duration write_number_is_due() const;
  /// Whether the client's line is so slow that more uploads would only queue on it.
  bool uplink_full() const;
  Leaf leaf_of(BlockId block);
  Task<Status> intend(WriteNumber write_number, BlockId block, Leaf leaf);

  // engine_root.cc
  Task<Status> write_root(WriteNumber write_number, Label label, std::uint64_t replaces,
                          ByteSpan content, std::function<void(Status)> written);
  Task<Status> send_whole(Party server, const RootUpload& upload);
  Task<Status> send_upload(Party server, const RootUpload& upload,
                           std::shared_ptr<Servers::JointAttempt> attempt);
  void acknowledge_in_order();
  void set_position(BlockId block, const Position& position);

  // engine_retrieval.cc
  Task<Result<std::optional<OpenedBlock>>> retrieve(WriteNumber write_number, BlockId block,
                                                    Leaf leaf);
  struct PathAnswer {
    Bytes slot;
    bool selected = false;  // it was asked for; or nothing was
  };
  Task<Result<PathAnswer>> inner_product(WriteNumber write_number, BlockId block, Leaf leaf);
  Bytes workers_of(std::uint64_t request_id) const;
  struct Judgement;
  Task<Judgement> judge(BlockId block, const PathAnswer* answer);
  bool is_newest(BlockId block, const Label& label) const;
  Task<Result<PathAnswer>> read_raw(BlockId block, Leaf leaf);
  std::vector<SlotAddress> slots_of(const PathSlots& path, Leaf leaf) const;
  Task<Status> read_raw_slots(std::vector<SlotAddress>& slots, SlotAddress wanted,
                              const Bytes& servers, PathAnswer& answer);
  Task<Status> wait_after(Error error);
  Task<Result<Bytes>> ask_for_product(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                                      std::size_t index);
  Task<Result<Bytes>> ask_for_shares(RetrieveRequest request, std::size_t slots, std::size_t index);
  Task<Result<Bytes>> ask_for_sum(RetrieveRequest request, std::size_t slots, std::size_t index);
  struct SumAttempt;
  Task<void> ask_for_masked_share(Party server, std::size_t nth, Bytes message, SumOrder order,
                                  std::shared_ptr<SumAttempt> attempt);
  Position position_read(BlockId block) const;

  /// What the next commit holds (CommitLoop).
  CommitWork begin_commit();
  Task<Status> commit_until_done() { return commits_.commit_until_done(dead_); }

  // for Capacity
  unsigned height() const override { return tree_.height; }
  std::uint64_t blocks() const override { return positions_.mapped(); }
  std::uint64_t epoch() const override { return session_.epoch; }
  bool has_ballast() const override { return state_.has_ballast(); }
  Task<Status> take_ballast() override { return commits_.commit(); }  // takes it if it can
  bool is_dead() const override { return dead_.has_value(); }
  Bytes takers() const override { return in_step_.takers(); }
  void start_for_room(Task<void> task) override { start(std::move(task)); }

  // engine_heal.cc
  using Damage = std::map<SlotAddress, std::set<Party>>;  // which servers lack their share
  /// What happens to a slot of which too few servers have their share: it becomes a sharing of
  /// zeros, so that it harms nothing else, or it is left, because a server's disk may come back.
  enum class Loss { zeroed, left };
  Task<void> await_healed();
  Task<void> begin_healing();
  void end_healing();
  Task<Status> heal();
  std::set<Party> servers_in_step() const;
  bool has_slot(SlotAddress at) const;
  std::size_t raw_reads_at_once() const;
  static constexpr BucketIndex kEveryBucket = 0;
  Task<Status> add_damage(MessageType question, Bytes message, std::set<Party> servers, Damage& to,
                          BucketIndex of = kEveryBucket);
  Task<Status> heal_slots(Damage damage, Loss loss);
  Task<Status> heal_some(Damage& damage, Loss loss);
  Task<Status> heal_slot(SlotAddress at, std::set<Party> damaged, Loss loss);
  bool may_send_shares() const;
  struct SlotFound;
  Task<SlotFound> find_shares(SlotAddress at, const std::set<Party>& damaged);
  std::optional<Agreement> agreement_on(SlotAddress at, const Bytes& servers,
                                        const std::vector<Bytes>& shares) const;
  Task<Status> heal_through_client(SlotAddress at, std::set<Party> damaged, Loss loss);
  Task<Status> share_again(SlotAddress at, Bytes content);
  Task<std::vector<Result<Payload>>> read_slot(SlotAddress at, const Bytes& servers);
  Task<Result<Payload>> ask_again(Party server, MessageType type, Bytes message);
  Task<Status> write_share(Party server, SlotAddress at, ByteSpan share);
  Task<std::vector<Result<Payload>>> ask_for_share(SlotAddress at, Party to, Bytes helpers);
  Task<Result<Payload>> ask_for_part(Party helper, Bytes message, Party to,
                                     std::uint64_t request_id,
                                     std::shared_ptr<Servers::JointAttempt> attempt);
  void healed(Party server, SlotAddress at);
  std::uint64_t access_in(SlotAddress at) const;

  // engine_scrub.cc
  Task<Result<Healed>> scrub_all(std::set<Party> servers, ScrubProgress progress);
  Task<Status> await_in_step(Party server);
  Task<Status> scrub_buckets(const std::set<Party>& servers, BucketIndex first, BucketIndex end);
  bool copies_are_compared() const;
  Task<Status> compare_buckets(std::set<BucketIndex> buckets, const std::set<Party>& servers);
  Task<Status> compare_shares(BucketIndex bucket, const Bytes& servers);
  bool is_settled(SlotAddress at) const;
  bool fit_together(const std::vector<Bytes>& digests, const Bytes& servers) const;
  bool is_resident(const Label& label, SlotAddress at) const;
  Task<Result<std::optional<Bytes>>> settle(SlotAddress at, const Bytes& asked);

  // engine_return.cc: servers leave and come back
  Attendance::Owner attendance_owner();
  CatchUp::Owner catch_up_owner();
  Task<Status> commit_left_out();
  Task<Status> catch_up(Party server);
  Task<void> hold_evictions();
  void let_evict();
  std::vector<std::uint64_t> acknowledged_root() const;
  Task<Status> await_writes();
  Task<Result<std::size_t>> copy_some(Party server);
  Task<Result<std::size_t>> copy_damage(Party server);
  void note_rewritten(BucketIndex bucket);
  void forget_rewritten();

  // engine_replace.cc: another machine takes a server's place
  Task<Result<std::vector<Party>>> replace_now(Replacement replacement);
  Task<void> tell_later(Party server, std::string peer);
  Task<Status> reenrol(Party server);
  Task<Status> tell_of_volume(Party server);

  // engine_eviction.cc
  Task<void> await_decision_allowed();
  Task<void> evict();
  Task<Status> evict_once();
  Task<void> begin_step();
  void end_step();
  bool eviction_due() const;
  Task<Result<EvictionPlan>> plan_that_fits();
  EvictionPath path_now() const;
  Task<Status> to_stash(BlockId block);
  void keep_in_stash(BlockId block, const OpenedBlock* content);
  void decide(const EvictionPlan& plan, const EvictionId& id, unsigned next_height);
  Task<Status> install();
  struct Stage;
  std::shared_ptr<Stage> begin_stage() const;
  void answered(const std::shared_ptr<Stage>& stage, Party server);
  Task<void> drop_late(std::shared_ptr<Stage> stage);
  Task<Status> prepare(const EvictionPlan& plan, EvictionId& id, unsigned next_height,
                       unsigned tries);
  Task<Status> certify(const EvictionPlan& plan, EvictionId id);
  Task<Result<CertifyAnswer>> ask_to_certify(Party server, Bytes question,
                                             std::shared_ptr<Stage> stage);
  Task<Status> certify_new_rows(EvictionId id, const CertifyAnswer& right, Bytes servers,
                                std::vector<Result<CertifyAnswer>> answers);
  Task<Status> discard_attempt(EvictionId id);
  Task<Status> prepare_at(Party server, Bytes message, EvictionId id,
                          std::shared_ptr<Servers::JointAttempt> attempt,
                          std::shared_ptr<Stage> stage, Status& outcome, Payload& report);
  struct CheckWork;
  Task<void> expect_reports(std::shared_ptr<ReportCheck> check, std::shared_ptr<CheckWork> work);
  void stop_evictions(Error reason);
  Task<Status> settle_path();

  // engine_dispute.cc
  /// An attempt at an eviction whose check was not good.
  struct Dispute {
    std::shared_ptr<ReportCheck> check;
    std::vector<Payload> reports;
    std::uint64_t contents = 0;  // contents_changed_ when servers were given their orders
  };
  Task<Status> after_disagreement(Error found, bool last);
  Task<Result<Party>> find_liar(Dispute dispute);
  Task<bool> read_path_shares(std::vector<SlotAddress> slots, PathShares& shares);
  Task<bool> read_shares_from(std::size_t& next, const std::vector<SlotAddress>& slots,
                              PathShares& shares);
  Error name_liar(Party liar, const Error& found);

  ClientEnvironment environment_;
  VolumeParams params_;
  ClientState state_;
  const std::unique_ptr<ClientScheme> scheme_;
  const Bytes blank_;  // a sealed block
  Servers servers_;
  InStep in_step_;
  Attendance attendance_;
  CatchUp catch_up_;
  std::atomic<CommitParticipant*> participant_ = nullptr;  // set by others

  TreeState tree_;
  TreeState durable_;  // as of the last commit; no server may get ahead of it
  PositionMap positions_;
  std::vector<BlockId> mapped_;     // at the opening; kept until mapped() is called
  std::map<BlockId, Bytes> stash_;  // sealed
  Session session_;
  std::uint64_t next_access_ = 0;
  std::uint64_t next_request_id_ = 0;
  std::set<std::uint64_t> request_ids_;  // of retrievals under way

  bool opened_ = false;
  WriteNumber next_write_number_ = 0;  // to be reserved
  std::vector<RootWrite> root_;        // by root slot
  WriteNumber uploaded_ = 0;           // after all whose root write was begun
  std::size_t uploads_ = 0;            // root writes under way
  Duration upload_each_{};             // the last one's time over how many shared it
  Duration last_retrieval_{};          // how long it took
  bool may_evict_ = true, evicting_ = false;
  // An attempt at an eviction is under way, until all servers that take part have ended it; how
  // many have it that none begins.
  bool stepping_ = false;
  unsigned holds_ = 0;
  Event stepped_;
  unsigned enrolling_ = 0;  // servers that are being told of the volume: nothing is decided
  std::optional<Error> evictions_stopped_;    // why none is begun any more
  std::optional<EvictionId> attempt_;         // sent to servers, and not yet durably decided
  std::optional<Dispute> dispute_;            // the last attempt's
  Event write_numbers_changed_;               // a write was acknowledged, or a tree version changed
  std::vector<AccessRecord> access_records_;  // by root slot
  BlockId maintained_ = 0;                    // blocks before it were read and written back last
  // Blocks whose last read failed, and whether that was since the opening: those are not read again
  // before they are written.
  std::map<BlockId, bool> unreadable_;
  // Buckets of which a slot was given up while a server that may have it was left out: it holds
  // other bytes there under the same stamp. They are compared when it comes back.
  std::set<BucketIndex> rewritten_;
  bool healing_ = false;
  std::size_t waiting_for_healing_ = 0;
  std::uint64_t healing_rounds_ = 0;
  // How often shares were replaced that servers may have computed with, counted when all servers
  // have the new ones. zeroing_ counts the slots for which this is under way.
  std::uint64_t contents_changed_ = 0;
  unsigned zeroing_ = 0;
  Duration shares_again_ = Duration::min();  // from then on servers may send each other shares
  Healed so_far_;
  Event healed_;

  // What retrievals read: tree_'s version, or the one before while servers install it.
  struct ReadVersion {
    std::uint64_t tree_version = 0;
    unsigned height = 1;
  };
  ReadVersion reading_;
  std::unordered_map<BlockId, Position> former_;     // before it, of the blocks that it moves
  std::map<std::uint64_t, std::size_t> retrieving_;  // retrievals under way, by tree version
  std::uint64_t released_tree_version_ = 0;          // servers hold none before it

  StateChanges pending_;

  std::optional<Error> dead_;
  std::set<Party> probed_;  // servers that have not answered a probe yet
  std::uint64_t accesses_ = 0, evictions_ = 0;
  Duration eviction_begun_{};  // of the one under way
  Duration eviction_takes_{};  // estimated from the last ones
  EngineMetrics metrics_;
  LogLimit told_of_eviction_, told_of_retrieval_, told_of_healing_;
  CommitLoop commits_;
  Capacity capacity_;
};

}  // namespace s3oram
