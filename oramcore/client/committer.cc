// Makes commits of vault.db, and applies their outcome to the state.
#include "oramcore/client/committer.h"

namespace s3oram {

Committer::Committer(VolumeState& state, ClientState database)
    : state_(state),
      database_(std::move(database)),
      loop_(state.environment.executor, state.environment.database, state.environment.clock,
            state.servers.troubles(), state.metrics, [this] { return begin(); }) {}

Task<Status> Committer::forget_older_sessions() {
  if (!state_.servers.all_have_session()) co_return Status{};
  co_return co_await with_database([epoch = state_.session.epoch](ClientState& database) {
    return database.forget_sessions_before(epoch);
  });
}

CommitWork Committer::begin() {
  auto changes = std::make_shared<StateChanges>(std::exchange(state_.pending, {}));
  CommitParticipant* const participant = participant_;
  auto with = participant ? participant->snapshot() : std::function<Status(Database&)>();
  return {
      [this, tree = state_.tree, changes, with] { return database_.commit(tree, *changes, with); },
      [this, tree = state_.tree, changes, participant](const Status& outcome) {
        if (outcome)
          durable_ = tree;
        else
          state_.pending.merge_older(std::move(*changes));
        if (participant) participant->committed(outcome);
      }};
}

}  // namespace s3oram
