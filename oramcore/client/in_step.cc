// Keeps the standing of each server, and chooses among the servers in step.
#include "oramcore/client/in_step.h"

#include <algorithm>

namespace s3oram {

InStep::InStep(const VolumeParams& params)
    : needed_(params.is_mirror() ? params.workers() : params.scheme.servers),
      standing_(params.scheme.servers + 1u, Standing::in_step) {}

void InStep::load(const std::set<Party>& left_out) {
  for (Party server = 1; server <= count() && may_shrink(); ++server)
    standing_[server] = left_out.contains(server) ? Standing::away : Standing::in_step;
}

std::set<Party> InStep::left_out() const {
  std::set<Party> out;
  for (Party server = 1; server <= count(); ++server)
    if (!holds(server) && standing_[server] != Standing::joining) out.insert(server);
  return out;
}

template <class Which>
Bytes InStep::those(Which which) const {
  Bytes found;
  for (Party server = 1; server <= count(); ++server)
    if (which(standing_[server])) found.push_back(server);
  return found;
}

Bytes InStep::members() const {
  return those([](Standing standing) { return standing == Standing::in_step; });
}

Bytes InStep::takers() const {
  return those([](Standing standing) { return standing != Standing::away; });
}

Bytes InStep::workers(std::uint64_t turn, unsigned count) const {
  const Bytes all = members();
  Bytes chosen(count);
  for (unsigned i = 0; i < count; ++i) chosen[i] = all[(turn + i) % all.size()];
  return chosen;
}

unsigned InStep::least() const {
  return may_shrink() ? std::max({count() / 2 + 1, count() - needed_ + 1, needed_}) : count();
}

bool InStep::may_open(const std::set<Party>& answering) const {
  const auto in_step = std::ranges::count_if(answering, [&](Party each) { return holds(each); });
  return answering.size() >= least() && static_cast<unsigned>(in_step) >= needed_;
}

bool InStep::may_leave(Party server) const { return holds(server) && members().size() > needed_; }

}  // namespace s3oram
