// Tracks which servers of a volume are in step: these hold everything that its client has written,
// so the client can rely on them. A mirror works while enough servers are in step; the others are
// away, or follow: they receive new writes, and are sent what they lack (catch_up.h). In a scheme
// that needs all its servers, all are always in step.
//
// A server leaves the set in two steps, because the client must not continue without it before
// vault.db says so: begin_leaving(), a commit of left_out(), leave(). It comes back the same way:
// follow(), begin_joining(), a commit, join(). Servers are chosen for a task by counters and by who
// answers, which are public; never by blocks or leaves.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/net/transport.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

enum class Standing : std::uint8_t {
  in_step,
  leaving,    // counts as in step until vault.db says otherwise; begins nothing new
  away,       // is not asked
  following,  // takes writes and evictions, and lacks what came before
  joining,    // lacks nothing; counts as in step once vault.db says so
};

/// The progress of a server that catches up.
struct CatchUpProgress {
  std::uint64_t missing = 0;  // buckets that it lacked
  std::uint64_t copied = 0;   // slots
};

class InStep {
 public:
  explicit InStep(const VolumeParams& params);

  /// Takes over the list of left-out servers from vault.db.
  void load(const std::set<Party>& left_out);
  /// Returns the servers that vault.db must list as left out, because writes that these servers
  /// lack may count from then on.
  std::set<Party> left_out() const;

  Standing of(Party server) const { return standing_[server]; }
  bool holds(Party server) const { return standing_[server] == Standing::in_step; }
  /// Returns whether the volume can go on without any one of its servers.
  bool may_shrink() const { return needed_ < count(); }
  unsigned count() const { return static_cast<unsigned>(standing_.size() - 1); }
  /// Returns how many servers must be in step.
  unsigned needed() const { return needed_; }

  /// Returns the servers to rely on, ascending.
  Bytes members() const;
  /// Returns the servers that are sent writes and evictions, ascending.
  Bytes takers() const;
  /// Returns `count` of the members. They take turns, so that each does the same share of the work.
  Bytes workers(std::uint64_t turn, unsigned count) const;

  /// Returns how many servers must answer for the volume to be opened. This is a majority, so that
  /// two copies of a vault never open it without a common server, and enough that at least one of
  /// them was in step last, however few were.
  unsigned least() const;
  /// Returns whether these servers are enough to open the volume: at least least() of them, and as
  /// many in step as needed.
  bool may_open(const std::set<Party>& answering) const;

  /// Returns whether the volume can go on without this server, which is in step.
  bool may_leave(Party server) const;
  /// Returns whether the server is not needed, because it may leave or is not in step.
  bool may_do_without(Party server) const { return !holds(server) || may_leave(server); }
  void begin_leaving(Party server) { standing_[server] = Standing::leaving; }
  /// Stops asking the server, whatever its standing was.
  void leave(Party server) { standing_[server] = Standing::away; }
  void follow(Party server) { standing_[server] = Standing::following; }
  void begin_joining(Party server) { standing_[server] = Standing::joining; }
  void join(Party server) { standing_[server] = Standing::in_step; }

 private:
  template <class Which>
  Bytes those(Which which) const;

  unsigned needed_;
  std::vector<Standing> standing_;  // by server
};

}  // namespace s3oram
