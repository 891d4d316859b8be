// Which servers of a volume are in step: hold all that its client has written, and so may be
// relied on. A mirror goes on while enough of them are; the others are away, or follow: they get
// what is written from now on and are sent what they lack (catch_up.h). A scheme that needs all its
// servers has a set that never shrinks.
//
// A server leaves the set in two steps, because nothing may be done without it before vault.db says
// so: begin_leaving(), a commit of left_out(), leave(). It comes back the same way: follow(),
// begin_joining(), a commit, join(). Who is chosen for what depends on counters and on who answers,
// which all may know; never on blocks or leaves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/net/transport.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

enum class Standing : std::uint8_t {
  in_step,
  leaving,    // counts as in step until vault.db says otherwise; begins nothing any more
  away,       // is not asked
  following,  // takes writes and evictions, and lacks what came before
  joining,    // lacks nothing; counts as in step once vault.db says so
};

/// How far a server is that follows.
struct CatchUpProgress {
  std::uint64_t missing = 0;  // buckets that it lacked
  std::uint64_t copied = 0;   // slots
};

class InStep {
 public:
  explicit InStep(const VolumeParams& params);

  /// Takes over the servers that vault.db lists as left out.
  void load(const std::set<Party>& left_out);
  /// Returns the servers that vault.db must list as left out, because writes may count from then on
  /// that these servers lack.
  std::set<Party> left_out() const;

  Standing of(Party server) const { return standing_[server]; }
  bool holds(Party server) const { return standing_[server] == Standing::in_step; }
  /// Whether the volume can go on without any of its servers.
  bool may_shrink() const { return needed_ < count(); }
  unsigned count() const { return static_cast<unsigned>(standing_.size() - 1); }
  /// How many servers must be in step.
  unsigned needed() const { return needed_; }

  /// The servers to rely on, ascending.
  Bytes members() const;
  /// The servers that are sent writes and evictions, ascending.
  Bytes takers() const;
  /// `count` of the members, by turns: all of them for their number of consecutive turns.
  Bytes workers(std::uint64_t turn, unsigned count) const;

  /// How many servers must answer for the volume to be opened: a majority, so that two copies of a
  /// vault never open it without a common server, and enough that at least one of them was in step
  /// last, however few were.
  unsigned least() const {
    return may_shrink() ? std::max({count() / 2 + 1, count() - needed_ + 1, needed_}) : count();
  }
  /// Whether these are enough to open the volume with: least() of them, and as many in step as are
  /// needed.
  bool may_open(const std::set<Party>& answering) const;

  /// Whether the volume can go on without this server, which is in step.
  bool may_leave(Party server) const;
  /// Whether it is not needed: it may leave, or is not in step.
  bool may_do_without(Party server) const { return !holds(server) || may_leave(server); }
  void begin_leaving(Party server) { standing_[server] = Standing::leaving; }
  /// The server is no longer asked, whatever it was.
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
