// Makes the commits of a ring's vault.db.
#include "oramcore/schemes/ring/client/ring_committer.h"

namespace s3oram::ring {

RingCommitter::RingCommitter(OpenRing& ring, RingState state)
    : ring_(ring),
      state_(std::move(state)),
      loop_(ring.environment.executor, ring.environment.database, ring.environment.clock,
            ring.servers.troubles(), ring.metrics, [this] { return begin(); }) {}

CommitWork RingCommitter::begin() {
  auto taken = std::make_shared<RingChanges>(std::exchange(ring_.pending, {}));
  auto freed = std::make_shared<std::set<CacheSlot>>(ring_.cache.begin_commit());
  CommitParticipant* const participant = participant_;
  auto with = participant ? participant->snapshot() : std::function<Status(Database&)>();
  return {[this, tree = ring_.tree, taken, with] { return state_.commit(tree, *taken, with); },
          [this, tree = ring_.tree, taken, freed, participant](const Status& outcome) {
            if (outcome) {
              durable_ = tree;
              ring_.cache.committed(std::move(*freed));
            } else {
              ring_.pending.merge_older(std::move(*taken));
              ring_.cache.not_committed(std::move(*freed));
            }
            if (participant) participant->committed(outcome);
          }};
}

}  // namespace s3oram::ring
