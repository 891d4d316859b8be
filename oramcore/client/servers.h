// The client's side of its sessions with the servers: asks one or all of them, opens the session
// again with a server that was restarted, and waits while one is away.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/troubles.h"
#include "oramcore/net/rpc.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// One executor; not thread-safe.
/// It is wide because it offers one method for each way of asking (one server, all, those in step,
/// a threshold of them), and keeps one record of what all of them answered.
class Servers {
 public:
  /// `threshold` servers may lie: that the volume is another client's counts if more say so.
  Servers(Executor executor, Clock& clock, Random& random, Transport& transport,
          const VolumeId& volume, unsigned count, unsigned threshold = 0);

  unsigned count() const { return count_; }
  const VolumeId& volume() const { return volume_; }

  /// Asks every server what it holds. Errors: unreachable, naming the servers.
  Task<Result<std::vector<HelloAnswer>>> hello(Duration patience);
  /// Asks every server what it holds; the answers by server. Errors: unreachable, wrong_volume (it
  /// is another one of the servers).
  Task<std::vector<Result<HelloAnswer>>> hello_each(Duration patience);
  /// Asks one server what it holds. Errors: as of hello_each().
  Task<Result<HelloAnswer>> hello_one(Party server, Duration patience);
  /// Makes the volume at every server. Asks all of them first, and makes nothing unless all answer
  /// and are free.
  Task<Status> create(const VolumeParams& params, Duration patience);

  /// Returns the servers that answer: waits until all do, or, once `enough` holds, no longer than
  /// kGrace in all; at most `patience`.
  Task<std::set<Party>> roll_call(std::function<bool(const std::set<Party>&)> enough,
                                  Duration patience);
  static constexpr Duration kGrace = std::chrono::seconds(2);
  /// Whether the server answers that it holds no volume: its store was lost.
  Task<bool> holds_nothing(Party server, Duration patience);

  /// Asks one server where it stands. Errors: as of survey().
  Task<Result<SurveyAnswer>> survey_one(Party server, Duration patience);
  /// Asks every server where it stands. Errors, naming the server: unreachable, wrong_volume,
  /// unsupported (the server is too old for this question).
  Task<Result<std::vector<SurveyAnswer>>> survey(Duration patience);

  /// Returns the error of a server that holds the volume but whose shares are gone, so that it
  /// cannot take part; std::nullopt if it does not say so.
  Task<std::optional<Error>> lacks_shares(Party server, Duration patience);

  /// Asks what the server has sent and received.
  Task<Result<TrafficAnswer>> traffic(Party server, Duration patience);

  /// Re-enrols a server whose store is lost. Errors: bad_request (its version cannot do it),
  /// wrong_volume, unreachable ...
  Task<Status> reenrol(const ReenrolRequest& request, Duration patience);

  /// Asks how high a tree the server's disk has room for. Errors: bad_request (its version cannot
  /// say), unreachable.
  Task<Result<RoomAnswer>> room(Party server, Duration patience);

  /// Brings a server that has opened the session to the client's tree version. Errors: need_open
  /// (it was restarted meanwhile).
  using Reconcile = std::function<Task<Status>(Party server, OpenAnswer answer, Duration patience)>;
  /// From now on a store that is not what it should be ends a question, and is not waited for: the
  /// client has no state of its own to say that it could be put right.
  void do_not_wait_for_stores() { waits_for_stores_ = false; }

  /// Opens session `next` at every server and reconciles each. From then on the session is opened
  /// again by itself at a server that was restarted. `present` fills in the part of an OpenRequest
  /// that describes the client's present tree version. Servers in `without` are left out, and must
  /// not be asked until bring_back(). Errors: stale_vault, servers_disagree (too few say so to be
  /// believed) ...
  Task<Status> open(std::vector<Session> known, Session next,
                    std::function<void(OpenRequest&)> present, Reconcile reconcile,
                    Duration patience, std::set<Party> without = {});

  /// Does what open() does, and returns the outcome of each server; std::nullopt for those in
  /// `without`. A server that fails is left out.
  Task<std::vector<std::optional<Status>>> open_each(std::vector<Session> known, Session next,
                                                     std::function<void(OpenRequest&)> present,
                                                     Reconcile reconcile, Duration patience,
                                                     std::set<Party> without);

  /// A server that is left out is not asked: questions to it that are under way, or come later,
  /// end with unreachable. So do root writes at the other servers, which may wait for it; they can
  /// be asked again.
  void leave_out(Party server);
  bool is_left_out(Party server) const { return left_out_[server]; }
  /// Opens the session at a server that is left out, which then is asked again. Errors: those of
  /// open().
  Task<Status> bring_back(Party server, Duration patience);
  /// Whether every server has the session, so that no older one can come back.
  bool all_have_session() const;
  /// Forgets what was opened at a server, because another machine has taken its place.
  void begin_again(Party server);
  /// The number of the last opening of the session there: another one means that a server was
  /// restarted, or exchanged, meanwhile.
  std::uint16_t opening(Party server) const { return openings_[server]; }
  /// From now on a server that holds no volume when its session is opened again is re-enrolled by
  /// `reenrol`, and is not waited for until its store is put back.
  using Reenrol = std::function<Task<Status>(Party server)>;
  void expect_empty(Party server, Reenrol reenrol);
  /// Tells a server of another one's address and key.
  Task<Status> tell_of_peer(Party server, const std::string& peer, Duration patience);

  /// When the server was asked what it has not answered, unless it has answered anything since.
  std::optional<Duration> unanswered_since(Party server) const;

  /// Asks one server, and keeps asking while it is away, restarts, or has trouble with its store.
  /// Errors are final: fenced, stale_vault, corrupt, bad_request, shutting_down, and unreachable if
  /// the server is left out.
  Task<Result<Payload>> ask(Party server, MessageType type, Bytes message);

  /// An attempt in which several servers take part, and send each other something. The first
  /// failure ends it for all of them, so later failures are not counted as troubles. It also fails
  /// (need_open) at a server where the session had to be opened again before it could be asked.
  struct JointAttempt {
    bool failed = false;
  };
  /// Asks one server once: any failure is an error, also a restart (need_open; the session is open
  /// again by then).
  Task<Result<Payload>> ask_once(Party server, MessageType type, Bytes message,
                                 std::shared_ptr<JointAttempt> attempt = {});
  /// Asks a server while the session is being opened there (Reconcile).
  Task<Result<Payload>> call_opened(Party server, MessageType type, Bytes message,
                                    Duration patience) {
    return rpc_.call(server, type, std::move(message), patience, openings_[server]);
  }
  /// Sends the same message to these servers. Returns the first error, if there is one, of a server
  /// that is not left out by then.
  Task<Status> ask_all(Bytes servers, MessageType type, Bytes message);

  /// Whether the server answered the last question, and no question has waited long.
  bool answering(Party server) const { return answering_[server] && !rpc_.overdue(server); }
  /// How long the server has answered nothing although it was asked; nothing if it answers. (A
  /// server that works on a long request answers others: ask for its traffic() first.)
  std::optional<Duration> silent_for(Party server) const;
  /// The error with which the server refused something that it has not done since, because of its
  /// disk or its store; std::nullopt if there is none.
  std::optional<Trouble> trouble(Party server) const { return troubles_.at(server, clock_.now()); }
  /// A question that is long overdue at a server that answers others.
  struct Stall {
    MessageType doing{};
    Duration time{};  // since it was asked
  };
  std::optional<Stall> stalled(Party server) const;
  /// The troubles of the servers and, as the caller reports them, of kClient.
  Troubles& troubles() { return troubles_; }

  /// Whether an error may pass, so that the same can be asked again, at once (need_open,
  /// unreachable: of other servers) or later.
  /// While a session is open, that includes a store that is damaged or was set back: once the
  /// newest store is back, the server goes on.
  static bool may_pass(Errc code) {
    return code == Errc::disk_full || code == Errc::failed || code == Errc::need_open ||
           code == Errc::unreachable || is_of_store(code);
  }
  /// Whether the server's store has to be put right.
  static bool is_of_store(Errc code) {
    return code == Errc::wrong_volume || code == Errc::damaged_vault;
  }
  /// How long to wait before the same is asked again.
  static constexpr Duration kRetryAfter = std::chrono::seconds(1);

  /// Says which servers the volume can go on without. What one of those refuses does not end it:
  /// their errors become `failed`, and count as troubles.
  void set_may_do_without(std::function<bool(Party)> may) { may_do_without_ = std::move(may); }

  /// Ends all waiting with shutting_down.
  void stop() {
    stopped_ = true;
    rpc_.stop();
  }
  bool stopped() const { return stopped_; }

 private:
  /// Records that a question, asked at `asked`, was answered in some way, or not at all in its
  /// time.
  void heard(Party server, Duration asked, bool answered);
  /// Records what the answer says about the server's state.
  void note(Party server, MessageType type, const Status& answer, JointAttempt* attempt);
  void warn(Party server, const Error& error);
  /// What an answer is worth: an error that gives the volume to another client, or ends it, counts
  /// once more servers than may lie have given it, and until then as one that may pass. So does
  /// what a server refuses that is not needed.
  Result<Payload> weigh(Party server, MessageType type, Result<Payload> answer);
  bool is_final(Errc code) const {
    return !may_pass(code) || (is_of_store(code) && !waits_for_stores_);
  }
  enum class Opening { first, again };
  Task<Status> open_one(Party server, Duration patience, Opening which);
  Task<Status> try_open(Party server, OpenRequest& request, Duration patience);
  Task<Status> reenrol_empty(Party server, Status failed);
  /// Why a server that is left out is not asked.
  static Error away(Party server);
  Task<Status> reopen(Party server);

  Executor executor_;
  Clock& clock_;
  VolumeId volume_;
  unsigned count_, threshold_;
  bool waits_for_stores_ = true;
  std::set<Party> deposing_;                         // say that the volume is another client's
  std::map<MessageType, std::set<Party>> refusing_;  // what a volume in use depends on
  std::vector<Session> known_;
  Session session_;
  std::function<void(OpenRequest&)> present_;
  Reconcile reconcile_;
  std::vector<std::uint16_t> openings_;  // how often the session was opened there
  std::vector<bool> answering_, reopening_, left_out_, has_session_;
  Troubles troubles_;
  std::function<bool(Party)> may_do_without_;
  std::map<Party, Reenrol> expected_empty_;
  std::uint64_t times_left_out_ = 0;
  std::vector<LogLimit> told_;  // limits warnings about each server
  std::vector<std::optional<Duration>> last_heard_;
  std::vector<std::optional<Duration>> silent_since_;  // the first question without an answer since
  Event reopened_;
  bool stopped_ = false;
  Rpc rpc_;
};

/// Runs `each(server)`, a coroutine, for these servers at once.
template <class Each>
auto for_each_of(const Bytes& servers, Each each) {
  std::vector<std::invoke_result_t<Each, Party>> tasks;
  for (const Party server : servers) tasks.push_back(each(server));
  return all(std::move(tasks));
}

/// Runs `each(server)`, a coroutine, for servers 1..count at once. (Not a coroutine itself: g++ 12
/// destroys temporaries that are converted to a coroutine's parameters twice.)
template <class Each>
auto for_all(unsigned count, Each each) {
  std::vector<std::invoke_result_t<Each, Party>> tasks;
  for (unsigned server = 1; server <= count; ++server)
    tasks.push_back(each(static_cast<Party>(server)));
  return all(std::move(tasks));
}

}  // namespace s3oram
