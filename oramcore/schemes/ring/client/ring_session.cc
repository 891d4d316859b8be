// Surveys of the server, and what is done whenever it opens the session.
#include "oramcore/schemes/ring/client/ring_session.h"

#include <algorithm>

#include "oramcore/client/reconcile.h"

namespace s3oram::ring {
namespace {

/// Checks that the server has not been rolled back: a turn is acknowledged only once the server has
/// durably counted it and logged its write. Errors: wrong_volume.
Status check_not_set_back(const SurveyAnswer& found, Turn acknowledged) {
  if (found.asked >= acknowledged) return {};
  return fail(
      Errc::wrong_volume,
      "the server has lost the writes of turns {} to {}, which it had confirmed: its store was "
      "set back to an old state; put the newest one back",
      found.asked, acknowledged - 1);
}

}  // namespace

Task<Result<SurveyAnswer>> RingSession::survey(Duration patience) {
  S3O_CO_ASSIGN(const auto answer, co_await ring_.servers.call_opened(
                                       kServer, SurveyRequest::kType,
                                       encode(SurveyRequest{ring_.servers.volume()}), patience));
  const auto found = decode<SurveyAnswer>(answer.body());
  if (!found || found->session.epoch >= kMostEpoch)
    co_return fail(Errc::corrupt, "server {} sent an invalid answer", kServer);
  co_return *found;
}

Task<Status> RingSession::compare_with_server(const RingState::Loaded& loaded, Duration patience) {
  S3O_CO_ASSIGN(const SurveyAnswer found, co_await survey(patience));
  // A server that was used by another copy reports that itself.
  if (std::ranges::find(loaded.sessions, found.session) == loaded.sessions.end())
    co_return Status{};
  if (found.rewrites > loaded.tree.tree_version || found.asked > loaded.turns())
    co_return fail(Errc::stale_vault,
                   "the server was asked by {} turns, but this vault knows only {}: {}, or, if "
                   "that is lost, s3oramfs restore",
                   found.asked, loaded.turns(), kBehindServers);
  co_return check_not_set_back(found, loaded.tree.written);
}

/// Called whenever the server has opened the session, including when it was restarted, perhaps with
/// another store.
Task<Status> RingSession::bring_server_along(OpenAnswer answer, Duration patience) {
  S3O_CO_TRY(co_await bring_along(ring_.servers, kServer, answer, committer_.durable(),
                                  rewriter_.attempt(), ring_.session.epoch, patience));
  S3O_CO_ASSIGN(const SurveyAnswer found, co_await survey(patience));
  co_return check_not_set_back(found, ring_.tree.written);
}

Task<Status> RingSession::open(std::vector<Session> known, Duration patience) {
  ring_.session.epoch = known.back().epoch + 1;
  ring_.environment.random.fill(ring_.session.nonce);
  S3O_CO_TRY(co_await committer_.with_state(
      [this](RingState& state) { return state.add_session(ring_.session); }));
  // vault.db decides (Rule::decide_first): a change that it does not hold is not decided.
  Servers::Reconcile reconcile = [this](Party, OpenAnswer answer, Duration limit) {
    return bring_server_along(answer, limit);
  };
  auto present = [this](OpenRequest& request) {
    request.tree_version = committer_.durable().tree_version;
    request.root = {ring_.next_turn};
  };
  S3O_CO_TRY(co_await ring_.servers.open(std::move(known), ring_.session, std::move(present),
                                         std::move(reconcile), patience));
  co_return co_await committer_.with_state(
      [this](RingState& state) { return state.forget_sessions_before(ring_.session.epoch); });
}

void RingSession::probe() {
  if (!std::exchange(probing_, true)) ring_.start(probe_once());
}

Task<void> RingSession::probe_once() {
  const ReleaseRequest nothing{ring_.session.epoch, {~std::uint64_t{0} - 1, {}}};
  auto answer = co_await ring_.servers.ask_once(kServer, ReleaseRequest::kType, encode(nothing));
  if (!answer && (answer.error().code == Errc::fenced || answer.error().code == Errc::stale_vault))
    ring_.die(answer.error());
  probing_ = false;
}

}  // namespace s3oram::ring
