// The client's side of its sessions with the servers: asking one or all of them, opening the
// session again with one that was restarted, and waiting while one is away.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oramcore/base/log_limit.h"
#include "oramcore/net/rpc.h"
#include "oramcore/schemes/s3oram/protocol/repair_messages.h"

namespace s3oram {

/// One executor; not thread-safe.
class Servers {
 public:
  Servers(Executor executor, Clock& clock, Random& random, Transport& transport,
          const VolumeId& volume, unsigned count);

  unsigned count() const { return count_; }

  /// Asks every server what it holds. Errors: unreachable, naming the servers.
  Task<Result<std::vector<HelloAnswer>>> hello(Duration patience);
  /// Makes the volume at every server. All are asked first, and nothing is made unless all are
  /// there and free.
  Task<Status> create(const VolumeParams& params, Duration patience);

  /// Asks every server where it stands. Errors: unreachable, wrong_volume, unsupported (a server is
  /// older than this question), naming the server.
  Task<Result<std::vector<SurveyAnswer>>> survey(Duration patience);

  /// What the server has sent and received.
  Task<Result<TrafficAnswer>> traffic(Party server, Duration patience);

  /// Has a server whose store is lost take its place again. Errors: bad_request (it is of a version
  /// that cannot), wrong_volume, unreachable ...
  Task<Status> adopt(const AdoptRequest& request, Duration patience);

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

  /// Asks one server, and keeps asking while it is away, restarts, or has trouble with its disk.
  /// Errors are final: fenced, stale_vault, corrupt, bad_request, shutting_down ...
  Task<Result<Payload>> ask(Party server, MessageType type, Bytes message);
  /// The same, but anything that goes wrong is an error, a restart too (need_open; by then the
  /// session is open again).
  Task<Result<Payload>> ask_once(Party server, MessageType type, Bytes message);
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
  /// What the server has answered last, if that was trouble of its own, as with its disk; or empty.
  const std::string& trouble(Party server) const { return trouble_[server]; }

  /// Trouble that may pass: the server keeps its state, and the same can be asked again, at once
  /// (need_open) or later.
  static bool may_pass(Errc code) {
    return code == Errc::disk_full || code == Errc::failed || code == Errc::need_open;
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
  void warn(Party server, const Error& error);
  Task<Status> open_one(Party server, Duration patience);
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
  std::vector<std::string> trouble_;
  std::vector<LogLimit> told_;  // of it
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
