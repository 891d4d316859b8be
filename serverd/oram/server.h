// The server behind share_server.h, in parts: sessions (share_server.cc), its store as a whole
// (server_store.cc), accesses (server_retrieval.cc, server_root.cc), healing (server_heal.cc,
// server_labels.cc), evictions (server_eviction.cc). One executor; not thread-safe. The class is
// wide because all parts work on one session, one store and one set of requests that wait for each
// other.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "oramcore/base/disk.h"
#include "serverd/oram/eviction.h"
#include "serverd/oram/server_metrics.h"
#include "serverd/oram/share_server.h"
#include "serverd/oram/store_check.h"
#include "serverd/oram/store_database.h"
#include "serverd/store/bucket_store.h"
#include "serverd/store/group_sync.h"

namespace s3oram {

/// Opens the control state in the directory `store`. Errors: damaged_vault, with what to do about
/// it.
Result<Control> open_control(const std::filesystem::path& store, Disk& disk);

/// ShareServer::open() of a control state that is open already.
Result<std::unique_ptr<ShareServer>> open_share_server(Control control,
                                                       const std::filesystem::path& store,
                                                       Party self, ServerSchemes schemes,
                                                       const ServerEnvironment& environment);

class Server final : public ShareServer {
 public:
  Server(Control control, std::filesystem::path store, Party self, ServerSchemes schemes,
         const ServerEnvironment& environment)
      : control_(std::move(control)),
        directory_(std::move(store)),
        self_(self),
        schemes_(std::move(schemes)),
        executor_(environment.executor),
        pool_(environment.pool),
        background_(environment.background),
        readers_(environment.readers),
        clock_(environment.clock),
        random_(environment.random),
        disk_(environment.disk),
        transport_(environment.transport),
        memory_(environment.memory),
        cache_bytes_(environment.cache_bytes),
        metrics_(environment.metrics),
        record_(environment.record),
        store_changes_(directory_, disk_),
        rpc_(executor_, clock_, random_, environment.transport) {}

  Status start();
  Task<Status> stop() override;
  void look_after_store() override;
  void gauge() override;
  void set_cache_bytes(std::size_t bytes) override;
  unsigned parties() const override { return control_.volume() ? params().scheme.servers : 0u; }
  bool is_used() const override { return control_.session().epoch > 0; }

 private:
  // ---- the volume

  /// Whether the shares that control.db lists must be in `slots`, or are being repaired.
  enum class Shares { must_be_there, may_be_lost };
  /// Opens `slots`. Succeeds also if shares are missing that must be there: then the server lacks
  /// its shares, and has no bucket store.
  Status open_bucket_versions(Shares shares);

  // ---- server_store.cc: a store that is not what it should be

  /// Answers every request with this error from now on, until the store is put right.
  void fall_ill(const Error& ailment);
  void lack_shares(const std::string& what);
  /// What a server that is ill still answers.
  static bool is_for_the_ill(MessageType type) {
    return type == MessageType::hello || type == MessageType::reenrol ||
           type == MessageType::create;
  }
  Task<void> recover();
  Status reopen();

  /// Reads the root buffer into memory.
  Status open_root_buffer();
  /// Checks the limit of file sizes. Errors: disk_full (files may not be as large as the tree
  /// needs).
  Status check_file_size() const;
  /// Warns in the log if the memory may not suffice for the cache and an eviction.
  void warn_of_little_memory() const;

  const VolumeParams& params() const { return control_.volume()->params; }

  // ---- requests

  Task<Result<Bytes>> handle(Party from, MessageType type, Payload request);
  Task<Result<Bytes>> dispatch(Party from, MessageType type, Payload request);

  template <class Request>
  Result<Bytes> decoded(const Payload& request, Result<Bytes> (Server::*method)(const Request&)) {
    const auto message = decode<Request>(request.body());
    if (!message) return malformed();
    return (this->*method)(*message);
  }

  /// Whether the same session is still open. To be asked again after every wait.
  bool goes_on(std::uint64_t epoch) const { return open_ && control_.session().epoch == epoch; }

  template <class Request>
  Task<Result<Bytes>> in_session(Payload& request,
                                 Task<Result<Bytes>> (Server::*method)(Request, Payload&),
                                 std::size_t& under_way) {
    auto message = decode<Request>(request.body());
    if (!message) co_return malformed();
    S3O_CO_TRY(check_session(message->epoch));
    if (request.tag() != opening_)
      co_return fail(Errc::need_open, "the server was restarted meanwhile");
    ++under_way;
    auto answer = co_await (this->*method)(*message, request);
    --under_way;
    handler_ended_.notify_all();
    co_return answer;
  }

  static tl::unexpected<Error> malformed() { return fail(Errc::bad_request, "malformed request"); }
  static Bytes done() { return Bytes(Rpc::kHeaderSize); }

  Status check_session(std::uint64_t epoch) const;

  Result<Bytes> hello() { return encode(HelloAnswer{self_, control_.volume()}); }
  Result<Bytes> traffic() const;
  Result<Bytes> room();

  Result<Bytes> survey(const SurveyRequest& request);
  /// Errors: wrong_volume.
  Status check_volume(const VolumeId& volume) const;
  Result<Bytes> create(const CreateRequest& request);
  Result<Bytes> fits(const FitsRequest& request);
  /// Errors: disk_full.
  Status check_room(const VolumeParams& volume) const;
  /// Returns whether a volume can be made here; false if it exists already. Errors: wrong_volume.
  Result<bool> takes(const VolumeDescription& volume, unsigned height) const;
  Result<Bytes> reenrol(const ReenrolRequest& request);
  Result<Bytes> opened(Shares shares);
  Task<Result<Bytes>> layout(LayoutRequest request, Payload&);
  Task<Result<Bytes>> open_session(const Payload& payload);
  Task<Result<Bytes>> rejoin(const Payload& payload);
  /// Ends everything under way in the session, which then has to be opened.
  Task<void> end_session(Errc code, const char* why);
  void forget_messages();
  /// Marks root slots as damaged that do not hold what the client knows to be acknowledged.
  void distrust_root(const OpenRequest& request);
  /// Counts all root writes as lost but those that the client knows to be acknowledged.
  void keep_of_root(const RejoinRequest& request);

  // ---- accesses

  // server_retrieval.cc
  struct PathPart;
  struct PathProduct;
  /// Adds the inner products of the parts, and reads those that are not in memory.
  void add_parts(PathProduct& to, std::span<const PathPart> parts);
  /// Returns the inner product behind a blank header. Counts the retrieval for its tree version.
  Task<Result<Bytes>> product(const RetrieveRequest& request, ByteSpan query);
  AccessLoad load() const;
  Task<Result<Bytes>> retrieve(SharedRetrieveRequest request, Payload&);
  /// The servers of whose products the sum may have any; std::nullopt if these cannot work
  /// together.
  std::optional<Bytes> summands(const Bytes& workers) const;
  Task<Result<Bytes>> add_up(std::uint64_t epoch, SumOrder order, Bytes summands, Bytes product);
  /// Adds to `sum` the masked shares of these servers for the request id, without this server's
  /// own. `count` of them, of those that come first.
  Task<Status> add_masked_shares(std::uint64_t epoch, std::uint64_t request_id, Bytes from,
                                 std::size_t count, MutableByteSpan sum);
  /// Begins to send a masked share, which may be sent only once. Returns nothing if it may be sent
  /// now, and otherwise the answer.
  std::optional<Result<Bytes>> begin_masked_share(std::uint64_t request_id);
  /// Records that it has arrived, and returns the answer.
  Bytes end_masked_share(std::uint64_t request_id);
  Task<Status> send_masked_share(Party to, std::uint64_t epoch, std::uint64_t request_id,
                                 Bytes masked_share);
  Task<Result<Bytes>> masked_share(Party from, Payload& request);
  Task<Result<Bytes>> withdraw(WithdrawRequest request, Payload&);
  void forget_sums_before(std::uint64_t oldest);

  // server_root.cc
  Task<Result<Bytes>> write_root(WriteRootRequest request, Payload&);
  Task<Status> write_to_root_buffer(std::uint16_t slot, std::uint64_t access);
  Task<Status> relay_part(const WriteRootRequest& request);
  Task<Status> relay_to(Party receiver, RelayRequest relayed);
  /// Returns the share that the request gives, or the one made of its parts once they have come;
  /// nothing if it was written meanwhile.
  Task<Result<std::optional<Bytes>>> share_of(const WriteRootRequest& request);
  Task<Result<Bytes>> relay(Party from, Payload& request);
  Status check_write_number(WriteNumber write_number, std::uint64_t access) const;
  /// Puts a slot into memory. (Readers of the earlier one keep it.)
  void keep_in_root_buffer(std::uint16_t slot, Bytes share, std::uint64_t stamp);
  /// Writes a slot so that it would survive a power cut.
  Task<Status> write_durably(BucketVersionNumber bucket_version, std::uint16_t slot, ByteSpan share,
                             std::uint64_t stamp);
  /// Returns the path's root writes. Errors: corrupt (one of them is lost).
  Result<BucketRows> root_buffer_rows(const PathSlots& path) const;
  Status check_root_buffer_slot(std::size_t slot) const;
  /// Checks that this server has committed the client's tree version. Errors: wrong_volume (the
  /// store was set back).
  Status check_evictions_until(std::uint64_t tree_version) const;
  Status check_tree_version(std::uint64_t tree_version) const;

  // ---- healing

  /// Where a slot, as the client names it, is here: in the root buffer, or in a bucket.
  struct Place {
    BucketIndex bucket = 0;
    BucketVersionRef ref;
    std::uint16_t slot = 0;
    bool in_root_buffer = false;
  };
  Result<Place> place_of(SlotAddress at) const;
  SlotAddress address_of(BucketIndex bucket, std::uint16_t slot) const;
  /// Returns the lost ones among the root writes before `written`.
  Result<std::vector<SlotAddress>> damaged_root(std::uint64_t tree_version,
                                                WriteNumber written) const;
  Task<Status> add_damaged(BucketIndex bucket, std::vector<SlotAddress>& to);
  Task<Status> add_missing(std::vector<SlotAddress>& to);
  Task<Result<Bytes>> damage(DamageRequest request, Payload&);
  Task<Result<Bytes>> check(CheckRequest request, Payload&);
  Task<Status> rewrite_root_buffer();
  Task<Result<Bytes>> share_in(SlotAddress at);
  Task<Result<Bytes>> read_slot(ReadSlotRequest request, Payload&);
  Task<Status> write_healed(SlotAddress at, std::uint64_t access, ByteSpan share);
  Task<Result<Bytes>> heal_slot(HealSlotRequest request, Payload&);
  Task<Result<Bytes>> contribute(ContributeRequest request, Payload&);
  Task<Result<Bytes>> mend(MendRequest request, Payload&);

  // server_labels.cc
  Task<Result<Bytes>> labels(LabelsRequest request, Payload&);
  Task<Result<Bytes>> digests(DigestsRequest request, Payload&);
  Task<Result<Bytes>> heads(HeadsRequest request, Payload&);
  /// Called with a slot and the share in it; without a share if that is damaged or lost.
  using SlotVisitor = std::function<void(std::uint16_t slot, std::optional<ByteSpan> share)>;
  /// Visits the slots of the bucket that are not zero, ascending.
  Task<Status> visit_slots(std::uint64_t tree_version, BucketIndex bucket, SlotVisitor visit);
  Status visit_bucket_version(BucketIndex bucket, BucketVersionRef ref, const SlotVisitor& visit);

  // ---- evictions

  Task<Result<Bytes>> reserve(ReserveRequest request, Payload&);
  Status reserve_bucket_versions(unsigned height);
  Task<Result<Bytes>> prepare(PrepareRequest request, Payload& owner);
  Task<Status> carry_out(Eviction& eviction, const PrepareRequest& request, BucketRows writes);
  Task<Status> load_path(Eviction& eviction, const PrepareRequest& request, BucketRows writes);
  /// The new bucket versions that hold the evictor's results, and the buckets that they become.
  struct NewVersions {
    Stamp stamp;
    BucketVersions versions;
    struct Write {
      BucketVersionNumber bucket_version;
      BucketIndex bucket;
      std::shared_ptr<BucketVersion> content;
    };
    std::vector<Write> writes;
  };
  NewVersions new_versions(const EvictionId& id) const;
  void add_version(NewVersions& to, BucketIndex bucket, std::shared_ptr<BucketVersion> content);
  Task<Result<Bytes>> certify(CertifyRequest request, Payload&);
  Task<Status> check_old_rows(RowChecker& checker, std::uint64_t tree_version,
                              const PathSlots& path, const std::vector<BucketIndex>& buckets);
  Task<Status> check_new_rows(RowChecker& checker, const std::vector<BucketIndex>& buckets);
  NewVersions matrix_versions(const PrepareRequest& request, BucketBuffers buffers);
  NewVersions path_versions(const PrepareRequest& request, BucketBuffers buffers);
  Task<Result<Bytes>> commit(CommitRequest request, Payload&);
  Task<Result<Bytes>> discard(DiscardRequest request, Payload&);
  Task<Result<Bytes>> release(ReleaseRequest request, Payload&);
  Result<Bytes> subshare(Party from, Payload& request);
  void forget_early(const EvictionId& id);
  Bytes prepared_answer(const EvictionId& id) const;
  /// Drops bucket versions out of use from the cache, where those of the tree's top would stay
  /// long.
  void forget_freed() {
    for (const BucketVersionNumber bucket_version : control_.take_freed())
      bucket_store_->forget(bucket_version);
  }

  // ---- server_record.cc: what is read and written, if it is recorded

  RecordedSlots recorded(BucketIndex bucket, std::uint16_t slot, std::size_t slots) const;
  void record_retrieval(const RetrieveRequest& request);
  void record_root_write(std::uint16_t slot);
  void record_eviction(const PathSlots& path, const std::vector<BucketIndex>& buckets,
                       const std::vector<BucketVersionRef>& refs);
  void record_versions(const NewVersions& made);
  void record_upkeep(AccessLog::Operation operation, const RecordedSlots& slots);

  /// How long to wait for another server on behalf of a client that has other ways.
  static constexpr Duration kPeerPatience = std::chrono::seconds(10);
  /// Limits of the masked shares and relayed parts of other servers that no request here wants yet.
  static constexpr std::size_t kMostUnderWay = 4096, kBytesUnderWay = 128 << 20;
  std::size_t most_under_way() const {
    const std::size_t fitting = kBytesUnderWay / params().slot_size();
    return std::max<std::size_t>(2 * params().root_buffer_slots(),
                                 std::min(kMostUnderWay, fitting));
  }

  Control control_;
  const std::filesystem::path directory_;
  const Party self_;
  const ServerSchemes schemes_;
  std::unique_ptr<ServerScheme> scheme_;  // the volume's, while its slots are open
  Executor executor_;
  Executor pool_;
  Executor background_;
  Executor readers_;
  Clock& clock_;
  Random& random_;
  Disk& disk_;
  Transport& transport_;
  const std::uint64_t memory_;
  std::size_t cache_bytes_;
  ServerMetrics metrics_;
  AccessLog* const record_;
  std::unique_ptr<BucketStore> bucket_store_;
  std::unique_ptr<GroupSync> sync_;
  std::optional<Error> ailment_;  // why this server cannot carry on
  bool lacks_shares_ = false;     // the reason is that its shares are gone; they can be repaired
  bool recovering_ = false;
  StoreChanges store_changes_;
  bool open_ = false;                      // a session was opened since this process started
  std::uint16_t opening_ = 0;              // of this session, by the client's count
  std::optional<std::uint16_t> rejoined_;  // in which opening: a message may come twice

  // The root buffer.
  struct RootBufferSlot {
    std::shared_ptr<const Bytes> content;
    std::uint64_t stamp = 0;    // the access; 0: never written, or lost
    std::uint64_t durable = 0;  // the access whose write is known to be durable
  };
  std::vector<RootBufferSlot> root_buffer_;
  std::set<BucketIndex> damaged_;  // buckets of the present tree version with a damaged slot
  LogLimit told_of_healing_;
  std::atomic<unsigned> reserved_height_ = 0;  // the disk has room for a tree of this height

  std::shared_ptr<Eviction> eviction_;
  Event eviction_over_;
  std::map<Party, std::vector<std::pair<EvictionId, Payload>>> early_;  // by sender
  std::pair<EvictionId, Bytes> report_;  // Eviction::report() of what was prepared last

  // Messages of other servers for sums and root writes.
  struct Sum {
    std::map<Party, Payload> masked_shares;  // MaskedShareRequest
    bool withdrawn = false;
    bool mended = false;  // this sum has mended a slot
  };
  std::map<std::uint64_t, Sum> sums_;  // by request id
  std::uint64_t oldest_sum_ = 0;
  std::map<std::uint64_t, bool> masked_shares_;  // by request id: begun here; whether it arrived
  std::map<std::pair<WriteNumber, std::uint64_t>, Payload>
      relayed_;                          // RelayRequest, by turn and access
  std::map<Party, std::size_t> relays_;  // by sender: how many wait for their write
  Event parts_changed_;                  // of the three above, of the ring, or the session ends

  // Handlers under way in a session; those of retrievals by tree version.
  std::size_t accesses_ = 0, evictions_ = 0;
  std::map<std::uint64_t, std::size_t> retrievals_;
  Duration last_retrieval_{};          // when it ended
  WriteNumber next_write_number_ = 0;  // after all that have been retrieved for
  Event handler_ended_;

  std::size_t running_ = 0;
  Event idle_;
  Rpc rpc_;
};

}  // namespace s3oram
