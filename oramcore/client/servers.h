// The client's side of its sessions with the servers: asking one or all of them, opening the
// session again with one that was restarted, and waiting while one is away.
#pragma once

#include <functional>
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
class Servers {
 public:
  Servers(Executor executor, Clock& clock, Random& random, Transport& transport,
          const VolumeId& volume, unsigned count);

  unsigned count() const { return count_; }
  const VolumeId& volume() const { return volume_; }

  /// Asks every server what it holds. Errors: unreachable, naming the servers.
  Task<Result<std::vector<HelloAnswer>>> hello(Duration patience);
  /// Makes the volume at every server. All are asked first, and nothing is made unless all are
  /// there and free.
  Task<Status> create(const VolumeParams& params, Duration patience);

  /// Asks every server where it stands. Errors: unreachable, wrong_volume, unsupported (a server is
  /// older than this question), naming the server.
  Task<Result<std::vector<SurveyAnswer>>> survey(Duration patience);

  /// What a server that holds the volume says if its shares are gone, so that it cannot take part;
  /// std::nullopt if it does not say so.
  Task<std::optional<Error>> lacks_shares(Party server, Duration patience);

  /// What the server has sent and received.
  Task<Result<TrafficAnswer>> traffic(Party server, Duration patience);

  /// Has a server whose store is lost take its place again. Errors: bad_request (it is of a version
  /// that cannot), wrong_volume, unreachable ...
  Task<Status> reenrol(const ReenrolRequest& request, Duration patience);

  /// How high a tree its disk has room for. Errors: bad_request (it is of a version that cannot
  /// tell), unreachable.
  Task<Result<RoomAnswer>> room(Party server, Duration patience);

  /// What to do when a server has opened the session: bring it to the client's view. need_open: it
  /// was restarted meanwhile.
  using Reconcile = std::function<Task<Status>(Party server, OpenAnswer answer, Duration patience)>;
  /// Opens session `next` at every server and reconciles each. From then on a server that was
  /// restarted is opened again by itself.
  /// `present` fills in what an OpenRequest says of the client's present view. Servers in
  /// `without` are left alone, and must not be asked.
  Task<Status> open(std::vector<Session> known, Session next,
                    std::function<void(OpenRequest&)> present, Reconcile reconcile,
                    Duration patience, std::set<Party> without = {});

  /// Asks one server, and keeps asking while it is away, restarts, or has trouble with its store.
  /// Errors are final: fenced, stale_vault, corrupt, bad_request, shutting_down ...
  Task<Result<Payload>> ask(Party server, MessageType type, Bytes message);

  /// An attempt in which several servers take part, and send each other something. The first
  /// failure ends it for all of them, so the failures after that one are no troubles of their own.
  /// It fails (need_open) too at a server whose session had to be opened again before it could be
  /// asked.
  struct JointAttempt {
    bool failed = false;
  };
  /// Asks one server once: anything that goes wrong is an error, a restart too (need_open; by then
  /// the session is open again).
  Task<Result<Payload>> ask_once(Party server, MessageType type, Bytes message,
                                 std::shared_ptr<JointAttempt> attempt = {});
  /// While the session is being opened there (Reconcile).
  Task<Result<Payload>> call_opened(Party server, MessageType type, Bytes message,
                                    Duration patience) {
    return rpc_.call(server, type, std::move(message), patience, openings_[server]);
  }
  /// The same message to every server; the first error if there is one.
  Task<Status> ask_all(MessageType type, Bytes message);

  /// Whether the last question was answered, and none waits for an answer for long.
  bool answering(Party server) const { return answering_[server] && !rpc_.overdue(server); }
  /// For how long it has answered nothing although it was asked; nothing if that is not so. (A
  /// server that works on a long request answers others: ask for its traffic() first.)
  std::optional<Duration> silent_for(Party server) const;
  /// What the server answered to something that it has not done since, because of its disk or its
  /// store; std::nullopt if there is nothing of that kind.
  std::optional<Trouble> trouble(Party server) const { return troubles_.at(server, clock_.now()); }
  /// A question that should have been answered long ago, by a server that answers others.
  struct Stall {
    MessageType doing{};
    Duration time{};  // since it was asked
  };
  std::optional<Stall> stalled(Party server) const;
  /// Of the servers, and of kClient: what the caller reports.
  Troubles& troubles() { return troubles_; }

  /// Trouble that may pass: the same can be asked again, at once (need_open) or later. Of a session
  /// that is open, so can what a server answers whose store is damaged or was set back: once the
  /// newest store is back, it goes on.
  static bool may_pass(Errc code) {
    return code == Errc::disk_full || code == Errc::failed || code == Errc::need_open ||
           is_of_store(code);
  }
  /// Somebody has to put something right at the server.
  static bool is_of_store(Errc code) {
    return code == Errc::wrong_volume || code == Errc::damaged_vault;
  }
  /// How long to wait then.
  static constexpr Duration kRetryAfter = std::chrono::seconds(1);

  /// Ends all waiting with shutting_down.
  void stop() {
    stopped_ = true;
    rpc_.stop();
  }
  bool stopped() const { return stopped_; }

 private:
  /// A question that was asked then was answered, somehow, or not at all in its time.
  void heard(Party server, Duration asked, bool answered);
  /// Keeps account of what the answer says of the server's state.
  void note(Party server, MessageType type, const Status& answer, JointAttempt* attempt);
  void warn(Party server, const Error& error);
  enum class Opening { first, again };
  Task<Status> open_one(Party server, Duration patience, Opening which);
  Task<Status> try_open(Party server, OpenRequest& request, Duration patience);
  Task<Status> reopen(Party server);

  Executor executor_;
  Clock& clock_;
  VolumeId volume_;
  unsigned count_;
  std::vector<Session> known_;
  Session session_;
  std::function<void(OpenRequest&)> present_;
  Reconcile reconcile_;
  std::vector<std::uint16_t> openings_;  // how often the session was opened there
  std::vector<bool> answering_, reopening_;
  Troubles troubles_;
  std::vector<LogLimit> told_;  // of them
  std::vector<std::optional<Duration>> last_heard_;
  std::vector<std::optional<Duration>> silent_since_;  // a question, if no answer came since
  Event reopened_;
  bool stopped_ = false;
  Rpc rpc_;
};

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
