// The client's side of its sessions with the servers: asks one or all of them, opens the session
// again at a server that was restarted, and waits while a server is away.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/trust.h"
#include "oramcore/net/rpc.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// One executor; not thread-safe.
/// It is wide because it offers one method for each way of asking (one server, all, those in step,
/// a threshold of them), and keeps one record of what all of them answered.
class Servers {
 public:
  /// `threshold` servers may lie: the client believes that another client has taken the volume only
  /// if more servers say so.
  Servers(Executor executor, Clock& clock, Random& random, Transport& transport,
          const VolumeId& volume, unsigned count, unsigned threshold = 0);

  unsigned count() const { return count_; }
  const VolumeId& volume() const { return volume_; }

  /// Asks every server what it holds. Errors: unreachable, naming the servers.
  Task<Result<std::vector<HelloAnswer>>> hello(Duration patience);
  /// Asks every server what it holds, and returns the answers by server. Errors: unreachable,
  /// wrong_volume (the address belongs to another server of the volume).
  Task<std::vector<Result<HelloAnswer>>> hello_each(Duration patience);
  /// Asks one server what it holds. Errors: those of hello_each().
  Task<Result<HelloAnswer>> hello_one(Party server, Duration patience);
  /// Creates the volume at every server. Asks all of them first, and creates nothing unless all
  /// answer and none holds a volume.
  Task<Status> create(const VolumeParams& params, Duration patience);

  /// Returns the servers that answer. Waits until all of them do, or, once `enough` is true, until
  /// kGrace has passed; in any case for at most `patience`.
  Task<std::set<Party>> roll_call(std::function<bool(const std::set<Party>&)> enough,
                                  Duration patience);
  static constexpr Duration kGrace = std::chrono::seconds(2);
  /// Returns whether the server answers that it holds no volume, because its store was lost.
  Task<bool> holds_nothing(Party server, Duration patience);

  /// Asks one server for its state. Errors, naming the server: unreachable, wrong_volume,
  /// unsupported (the server is too old for this question).
  Task<Result<SurveyAnswer>> survey_one(Party server, Duration patience);

  /// Returns the error of a server that holds the volume but whose shares are gone, so that it
  /// cannot take part; std::nullopt if it does not report that.
  Task<std::optional<Error>> lacks_shares(Party server, Duration patience);

  /// Asks the server how much it has sent and received.
  Task<Result<TrafficAnswer>> traffic(Party server, Duration patience);

  /// Asks the server which other servers it hears. Errors: unreachable, bad_request (its version
  /// cannot say).
  Task<Result<LinesAnswer>> lines(Party server);
  /// Returns when the oldest open question was asked for whose answer the server may need other
  /// servers; std::nullopt if there is none.
  std::optional<Duration> needs_others_since(Party server) const;

  /// Re-enrols a server whose store is lost. Errors: bad_request (its version cannot do it),
  /// wrong_volume, unreachable ...
  Task<Status> reenrol(const ReenrolRequest& request, Duration patience);

  /// Asks how high a tree may grow with the space on the server's disk. Errors: bad_request (its
  /// version cannot say), unreachable.
  Task<Result<RoomAnswer>> room(Party server, Duration patience);
  /// Asks whether the server's disk is full. Errors: bad_request (its version cannot say),
  /// unreachable.
  Task<Result<DiskAnswer>> disk(Party server, Duration patience);

  /// Brings a server that has opened the session to the client's tree version. Errors: need_open
  /// (the server was restarted meanwhile).
  using Reconcile = std::function<Task<Status>(Party server, OpenAnswer answer, Duration patience)>;
  /// From now on, a store that is not as it should be ends a question instead of making it wait.
  /// Needed for a client without a state of its own, which cannot know whether the store can be put
  /// right.
  void do_not_wait_for_stores() { waits_for_stores_ = false; }

  /// Opens session `next` at every server and reconciles each. From then on the session is opened
  /// again automatically at a server that was restarted. `present` fills in the part of an
  /// OpenRequest that describes the client's current tree version. Servers in `without` are left
  /// out, and must not be asked until bring_back(). Errors: stale_vault, servers_disagree (so few
  /// servers report stale_vault that all of them may lie) ...
  Task<Status> open(std::vector<Session> known, Session next,
                    std::function<void(OpenRequest&)> present, Reconcile reconcile,
                    Duration patience, std::set<Party> without = {});

  /// Does the same as open(), but leaves out a server that fails. Returns the outcome of each
  /// server; std::nullopt for those in `without`.
  Task<std::vector<std::optional<Status>>> open_each(std::vector<Session> known, Session next,
                                                     std::function<void(OpenRequest&)> present,
                                                     Reconcile reconcile, Duration patience,
                                                     std::set<Party> without);

  /// Stops asking a server: current and later questions to it end with unreachable. Root writes and
  /// parts of healed slots at the other servers, which may wait for this one, end with it too; they
  /// can be asked for again.
  void leave_out(Party server);
  bool is_left_out(Party server) const { return left_out_[server]; }
  /// Opens the session at a server that is left out, and lets it be asked again. Errors: those of
  /// open().
  Task<Status> bring_back(Party server, Duration patience);
  /// Does the same as bring_back() for a server whose own session is older than all that the client
  /// knows, for example because the server was away when the client's state was rebuilt. The server
  /// must then take up the client's tree version. Errors: wrong_volume (the server holds nothing,
  /// or its session is not older), stale_vault (the server is one eviction ahead: try again after
  /// the next one) ...
  Task<Status> bring_back_older(Party server, Duration patience);
  /// Returns whether every server has the session, so that no older session can come back.
  bool all_have_session() const;
  /// Forgets the sessions opened at a server, because another machine has taken its place.
  void begin_again(Party server);
  /// Returns the number of the last opening of the session at the server. A different number later
  /// means that the server was restarted or replaced meanwhile.
  std::uint16_t opening(Party server) const { return openings_[server]; }
  /// From now on, a server that holds no volume when its session is opened again is re-enrolled by
  /// `reenrol`. Otherwise the client would wait until the server's store is put back.
  using Reenrol = std::function<Task<Status>(Party server)>;
  void expect_empty(Party server, Reenrol reenrol);
  /// Tells a server the address and key of another server.
  Task<Status> tell_of_peer(Party server, const std::string& peer, Duration patience);

  /// Returns when a question began to go unanswered: the time of the oldest open question or that
  /// of the server's last message, whichever is later; std::nullopt if no question is open.
  std::optional<Duration> unanswered_since(Party server) const;
  /// Returns whether any message came from the server at this time or later.
  bool heard_since(Party server, Duration time) const;

  /// Asks one server, and keeps asking while it is away, restarts, or has trouble with its store.
  /// Returned errors are final: fenced, stale_vault, corrupt, bad_request, shutting_down, and
  /// unreachable if the server is left out.
  Task<Result<Payload>> ask(Party server, MessageType type, Bytes message);

  /// An attempt in which several servers take part and send data to each other. The first failure
  /// ends it for all of them, so later failures are not counted as troubles. It also fails
  /// (need_open) at a server whose session had to be opened again before the server could be asked.
  struct JointAttempt {
    bool failed = false;
  };
  /// Asks one server once. Any failure is an error, including a restart (need_open; the session is
  /// open again when this returns). Without an answer within `patience` it is unreachable.
  Task<Result<Payload>> ask_once(Party server, MessageType type, Bytes message,
                                 std::shared_ptr<JointAttempt> attempt = {},
                                 Duration patience = Duration::max());
  /// Asks a server while the session is being opened there (Reconcile).
  Task<Result<Payload>> call_opened(Party server, MessageType type, Bytes message,
                                    Duration patience) {
    return rpc_.call(server, type, std::move(message), patience, openings_[server]);
  }
  /// Sends the same message to these servers. Returns the first error of a server that is not left
  /// out by the time it fails.
  Task<Status> ask_all(Bytes servers, MessageType type, Bytes message);

  /// Returns how often a server has done a part of an access or of an eviction. Further parts of a
  /// server do not count until all servers that are not left out have done one. May be called on
  /// any thread.
  std::uint64_t steps() const { return steps_; }

  /// Returns whether the server answered the last question and no question is overdue.
  bool answering(Party server) const { return answering_[server] && !rpc_.overdue(server); }
  /// Returns how long the server has not answered although it was asked; std::nullopt if it
  /// answers. (A server that works on a long request answers others, so call traffic() first.)
  std::optional<Duration> silent_for(Party server) const;
  /// Returns the last error with which the server refused a request because of its disk or store,
  /// if it has not fulfilled such a request since; std::nullopt if there is none.
  std::optional<Trouble> trouble(Party server) const {
    return trust_.troubles().at(server, clock_.now());
  }
  /// A question that is long overdue at a server that answers other questions, although all servers
  /// that it may need are there.
  struct Stall {
    MessageType doing{};
    Duration time{};  // how long the server has taken, as far as no other one kept it waiting
  };
  /// Returns std::nullopt also while a server is silent that is not left out, because others may
  /// wait for it.
  std::optional<Stall> stalled(Party server) const;
  /// Names a server that is caught, in the log and in the status. Returns the error that says so.
  Error found_lying(Party server, std::string_view why) { return trust_.found_lying(server, why); }
  /// Does the same with an error that the caller has written, because there is no proof.
  Error accuse(Party server, Error error) { return trust_.accuse(server, std::move(error)); }
  /// Returns the troubles of the servers and those that the caller reports for kClient.
  Troubles& troubles() { return trust_.troubles(); }

  /// The pause before the same question is asked again. (After an error that may pass at once there
  /// is none the first time; a server might never stop sending it.)
  static constexpr Duration kRetryAfter = std::chrono::seconds(1);

  /// Sets which servers the volume can do without. A refusal by one of those does not end the
  /// volume: its error becomes `failed`, and counts as a trouble.
  void set_may_do_without(std::function<bool(Party)> may) {
    trust_.set_may_do_without(std::move(may));
  }

  /// Ends all waiting with shutting_down.
  void stop() {
    stopped_ = true;
    rpc_.stop();
  }
  bool stopped() const { return stopped_; }

 private:
  /// Records that a question, asked at `asked`, was answered in some way, or was not answered in
  /// time.
  void heard(Party server, Duration asked, bool answered);
  /// Counts the answer of a server, unless it has to wait for the others.
  void note_step(Party server, MessageType type);
  /// Do what Trust does, until stop().
  Result<Payload> weigh(Party server, MessageType type, Result<Payload> answer);
  void note(Party server, MessageType type, const Status& answer, bool follows = false);
  void warn(Party server, const Error& error);
  /// Asks without a session, and only once.
  template <class Answer>
  Task<Result<Answer>> ask_outside_session(Party server, MessageType type, Bytes question,
                                           Duration patience);
  bool is_final(Errc code) const {
    return !Troubles::may_pass(code) || (Troubles::is_of_store(code) && !waits_for_stores_);
  }
  enum class Opening { first, again };
  using MaybeOlder = std::optional<Session>;  // the older session, for bring_back_older()
  Task<Status> bring_back(Party server, Duration patience, MaybeOlder older);
  Task<Status> open_one(Party server, Duration patience, Opening which, MaybeOlder older = {});
  Task<Status> try_open(Party server, OpenRequest& request, Duration patience);
  Task<Status> reenrol_empty(Party server, Status failed);
  /// Returns the error for a question to a server that is left out.
  static Error away(Party server);
  Task<Status> reopen(Party server);

  Executor executor_;
  Clock& clock_;
  VolumeId volume_;
  unsigned count_, threshold_;
  bool waits_for_stores_ = true;
  std::vector<Session> known_;
  Session session_;
  std::function<void(OpenRequest&)> present_;
  Reconcile reconcile_;
  std::vector<std::uint16_t> openings_;  // how often the session was opened there
  std::vector<bool> answering_, reopening_, left_out_, has_session_;
  std::vector<bool> did_part_;  // since all servers did theirs
  std::atomic<std::uint64_t> steps_ = 0;
  std::map<Party, Reenrol> expected_empty_;
  std::uint64_t times_left_out_ = 0;
  std::vector<LogLimit> told_, told_reopening_;  // limit lines about each server
  std::vector<std::optional<Duration>> last_heard_;
  std::vector<std::optional<Duration>> silent_since_;  // the first unanswered question since then
  Event reopened_;
  bool stopped_ = false;
  Trust trust_;
  Rpc rpc_;
};

/// Runs `each(server)`, a coroutine, for these servers concurrently.
template <class Each>
auto for_each_of(const Bytes& servers, Each each) {
  std::vector<std::invoke_result_t<Each, Party>> tasks;
  for (const Party server : servers) tasks.push_back(each(server));
  return all(std::move(tasks));
}

/// Runs `each(server)`, a coroutine, for servers 1..count concurrently. (Not a coroutine itself:
/// g++ 12 destroys temporaries that are converted to a coroutine's parameters twice.)
template <class Each>
auto for_all(unsigned count, Each each) {
  std::vector<std::invoke_result_t<Each, Party>> tasks;
  for (unsigned server = 1; server <= count; ++server)
    tasks.push_back(each(static_cast<Party>(server)));
  return all(std::move(tasks));
}

}  // namespace s3oram
