// Finds the servers that lie in an eviction, from the failed checks of its attempts. One attempt
// seldom shows who it was: a server may report wrong rows because another one has sent it wrong
// rows. But at most t servers lie, and each attempt has other workers (docs/protocol-mirror.md,
// "A server that lies in an eviction").
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/client/client_scheme.h"

namespace s3oram {

/// One executor; not thread-safe.
class Suspects {
 public:
  /// Of servers 1 to `servers`, at most `threshold` lie.
  Suspects(unsigned servers, unsigned threshold) : servers_(servers), threshold_(threshold) {}

  /// Begins an attempt at this eviction. Forgets the attempts at others.
  void begin(std::uint64_t eviction);
  /// Adds the failed check of an attempt with these workers.
  void add(const Bytes& workers, const RowsVerdict& verdict);
  /// Returns how many failed checks of this eviction were added.
  std::size_t failed() const { return failed_.size(); }
  /// Returns the servers that are at fault whichever servers lie, ascending.
  Bytes proven() const;
  /// Counts that a server says that its slots are damaged. Returns how often it has said so.
  unsigned reports_damage(Party server) { return ++damaged_[server]; }

 private:
  using Set = std::uint32_t;  // bit n: server n
  struct FailedCheck {
    Set at_fault = 0;           // no matter which others lie
    std::vector<Set> possible;  // at least one of each is at fault
  };
  static bool explain(Set liars, const FailedCheck& check);

  unsigned servers_, threshold_;
  std::uint64_t eviction_ = 0;
  std::vector<FailedCheck> failed_;
  std::vector<unsigned> damaged_ = std::vector<unsigned>(servers_ + 1);  // by server
};

}  // namespace s3oram
