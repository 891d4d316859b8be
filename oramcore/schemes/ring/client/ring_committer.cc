// Makes the commits of a ring's vault.db.
#include "oramcore/schemes/ring/client/ring_committer.h"

namespace s3oram::ring {

CommitWork Committer::begin() {
  auto taken = std::make_shared<RingChanges>(std::exchange(changes, {}));
  auto freed = std::make_shared<std::set<CacheSlot>>(cache_.begin_commit());
  CommitParticipant* const participant = participant_;
  auto with = participant ? participant->snapshot() : std::function<Status(Database&)>();
  return {[this, tree = tree, taken, with] { return state_.commit(tree, *taken, with); },
          [this, tree = tree, taken, freed, participant](const Status& outcome) {
            if (outcome) {
              durable_ = tree;
              cache_.committed(std::move(*freed));
            } else {
              changes.merge_older(std::move(*taken));
              cache_.not_committed(std::move(*freed));
            }
            if (participant) participant->committed(outcome);
          }};
}

}  // namespace s3oram::ring
