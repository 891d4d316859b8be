// The server behind share_server.h: its sessions, its volume and its store as a whole. Accesses,
// healing and evictions have classes of their own, which share one ServerState. Used on one
// executor; not thread-safe. The class is wide because each request that makes a volume, or opens
// or ends a session, is a method.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "serverd/oram/line_measuring.h"
#include "serverd/oram/peer_lines.h"
#include "serverd/oram/server_eviction.h"
#include "serverd/oram/server_heal.h"
#include "serverd/oram/server_labels.h"
#include "serverd/oram/server_marks.h"
#include "serverd/oram/server_retrieval.h"
#include "serverd/oram/server_root.h"
#include "serverd/oram/server_state.h"
#include "serverd/oram/share_server.h"
#include "serverd/oram/store_care.h"
#include "serverd/oram/sums.h"

namespace s3oram {

/// Does what ShareServer::open() does, with a control state that is already open.
Result<std::unique_ptr<ShareServer>> open_share_server(Control control,
                                                       const std::filesystem::path& store,
                                                       Party self, ServerSchemes schemes,
                                                       const ServerEnvironment& environment);

class Server final : public ShareServer {
 public:
  Server(Control control, std::filesystem::path store, Party self, ServerSchemes schemes,
         const ServerEnvironment& environment);

  Status start();
  Task<Status> stop() override;
  void look_after_store() override { care_.look_after(); }
  void gauge() override;
  void set_cache_bytes(std::size_t bytes) override;
  unsigned parties() const override {
    return state_.control.volume() ? state_.params().scheme.servers : 0u;
  }
  bool is_used() const override { return state_.control.session().epoch > 0; }

 private:
  // ---- server_store.cc: the store as a whole

  /// Says whether the shares that control.db lists must be in `slots`, or may be missing because
  /// they are being repaired.
  enum class Shares { must_be_there, may_be_lost };
  /// Opens `slots`. Also succeeds if shares are missing that must be there; the server then counts
  /// as lacking its shares, and has no bucket store.
  Status open_bucket_versions(Shares shares);
  void lack_shares(const std::string& what);
  /// Checks the limit on file sizes. Errors: disk_full (files may not be as large as the tree
  /// needs).
  Status check_file_size() const;
  /// Warns in the log if the memory may not suffice for the cache and an eviction.
  void warn_of_little_memory() const;
  // For StoreCare.
  Status still_there();
  void end_all(const Error& ailment);
  Task<void> quiet();
  Status reopen();

  // ---- share_server.cc: requests

  Task<Result<Bytes>> handle(Party from, MessageType type, Payload request);
  Task<Result<Bytes>> dispatch(Party from, MessageType type, Payload request);
  /// Returns whether an ill server still answers requests of this type.
  static bool is_for_the_ill(MessageType type) {
    return type == MessageType::hello || type == MessageType::reenrol ||
           type == MessageType::create || type == MessageType::peer;
  }

  template <class Request>
  Result<Bytes> decoded(const Payload& request, Result<Bytes> (Server::*method)(const Request&)) {
    const auto message = decode<Request>(request.body());
    if (!message) return malformed();
    return (this->*method)(*message);
  }

  /// Lets a part carry out a request of the open session. The next session waits until the request
  /// has ended. (Without a session, the request may be one to a ring, whose store was lost here.)
  template <class Request, class Part>
  Task<Result<Bytes>> in_session(Payload& request, Part& part,
                                 Task<Result<Bytes>> (Part::*method)(Request, Payload&)) {
    S3O_CO_TRY(state_.check_open());
    auto message = decode<Request>(request.body());
    if (!message) co_return malformed();
    S3O_CO_TRY(state_.check_session(message->epoch));
    if (request.tag() != state_.opening)
      co_return fail(Errc::need_open, "the server was restarted meanwhile");
    constexpr bool kOfEviction = std::is_same_v<Part, ServerEviction>;
    std::size_t& under_way = kOfEviction ? state_.evictions : state_.accesses;
    ++under_way;
    auto answer = co_await (part.*method)(*message, request);
    --under_way;
    state_.handler_ended.notify_all();
    co_return answer;
  }

  Result<Bytes> hello() { return encode(HelloAnswer{state_.self, state_.control.volume()}); }
  Result<Bytes> traffic() const;
  Result<Bytes> survey(const SurveyRequest& request);

  // The volume.

  /// Errors: wrong_volume.
  Status check_volume(const VolumeId& volume) const;
  Result<Bytes> create(const CreateRequest& request);
  Result<Bytes> fits(const FitsRequest& request);
  Result<Bytes> peer(const PeerRequest& request);
  /// Errors: disk_full.
  Status check_room(const VolumeParams& volume) const;
  /// Returns true if the volume can be made here, false if it exists already. Errors: wrong_volume.
  Result<bool> takes(const VolumeDescription& volume, unsigned height) const;
  Result<Bytes> reenrol(const ReenrolRequest& request);
  Result<Bytes> opened(Shares shares);

  // The session.

  Task<Result<Bytes>> open_session(const Payload& payload);
  Task<Result<Bytes>> rejoin(const Payload& payload);
  /// Ends everything under way in the session, which must then be opened again.
  Task<void> end_session(Errc code, const char* why);
  void forget_messages();
  /// Marks root slots as damaged if they do not hold what the client knows to be acknowledged.
  void distrust_root(const OpenRequest& request);

  ServerState state_;
  const ServerSchemes schemes_;
  const std::function<Status(const std::string& peer)> take_peer_;
  Sums sums_;
  ServerRetrieval retrieval_;
  ServerRoot root_;
  ServerHeal heal_;
  ServerLabels labels_;
  ServerMarks marks_;
  ServerEviction eviction_;
  LineMeasuring lines_;
  StoreCare care_;
  bool lacks_shares_ = false;  // it is ill because its shares are gone, which repair can rebuild
  std::optional<std::uint16_t> rejoined_;  // the opening in which it rejoined
  std::size_t running_ = 0;                // handlers under way, in a session or not
  Event idle_;
};

}  // namespace s3oram
