// Which durable steps which parties had persisted when power was cut: a table of step names by
// subsets of parties.
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
  /// Parties as bits: the client is bit 0.
  using Subset = std::uint32_t;

  /// A party has persisted a step. The client's opening of a session and its decisions begin a new
  /// round, in which nobody has persisted anything else yet.
  void persisted(Party party, std::string_view name);
  /// Power was cut somewhere: every step's subset of this round counts.
  void cut();
  /// A cell reached on purpose.
  void reached(const std::string& step, Subset subset) { ++cells_[step][subset]; }

  void add(const Coverage& other);
  std::uint64_t count(const std::string& step, Subset subset) const;
  /// A line for each step: how often each subset was cut, of `parties` parties (servers + client).
  std::string table(unsigned parties) const;

 private:
  std::map<std::string, std::map<Subset, std::uint64_t>> cells_;
  std::map<std::string, Subset> round_;
};

/// "c12": the client and servers 1 and 2; "-": nobody.
std::string name_of(Coverage::Subset subset);

}  // namespace s3oram::test
