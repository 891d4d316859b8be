// Decides what the answers of servers mean: which refusals count, and what they say about a
// server's state. One server may be faulty or lie, and must not end the volume by itself.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/log_limit.h"
#include "oramcore/client/troubles.h"
#include "oramcore/net/rpc.h"

namespace s3oram {

/// Returns whether servers send data to each other for such a request.
bool needs_others(MessageType type);

/// One executor; not thread-safe.
class Trust {
 public:
  /// `threshold` of `count` servers may lie.
  Trust(Clock& clock, unsigned count, unsigned threshold);

  /// Sets which servers the volume can do without. A refusal by one of those does not end the
  /// volume: its error becomes `failed`, and counts as a trouble.
  void set_may_do_without(std::function<bool(Party)> may) { may_do_without_ = std::move(may); }

  /// Decides how much an answer counts. An error that gives the volume to another client, or ends
  /// it, is final only once more servers have reported it than may lie; until then it counts as one
  /// that may pass. So does any refusal by a server that is not needed.
  Result<Payload> weigh(Party server, MessageType type, Result<Payload> answer);

  /// Counts an error that may pass at once, and that the server gave in the session that it was
  /// asked in.
  void put_off(Party server, MessageType type) { ++put_off_[{server, type}]; }
  /// Returns whether a failure of a question asked at `asked` may come from another server, which
  /// has been left out, or has come back, since.
  bool may_be_of_another(MessageType type, Errc code, Duration asked) const;
  /// Records what an answer says about the server's state. `follows`: it is a failure that follows
  /// from another server's.
  void note(Party server, MessageType type, const Status& answer, bool follows = false);

  /// Forgets the failures of what the other servers do together, because `server` was left out, or
  /// is back. They are noted again if they last.
  void left_out(Party server);
  void came_back(Party server);
  /// Returns when a server was last left out, and when one last came back.
  Duration last_left_out() const { return last_left_out_; }
  Duration last_return() const { return last_return_; }

  /// Names a server that is caught, in the log and in the status. Returns the error that says so.
  Error found_lying(Party server, std::string_view why);
  /// Puts such an error into the status, and into the log unless the log has had one of that server
  /// in the last half minute. Returns it.
  Error accuse(Party server, Error error);

  /// Returns the troubles of the servers, and those that the caller reports for kClient.
  Troubles& troubles() { return troubles_; }
  const Troubles& troubles() const { return troubles_; }

 private:
  void forget_joint_troubles(Party cause);

  Clock& clock_;
  unsigned count_, threshold_;
  std::function<bool(Party)> may_do_without_;
  std::set<Party> deposing_;                         // report another client's session
  std::map<MessageType, std::set<Party>> refusing_;  // requests on which a volume depends
  // How often in succession a server has answered this with an error that may pass at once.
  std::map<std::pair<Party, MessageType>, unsigned> put_off_;
  Duration last_left_out_ = Duration::min(), last_return_ = Duration::min();
  std::vector<LogLimit> told_lying_;
  Troubles troubles_;
};

}  // namespace s3oram
