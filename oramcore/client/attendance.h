// Keeps the set of servers in step (in_step.h) up to date while a volume is open. Finds servers
// that do not answer, or cannot do their part because of their disk or store; has them left out,
// and brings them back once they answer again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/line_watch.h"
#include "oramcore/client/servers.h"

namespace s3oram {

/// One executor; not thread-safe.
class Attendance {
 public:
  /// The actions of the owner. All functions except `start` may take long.
  struct Owner {
    /// Commits to vault.db which servers are left out (InStep::left_out()).
    std::function<Task<Status>()> commit;
    /// Sends a server that answers again everything that it lacks, and all later writes from then
    /// on (Standing::following).
    std::function<Task<Status>(Party)> catch_up;
    /// Starts a coroutine, which ends soon after Servers::stopped() becomes true.
    std::function<void(Task<void>)> start;
  };
  Attendance(Clock& clock, Servers& servers, InStep& in_step, Owner owner);

  /// From now on, lets servers leave and come back. For a scheme that needs all of them, only looks
  /// for lines between servers that are cut.
  void begin();
  /// Leaves out a server that is in step; works before begin(), too. Errors: those of the commit.
  Task<Status> leave_out(Party server, const std::string& why);
  /// Stops asking a server that follows.
  void drop(Party server);
  /// Does without a server that does not do its part: drops it if it follows, and has it left out
  /// if it is in step and the volume can go on. Returns false if the volume cannot.
  bool do_without(Party server, const std::string& why);
  /// Returns whether servers in step wait for a line that is cut, and a server wants to come back,
  /// which it cannot while an attempt at an eviction is under way.
  bool is_stuck() const { return returning_ > 0 && lines_.is_cut(); }
  /// Returns the servers to which this server's lines are cut, as far as is known.
  std::set<Party> cut_from(Party server) const { return lines_.cut_from(server); }
  /// Leaves the server out if it is in step, and calls `exchange`, which puts another machine or an
  /// empty store in its place. The new one then catches up like a server that comes back. Errors:
  /// unreachable (too few others are in step), those of the commit and of `exchange`.
  Task<Status> replace(Party server, std::function<Status()> exchange);

 private:
  Task<void> watch();
  Task<void> look_around(Party suspect);
  Task<Result<TrafficAnswer>> ask_because_of(Party suspect, Party server);
  Task<void> leave(Party server, std::string why);
  Task<void> await_return(Party server);
  Task<Status> bring_back(Party server);
  Task<Result<bool>> release(Party server);
  Task<void> pause(Duration time);
  Task<void> await_next_try(Party server);
  void put_off(Party server);
  bool is_suspect(Party server) const;
  std::optional<Error> lasting_trouble(Party server) const;

  Clock& clock_;
  Servers& servers_;
  InStep& in_step_;
  const Owner owner_;
  LineWatch lines_;
  Duration looked_around_{};
  std::vector<bool> looking_;  // by suspect
  unsigned returning_ = 0;     // servers that catch up
  // By server: the pause before it is brought back, longer for one that goes away repeatedly; and
  // when it last came back into step.
  std::vector<Duration> again_;
  std::vector<std::optional<Duration>> joined_;
  LogLimit told_;
};

}  // namespace s3oram
