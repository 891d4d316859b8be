// Keeps the record of repairs that have not ended.
#include "oramcore/client/repair_record.h"

namespace s3oram {
Task<Status> RepairRecord::begin(const std::set<Party>& servers) {
  if (servers.empty()) co_return Status{};
  state_.repairs.servers.insert(servers.begin(), servers.end());
  co_return co_await commit();
}

void RepairRecord::end(const std::set<Party>& servers) {
  std::size_t ended = 0;
  for (const Party server : servers) ended += state_.repairs.servers.erase(server);
  if (ended > 0) state_.pending.repairs = state_.repairs;
}

Task<Status> RepairRecord::add(const ServersBySlot& mended) {
  if (mended.empty()) co_return Status{};
  for (const auto& [at, servers] : mended)
    state_.repairs.unproven[at].insert(servers.begin(), servers.end());
  co_return co_await commit();
}

ServersBySlot RepairRecord::unproven(BucketIndex first, BucketIndex end) const {
  const ServersBySlot& all = state_.repairs.unproven;
  return {all.lower_bound({first, 0}), all.lower_bound({end, 0})};
}

void RepairRecord::remove(BucketIndex first, BucketIndex end) {
  ServersBySlot& all = state_.repairs.unproven;
  const auto from = all.lower_bound({first, 0}), to = all.lower_bound({end, 0});
  if (from == to) return;
  all.erase(from, to);
  state_.pending.repairs = state_.repairs;
}

void RepairRecord::remove_all() {
  if (state_.repairs.unproven.empty()) return;
  state_.repairs.unproven.clear();
  state_.pending.repairs = state_.repairs;
}

Task<Status> RepairRecord::commit() {
  state_.pending.repairs = state_.repairs;
  co_return co_await committer_.commit_until_done();
}

}  // namespace s3oram
