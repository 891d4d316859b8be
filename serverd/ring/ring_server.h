// The server of ring: its sessions and its volume. The store as a whole (ring_store.h), accesses
// (ring_accesses.h), rewrites of buckets (ring_rewrites.h) and the record (ring_record.h) are parts
// that share one ServerState, which the servers of the tree schemes also use. Used on one executor;
// not thread-safe.
#pragma once

#include <filesystem>
#include <memory>

#include "serverd/oram/line_measuring.h"
#include "serverd/oram/server_state.h"
#include "serverd/oram/share_server.h"
#include "serverd/oram/store_care.h"
#include "serverd/oram/store_check.h"
#include "serverd/ring/ring_accesses.h"
#include "serverd/ring/ring_rewrites.h"

namespace s3oram::ring {

class Server final : public ShareServer {
 public:
  /// Opens the store in the directory `store`, which the caller has locked, or starts an empty one.
  static Result<std::unique_ptr<ShareServer>> open(const std::filesystem::path& store, Party self,
                                                   const ServerEnvironment& environment);
  /// Does the same with a control state that is already open.
  static Result<std::unique_ptr<ShareServer>> open(Control control,
                                                   const std::filesystem::path& store, Party self,
                                                   const ServerEnvironment& environment);
  Server(Control control, std::filesystem::path store, Party self,
         const ServerEnvironment& environment);

  Task<Status> stop() override;
  void look_after_store() override { care_.look_after(); }
  void gauge() override;
  void set_cache_bytes(std::size_t bytes) override;
  unsigned parties() const override { return state_.control.volume() ? 1 : 0; }
  bool is_used() const override { return store_.is_used(); }

 private:
  Status start();
  Task<Result<Bytes>> handle(Party from, MessageType type, Payload request);
  Task<Result<Bytes>> dispatch(MessageType type, Payload request);

  template <class Request>
  Result<Bytes> decoded(const Payload& request, Result<Bytes> (Server::*method)(const Request&)) {
    const auto message = decode<Request>(request.body());
    if (!message) return malformed();
    return (this->*method)(*message);
  }
  /// Lets a part carry out a request of the open session. The next session waits until the request
  /// has ended.
  template <class Request, class Part>
  Task<Result<Bytes>> in_session(Payload request, Part& part,
                                 Task<Result<Bytes>> (Part::*method)(Request)) {
    auto message = decode<Request>(request.body());
    if (!message) co_return malformed();
    S3O_CO_TRY(state_.check_session(message->epoch));
    if (request.tag() != state_.opening)
      co_return fail(Errc::need_open, "the server was restarted meanwhile");
    ++state_.accesses;
    auto answer = co_await (part.*method)(std::move(*message));
    if (--state_.accesses == 0) state_.handler_ended.notify_all();
    co_return answer;
  }

  Result<Bytes> hello() { return encode(HelloAnswer{state_.self, state_.control.volume()}); }
  Result<Bytes> traffic() const;
  Result<Bytes> survey(const SurveyRequest& request);

  // The volume.

  /// Returns true if the volume can be made here, false if it exists already. Errors: wrong_volume,
  /// bad_request.
  Result<bool> takes(const VolumeDescription& volume) const;
  Status check_room(const VolumeParams& volume) const;
  Result<Bytes> create(const CreateRequest& request);
  Result<Bytes> fits(const FitsRequest& request);
  Status check_volume(const VolumeId& volume) const;

  // The session.

  /// Raises the epoch by compare-and-set. Errors: stale_vault, wrong_volume, bad_request.
  Status take_session(const OpenRequest& request);
  Task<Result<Bytes>> open_session(Payload payload);

  // The store.

  /// Opens the store. Errors: those of RingStore::open().
  Status open_store();
  /// Opens the store unless it is open: an earlier attempt may have failed just after the volume
  /// was made.
  Status require_store() { return store_.is_open() ? Status() : open_store(); }
  // For StoreCare.
  Task<void> quiet();
  Status reopen();

  ServerState state_;
  RingRecord record_;
  RingStore store_;
  RingAccesses accesses_;
  RingRewrites rewrites_;
  LineMeasuring lines_;
  StoreCare care_;
  std::size_t running_ = 0;  // handlers under way, in a session or not
  Event idle_;
};

}  // namespace s3oram::ring
