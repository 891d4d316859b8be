// Finds lines between servers that are cut although both servers still answer the client. The
// client then does without one of the two. Which one depends only on what servers say of each
// other, never on blocks or leaves.
//
// A line counts as cut if the server at one end says so, because what the server at the other end
// says does not help an eviction for which the first one waits. Either may lie, so it must not be
// able to keep an honest server out: the client counts how often each server was at the end of a
// cut line and how often it was left out for that, and leaves out the one that has been at an end
// most often without being left out. Of two servers that accuse each other, each is left out in
// turn.
#pragma once

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "oramcore/client/in_step.h"
#include "oramcore/client/servers.h"

namespace s3oram {

/// Lines between two servers, the lower number first.
using CutLines = std::set<std::pair<Party, Party>>;

/// Chooses the server to do without. No I/O; not thread-safe.
class LineJudge {
 public:
  explicit LineJudge(unsigned servers) : at_end_(servers + 1), left_out_(servers + 1) {}

  /// Returns the end of a cut line to do without, of which there must be one.
  Party choose(const CutLines& cut, Duration now);
  /// Records that the chosen server was left out.
  void left_out(Party server) { ++left_out_[server]; }

 private:
  std::vector<unsigned> at_end_, left_out_;  // by server
  Duration last_{};
};

/// One executor; not thread-safe.
class LineWatch {
 public:
  /// `do_without` leaves out a server that is in step, or drops one that follows; it returns false
  /// if the volume cannot go on without it.
  using DoWithout = std::function<bool(Party server, const std::string& why)>;
  LineWatch(Clock& clock, Servers& servers, InStep& in_step, DoWithout do_without)
      : clock_(clock),
        servers_(servers),
        in_step_(in_step),
        do_without_(std::move(do_without)),
        judge_(in_step.count()) {}

  /// Looks for cut lines until the volume is closed.
  Task<void> watch();
  /// Asks a server that is to come back whether it hears the servers in step. Its own word decides,
  /// because another server must not be able to keep it out.
  Task<bool> hears_others(Party server);
  /// Returns whether the line between two servers in step is cut, as of the last look.
  bool is_cut() const;
  /// Returns the other ends of this server's cut lines, as of the last look.
  std::set<Party> cut_from(Party server) const;

 private:
  bool is_due() const;
  Task<void> look();
  void act();
  /// Replaces what is known of these servers' lines.
  void learn(const Bytes& asked, const std::vector<Result<LinesAnswer>>& answers);

  Clock& clock_;
  Servers& servers_;
  InStep& in_step_;
  const DoWithout do_without_;
  LineJudge judge_;
  CutLines cut_;
  Duration looked_{};
};

}  // namespace s3oram
