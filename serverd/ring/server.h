// The server of ring: keeps bucket versions, evaluates them at points, and keeps the log of the
// newest writes. In parts: sessions (server.cc), the store as a whole (server_store.cc), accesses
// (server_access.cc), rewrites of buckets (server_rewrite.cc), the record of both
// (server_record.cc). One executor; not thread-safe.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "oramcore/net/rpc.h"
#include "serverd/oram/server_metrics.h"
#include "serverd/oram/share_server.h"
#include "serverd/oram/store_care.h"
#include "serverd/oram/store_check.h"
#include "serverd/oram/store_database.h"
#include "serverd/ring/asked_file.h"
#include "serverd/ring/version_rows.h"
#include "serverd/store/access_log.h"
#include "serverd/store/group_sync.h"

namespace s3oram::ring {

class Server final : public ShareServer {
 public:
  /// Opens (or, if empty, starts) the store in the directory `store`, which the caller has locked.
  static Result<std::unique_ptr<ShareServer>> open(const std::filesystem::path& store, Party self,
                                                   const ServerEnvironment& environment);
  /// The same of a control state that is open already.
  static Result<std::unique_ptr<ShareServer>> open(Control control,
                                                   const std::filesystem::path& store, Party self,
                                                   const ServerEnvironment& environment);
  Server(Control control, std::filesystem::path store, Party self,
         const ServerEnvironment& environment);

  Task<Status> stop() override;
  void look_after_store() override { care_.look_after(); }
  void gauge() override;
  void set_cache_bytes(std::size_t bytes) override;
  unsigned parties() const override { return control_.volume() ? 1 : 0; }
  bool is_used() const override { return control_.session().epoch > 0; }

 private:
  // ---- server.cc

  Status start();
  Task<Result<Bytes>> handle(Party from, MessageType type, Payload request);
  Task<Result<Bytes>> dispatch(MessageType type, Payload request);

  template <class Request>
  Result<Bytes> decoded(const Payload& request, Result<Bytes> (Server::*method)(const Request&)) {
    const auto message = decode<Request>(request.body());
    if (!message) return malformed();
    return (this->*method)(*message);
  }
  /// Carries out a request of the open session; the next session waits for its end.
  template <class Request>
  Task<Result<Bytes>> in_session(Payload request, Task<Result<Bytes>> (Server::*method)(Request)) {
    auto message = decode<Request>(request.body());
    if (!message) co_return malformed();
    S3O_CO_TRY(check_session(message->epoch));
    if (request.tag() != opening_)
      co_return fail(Errc::need_open, "the server was restarted meanwhile");
    ++in_session_;
    auto answer = co_await (this->*method)(std::move(*message));
    if (--in_session_ == 0) session_idle_.notify_all();
    co_return answer;
  }
  Status check_session(std::uint64_t epoch) const;
  static tl::unexpected<Error> malformed() { return fail(Errc::bad_request, "malformed request"); }
  static Bytes done() { return Bytes(Rpc::kHeaderSize); }

  Result<Bytes> hello() { return encode(HelloAnswer{self_, control_.volume()}); }
  Result<Bytes> traffic() const;
  Result<Bytes> room();
  Result<Bytes> survey(const SurveyRequest& request);
  /// Whether a volume can be made here that is not there yet. Errors: wrong_volume, bad_request.
  Result<bool> takes(const VolumeDescription& volume) const;
  Status check_room(const VolumeParams& volume) const;
  Result<Bytes> create(const CreateRequest& request);
  Result<Bytes> fits(const FitsRequest& request);
  Status check_volume(const VolumeId& volume) const;
  /// Raises the epoch by compare-and-set. Errors: stale_vault, wrong_volume, bad_request.
  Status take_session(const OpenRequest& request);
  Task<Result<Bytes>> open_session(Payload payload);

  // ---- server_store.cc

  /// Opens the files of the volume. Errors: wrong_volume (`slots` is not the file that control.db
  /// describes).
  Status open_store();
  Status try_open_store();
  /// An earlier attempt may have failed, just after the volume was made.
  Status require_store() { return bucket_store_ ? Status() : open_store(); }
  void close_store();
  Status open_asked();
  /// Makes `asked` again, whose record of turns is lost.
  Status remake_asked();
  Status reserve_bucket_versions(unsigned height);
  // For StoreCare.
  Status still_there();
  Task<void> quiet();
  Status reopen();

  // ---- server_access.cc

  Task<Result<Bytes>> retrieve(RetrieveRequest request);
  Task<Result<Bytes>> value_at(BucketVersionRef ref, Ask ask);
  Task<Result<Bytes>> write_log(WriteLogRequest request);
  Task<Result<Bytes>> read_log(ReadLogRequest request);
  /// The access whose block is in the log's slot; 0 if none is, or the slot cannot be read.
  Result<std::uint64_t> logged(std::uint32_t slot);
  struct LogSlot {
    std::optional<BucketStore::StampedSlot> content;
    bool is_lost = false;  // it was written, and is damaged or cannot be read
  };
  /// Errors: failed (some cannot be read, which may pass).
  Result<std::vector<LogSlot>> log_slots(std::uint32_t first, std::uint32_t count);
  Turn turn_in(const BucketStore::StampedSlot& slot) const;
  Task<Result<Bytes>> layout(LayoutRequest request);

  // ---- server_record.cc; without a record they do nothing

  void record_retrieval(const RetrieveRequest& request);
  void record_rewrite(const std::vector<BucketIndex>& buckets);
  void record(AccessLog::Cause cause, AccessLog::Operation operation, const RecordedSlots& slots);
  /// Of the log, which counts as the bucket at the root.
  void record_log(AccessLog::Cause cause, AccessLog::Operation operation, std::uint32_t first,
                  std::uint32_t count);

  // ---- server_rewrite.cc

  /// A version that is held, by its stamp, and not given up until unpin(). Errors: former_view.
  Result<BucketVersionRef> pin(BucketIndex bucket, VersionStamp stamp);
  void unpin(const BucketVersionRef& ref);
  void forget_freed();

  Task<Result<Bytes>> fetch_rows(FetchRowsRequest request);
  Task<Result<Bytes>> check(CheckRequest request);
  Task<Result<Bytes>> store_rows(StoreRowsRequest request);
  Task<Result<Bytes>> prepare(PrepareRequest request);
  Task<Result<Bytes>> commit(CommitRequest request);
  Task<Result<Bytes>> discard(DiscardRequest request);
  Task<Result<Bytes>> release(ReleaseRequest request);
  Task<Result<Bytes>> reserve(ReserveRequest request);

  /// A new version of a bucket while its rows arrive. Once they are all there and written,
  /// `content` is gone.
  struct NewVersion {
    BucketVersionNumber number = 0;
    std::shared_ptr<BucketVersion> content;
    std::vector<bool> has;
    std::size_t missing = 0;
    bool written = false;
  };
  /// What was stored for an attempt that is not prepared yet.
  struct Stored {
    std::uint64_t begun = 0;  // GroupSync::begin(), before the first write
    std::map<BucketIndex, NewVersion> versions;
  };
  Result<NewVersion*> new_version(const EvictionId& id, BucketIndex bucket);
  void drop(const EvictionId& id);
  void drop_committed();
  bool is_discarded(const EvictionId& id) const;
  std::size_t incomplete() const;

  static constexpr auto kSlots = "slots";  // the file of rows and of the log
  // A client has so many attempts and unfinished versions under way at most; another one would fill
  // the memory.
  static constexpr std::size_t kMostAttempts = 4, kMostIncomplete = 8;
  /// Of so many attempts that were discarded, rows that come late are refused.
  static constexpr std::size_t kDiscarded = 64;

  Control control_;
  const std::filesystem::path directory_;
  const Party self_;
  Executor executor_, pool_, background_, readers_;
  Clock& clock_;
  Disk& disk_;
  Transport& transport_;
  std::size_t cache_bytes_;
  ServerMetrics metrics_;
  AccessLog* const record_;

  std::optional<Params> params_;
  std::unique_ptr<BucketStore> bucket_store_;
  std::unique_ptr<VersionRows> rows_;
  std::unique_ptr<AskedFile> asked_;
  std::unique_ptr<GroupSync> sync_;
  Patience log_patience_;  // with slots of the log
  StoreCare care_;
  bool open_ = false;          // a session was opened in this process's life
  std::uint16_t opening_ = 0;  // of this session, by the client's count
  unsigned reserved_height_ = 0;

  std::map<std::uint32_t, std::uint64_t> logged_;  // accesses by log slot, as far as known
  std::map<EvictionId, Stored> stored_;
  std::deque<EvictionId> discarded_;  // the last ones

  std::size_t in_session_ = 0, running_ = 0;
  Event session_idle_, idle_;
  Rpc rpc_;
};

}  // namespace s3oram::ring
