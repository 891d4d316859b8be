// Tries all sets of at most t liars, and sees who is in each set that explains what happened.
#include "oramcore/client/suspects.h"

#include <algorithm>
#include <bit>

namespace s3oram {

void Suspects::begin(std::uint64_t eviction) {
  if (eviction == eviction_) return;
  eviction_ = eviction;
  failed_.clear();
  std::ranges::fill(damaged_, 0u);
}

void Suspects::add(const Bytes& workers, const RowsVerdict& verdict) {
  const auto set_of = [](const Bytes& servers) {
    Set set = 0;
    for (const Party server : servers) set |= Set{1} << server;
    return set;
  };
  FailedCheck check{.at_fault = set_of(verdict.false_list), .possible = {}};
  // A copy that has become wrong on an honest server's disk is settled after the first attempt.
  if (!failed_.empty()) check.at_fault |= set_of(verdict.other_path);
  for (const Party server : verdict.other_rows)  // it lies, or a worker has sent it wrong rows
    check.possible.push_back(set_of(workers) | Set{1} << server);
  failed_.push_back(std::move(check));
}

bool Suspects::explain(Set liars, const FailedCheck& check) {
  return (check.at_fault & ~liars) == 0 &&
         std::ranges::all_of(check.possible, [&](Set some) { return (some & liars) != 0; });
}

Bytes Suspects::proven() const {
  const Set all = ((Set{1} << servers_) - 1) << 1;
  Set in_all = failed_.empty() ? 0 : all;
  bool explained = false;
  for (Set liars = 0; liars <= all; liars += 2) {
    if (static_cast<unsigned>(std::popcount(liars)) > threshold_) continue;
    if (!std::ranges::all_of(failed_, [&](const auto& check) { return explain(liars, check); }))
      continue;
    explained = true;
    in_all &= liars;
  }
  Bytes proven;
  for (Party server = 1; explained && server <= servers_; ++server)
    if ((in_all >> server & 1) != 0) proven.push_back(server);
  return proven;
}

}  // namespace s3oram
