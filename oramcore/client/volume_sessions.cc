// Opens sessions with the servers, for the first time and again.
#include "oramcore/client/volume_sessions.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/reconcile.h"
#include "oramcore/client/testimony.h"

namespace s3oram {
namespace {

constexpr Duration kProbePatience = std::chrono::seconds(1);

}  // namespace

Task<Result<std::set<Party>>> VolumeSessions::find_servers(Duration patience) {
  std::set<Party> answering;
  for (Party server = 1; server <= state_.servers.count(); ++server) answering.insert(server);
  if (!state_.in_step.may_shrink()) co_return answering;
  const auto enough = [this](const std::set<Party>& some) { return state_.in_step.may_open(some); };
  answering = co_await state_.servers.roll_call(enough, patience);
  if (enough(answering)) co_return answering;
  std::string away;
  for (Party server = 1; server <= state_.servers.count(); ++server)
    if (!answering.contains(server))
      away += fmt::format("{}server {}", away.empty() ? "" : " and ", server);
  co_return fail(Errc::unreachable,
                 "no answer from {}: to open this volume, {} of {} servers are needed, including "
                 "{} that have all data",
                 away, state_.in_step.least(), state_.servers.count(), state_.in_step.needed());
}

Task<Status> VolumeSessions::compare_with_servers(ClientState::Loaded& loaded,
                                                  std::set<Party> answering, Duration patience) {
  const Bytes asked(answering.begin(), answering.end());
  auto answers = co_await for_each_of(
      asked, [&](Party server) { return state_.servers.survey_one(server, patience); });
  std::size_t answered = 0;
  const SurveyAnswer as_here{.session = loaded.sessions.back(),
                             .tree_version = loaded.tree.tree_version,
                             .height = static_cast<std::uint8_t>(loaded.tree.height),
                             .prepared = {},
                             .root = {}};
  std::vector<SurveyAnswer> testimony, stand;
  for (Party server = 1; server <= state_.servers.count(); ++server) {
    Result<SurveyAnswer> answer = fail(Errc::unreachable, "server {} is away", server);
    if (answering.contains(server)) answer = std::move(answers[answered++]);
    // A server of an older version cannot say, and a liar may claim to be one. The others can.
    if (!answer && answer.error().code == Errc::unsupported) answer = as_here;
    const bool may_lack = state_.in_step.may_shrink() && (!state_.in_step.holds(server) || !answer);
    if (!answer && !may_lack) co_return fail(answer.error());
    testimony.push_back(answer ? *answer : as_here);
    stand.push_back(may_lack ? as_here : testimony.back());
  }
  S3O_CO_TRY(check_testimony(testimony, loaded, state_.params));
  std::erase_if(stand, [&](const SurveyAnswer& each) {
    return std::ranges::find(loaded.sessions, each.session) == loaded.sessions.end();
  });
  for (AccessRecord& access_record : loaded.access_records)
    if (access_record.access == 0 && access_record.write_number < loaded.tree.written)
      access_record.access =
          agreed_stamp(stand, root_slot(access_record.write_number, state_.params.evict_every),
                       state_.params.scheme.threshold);
  co_return Status{};
}

/// Implements Servers::Reconcile.
Task<Status> VolumeSessions::bring_to_version(Party server, OpenAnswer stands, Duration patience) {
  const Standing standing = state_.in_step.of(server);
  if (standing == Standing::away) co_return Status{};  // it rejoins
  if (standing == Standing::following) {               // what it was told about the root is lost
    attendance_.drop(server);
    co_return fail(Errc::unreachable, "server {} was restarted meanwhile", server);
  }
  co_return co_await bring_along(state_.servers, server, std::move(stands), committer_.durable(),
                                 evictions_.attempt(), state_.session.epoch, patience);
}

Task<Status> VolumeSessions::open(std::vector<Session> known, const std::set<Party>& answering,
                                  Duration patience) {
  // vault.db decides (Rule::decide_first): a change that it does not hold is not decided.
  Servers::Reconcile reconcile = [this](Party server, OpenAnswer answer, Duration limit) {
    return bring_to_version(server, std::move(answer), limit);
  };
  auto present = [this](OpenRequest& request) {
    request.tree_version = committer_.durable().tree_version;
    request.root = state_.acknowledged_root(committer_.durable().tree_version);
  };
  std::set<Party> without;
  for (Party server = 1; server <= state_.servers.count(); ++server)
    if (!answering.contains(server)) without.insert(server);
  const auto opened =
      co_await state_.servers.open_each(std::move(known), state_.session, std::move(present),
                                        std::move(reconcile), patience, std::move(without));
  for (Party server = 1; server <= state_.servers.count(); ++server) {
    const auto& status = opened[server - 1u];
    if (!state_.in_step.holds(server)) state_.servers.leave_out(server);
    if ((status && *status) || !state_.in_step.holds(server)) continue;
    const Error why = status ? status->error() : Error{Errc::unreachable, "it does not answer"};
    bool is_away = why.code == Errc::unreachable || why.code == Errc::failed ||
                   why.code == Errc::disk_full || why.code == Errc::damaged_vault;
    if (!is_away) is_away = co_await state_.servers.holds_nothing(server, kProbePatience);
    if (!is_away || !state_.in_step.may_leave(server)) co_return fail(why);
    S3O_CO_TRY(co_await attendance_.leave_out(server, why.message));
  }
  co_return co_await committer_.forget_older_sessions();
}

void VolumeSessions::probe() {
  for (Party server = 1; server <= state_.servers.count() && !state_.dead; ++server)
    if (probed_.insert(server).second) state_.start(probe(server));
}

Task<void> VolumeSessions::probe(Party server) {
  constexpr std::uint64_t kNoEviction = ~std::uint64_t{0};
  const ReleaseRequest nothing{state_.session.epoch, {kNoEviction, {}}};
  auto answer = co_await state_.servers.ask_once(server, ReleaseRequest::kType, encode(nothing));
  if (!answer && (answer.error().code == Errc::fenced || answer.error().code == Errc::stale_vault))
    state_.die(answer.error());
  probed_.erase(server);
}

}  // namespace s3oram
