// Records which parties had persisted which durable steps when power was cut: a table of step names
// by subsets of parties.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "oramcore/net/transport.h"

namespace s3oram::test {

class Coverage {
 public:
  /// Sets of parties as bits; the client is bit 0.
  using Subset = std::uint32_t;

  /// Records that a party has persisted a step. When the client opens a session or decides, a new
  /// round begins, in which nobody has persisted anything else yet.
  void persisted(Party party, std::string_view name);
  /// Records that power was cut somewhere: every step's subset of this round counts.
  void cut();
  /// Records a cell that was reached on purpose.
  void reached(const std::string& step, Subset subset) { ++cells_[step][subset]; }

  void add(const Coverage& other);
  std::uint64_t count(const std::string& step, Subset subset) const;
  /// Returns a line for each step: how often each subset was cut, for `parties` parties (servers
  /// and client).
  std::string table(unsigned parties) const;

 private:
  std::map<std::string, std::map<Subset, std::uint64_t>> cells_;
  std::map<std::string, Subset> round_;
};

/// Returns "c12" for the client and servers 1 and 2, and "-" for nobody.
std::string name_of(Coverage::Subset subset);

}  // namespace s3oram::test
