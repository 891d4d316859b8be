// Orders, reports and certificates of one attempt at an eviction.
#include "oramcore/client/preparer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/client/overdue.h"

namespace s3oram {
namespace {

// The first attempt may take this long, and each further one twice as long as the one before. On
// the slowest line over which an eviction is possible at all, one attempt is then long enough.
constexpr Duration kAttemptPatience = std::chrono::minutes(10);
constexpr unsigned kMostDoublings = 6;
constexpr Duration kProbeTakes = std::chrono::seconds(10);

// A server may say that often in one eviction that its slots are damaged. Between two attempts they
// are healed, so a sound server seldom says it more than once.
constexpr unsigned kMostDamage = 5;

/// Returns the error for a server that refuses its orders.
Error refused(Party server, const Error& refusal) {
  return {Errc::servers_disagree,
          fmt::format("server {} refuses its part in an eviction ({}): upgrade its "
                      "s3oramfs-serverd, if it is older than this client",
                      server, refusal.message)};
}

}  // namespace

struct Preparer::CheckWork {
  bool done = false;
  Event ended;
};

/// Runs while the servers work, because it takes about as long.
template <class Check>
Task<void> Preparer::expect(std::shared_ptr<Check> check, std::shared_ptr<CheckWork> work) {
  co_await offload(state_.environment.pool, [&] {
    check->expect();
    return true;
  });
  work->done = true;
  work->ended.notify_all();
}

Task<Status> Preparer::prepare(const EvictionPlan& plan, EvictionId& id, unsigned next_height,
                               unsigned tries) {
  Writer context;
  context(as_bytes("eviction orders"), state_.session.epoch, id.eviction, id.attempt);
  Prg prg(state_.environment.random.seed(), context.take());
  const bool theoretic = state_.params.privacy == Privacy::information_theoretic;
  Random& random = theoretic ? state_.environment.random : prg;
  auto orders = state_.scheme->orders(plan, id, state_.tree.height, state_.session.epoch, tries,
                                      state_.in_step, random);
  suspects_.begin(id.eviction);
  tries_ = tries;
  workers_ = orders.workers;
  const Bytes takers = state_.in_step.takers();
  const auto check = rule_holds(Rule::hop_check) ? std::move(orders.check) : nullptr;
  const auto work = std::make_shared<CheckWork>();
  if (check) state_.start(expect(check, work));
  PrepareRequest request{.epoch = state_.session.epoch,
                         .id = id,
                         .height = static_cast<std::uint8_t>(state_.tree.height),
                         .next_height = static_cast<std::uint8_t>(next_height),
                         .orders = {}};
  Status outcome;
  dispute_.reset();
  withheld_ = false;
  const std::uint64_t contents = state_.contents.changed;
  auto attempt = std::make_shared<Servers::JointAttempt>();
  const auto ended = bound(attempt, takers, id, tries);
  const auto asked = stragglers_.begin();
  std::vector<Payload> reports(state_.servers.count());
  auto discarded = co_await for_each_of(takers, [&](Party server) {
    request.orders = orders.messages[server - 1u];
    return prepare_at(server, encode(request), id, attempt, asked, outcome, reports[server - 1u]);
  });
  attempt.reset();
  for (auto& status : discarded) S3O_CO_TRY(status);
  if (!ended->empty() && (outcome || outcome.error().code == Errc::failed)) {
    const bool all_have_prepared = outcome.has_value();
    outcome = fail(Errc::failed, "{}", *ended);
    if (all_have_prepared) S3O_CO_TRY(co_await discard(id));
  }
  if (!check) co_return outcome;
  while (!work->done) co_await work->ended.wait();
  if (!outcome) co_return outcome;
  outcome = check->verdict(reports);
  if (outcome) co_return outcome;
  dispute_ = Dispute{check, std::move(reports), contents};
  S3O_CO_TRY(co_await discard(id));
  co_return outcome;
}

/// Sees to it that the attempt ends. Returns why it was ended; an empty text if it was not.
std::shared_ptr<std::string> Preparer::bound(Attempt attempt, Bytes takers, EvictionId id,
                                             unsigned tries) {
  auto ended = std::make_shared<std::string>();
  state_.start(end_if_stuck(attempt, takers, id, ended));
  // A server may say that it has passed something on without having done so; others then wait for
  // it.
  const Duration patience = kAttemptPatience * (1 << std::min(tries, kMostDoublings));
  when_overdue(state_.environment.clock, patience, attempt,
               [this, attempt, takers, id, ended, patience] {
                 if (!state_.dead) state_.start(end_late(attempt, takers, id, ended, patience));
               });
  return ended;
}

/// Ends an attempt that has taken too long, and finds out whether a server is away.
Task<void> Preparer::end_late(Attempt attempt, Bytes takers, EvictionId id,
                              std::shared_ptr<std::string> ended, Duration patience) {
  const auto answers = co_await for_each_of(
      takers, [&](Party server) { return state_.servers.traffic(server, kProbeTakes); });
  if (state_.dead || attempt.expired()) co_return;
  withheld_ = true;
  for (std::size_t i = 0; i < takers.size(); ++i)
    withheld_ = withheld_ && answers[i] && attendance_.cut_from(takers[i]).empty();
  *ended = fmt::format(
      "it did not end within {} minutes: a server is slow, or does not pass on what the others "
      "wait "
      "for",
      std::chrono::duration_cast<std::chrono::minutes>(patience).count());
  co_await end(attempt, std::move(takers), id);
}

/// Ends an attempt at all servers.
Task<void> Preparer::end(Attempt attempt, Bytes takers, EvictionId id) {
  // That a server fails now says nothing about it.
  if (const auto joint = attempt.lock()) joint->failed = true;
  const DiscardRequest request{state_.session.epoch, id};
  static_cast<void>(co_await state_.servers.ask_all(takers, MessageType::discard, encode(request)));
}

/// Ends an attempt that waits for a line that is cut while a server waits to come back.
Task<void> Preparer::end_if_stuck(Attempt attempt, Bytes takers, EvictionId id,
                                  std::shared_ptr<std::string> ended) {
  constexpr Duration kLook = std::chrono::milliseconds(100);
  while (!state_.dead && !attempt.expired() && !attendance_.is_stuck())
    co_await state_.environment.clock.sleep(kLook);
  if (state_.dead || attempt.expired()) co_return;
  *ended = "it was ended, so that a server can come back";
  co_await end(attempt, takers, id);
}

Task<Status> Preparer::prepare_at(Party server, Bytes message, EvictionId id,
                                  std::shared_ptr<Servers::JointAttempt> attempt,
                                  std::shared_ptr<Stragglers::Question> question, Status& outcome,
                                  Payload& report) {
  auto answer =
      co_await state_.servers.ask_once(server, PrepareRequest::kType, std::move(message), attempt);
  stragglers_.answered(question, server);
  if (answer) {
    report = std::move(*answer);
    co_return Status{};
  }
  const Errc code = answer.error().code;
  const bool refuses = code == Errc::bad_request;
  if (code == Errc::fenced || code == Errc::stale_vault) state_.die(answer.error());
  if (code == Errc::corrupt) note_damage(server, PrepareRequest::kType, answer.error());
  if (outcome) outcome = fail(refuses ? refused(server, answer.error()) : answer.error());
  // Others may be waiting for messages that this server will never send: end the attempt
  // everywhere.
  co_return co_await discard(id);
}

/// Does without a server that says again and again that its slots are damaged, whatever is healed;
/// names it if the volume needs it. A server that follows is asked for no slot that it may lack.
void Preparer::note_damage(Party server, MessageType asked, const Error& answer) {
  const bool follows = state_.in_step.of(server) == Standing::following;
  if (!follows && suspects_.reports_damage(server) < kMostDamage) return;
  if (!attendance_.do_without(server, "says again and again that its slots are damaged"))
    state_.servers.troubles().failed(server, asked, answer, state_.now());
}

Task<Status> Preparer::discard(EvictionId id) {
  co_return co_await stragglers_.ask_all(MessageType::discard,
                                         encode(DiscardRequest{state_.session.epoch, id}));
}

Task<Status> Preparer::certify(const EvictionPlan& plan, EvictionId id) {
  const std::shared_ptr<EvictionCheck> check = state_.scheme->check(
      plan, id, state_.tree.height, state_.session.epoch, tries_, state_.in_step);
  if (!check || !rule_holds(Rule::row_check)) co_return Status{};
  const auto work = std::make_shared<CheckWork>();
  state_.start(expect(check, work));
  const auto asked = stragglers_.begin();
  const Bytes members = asked->members, followers = asked->followers;
  std::vector<Task<Result<CertifyAnswer>>> asking;
  for (const Party server : members)
    asking.push_back(ask_to_certify(server, check->question(server), asked));
  for (const Party server : followers)
    asking.push_back(ask_to_certify(server, check->question_of_new_rows(), asked));
  auto answers = co_await all(std::move(asking));
  while (!work->done) co_await work->ended.wait();
  if (state_.dead) co_return fail(*state_.dead);
  RowsVerdict verdict;
  std::vector<CertifyAnswer> reports;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (answers[i]) reports.push_back(*answers[i]);
    if (answers[i]) continue;
    verdict.status = fail(answers[i].error());
    if (answers[i].error().code == Errc::corrupt)
      note_damage(members[i], CertifyRequest::kType, answers[i].error());
  }
  if (verdict.status)
    verdict =
        co_await offload(state_.environment.pool, [&] { return check->verdict(members, reports); });
  if (!verdict.status) co_return co_await after_failed_check(id, members, std::move(verdict));
  answers.erase(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(members.size()));
  co_return co_await certify_new_rows(id, reports.front(), followers, std::move(answers));
}

Task<Result<CertifyAnswer>> Preparer::ask_to_certify(Party server, Bytes question,
                                                     std::shared_ptr<Stragglers::Question> asked) {
  auto answer = co_await state_.ask_again(server, CertifyRequest::kType, std::move(question));
  stragglers_.answered(asked, server);
  if (!answer) co_return fail(std::move(answer).error());
  auto report = decode<CertifyAnswer>(answer->body());
  if (!report) co_return fail(Errc::servers_disagree, "server {} sent an invalid answer", server);
  co_return std::move(*report);
}

Task<Status> Preparer::after_failed_check(EvictionId id, Bytes members, RowsVerdict verdict) {
  S3O_CO_TRY(co_await discard(id));
  if (verdict.status.error().code != Errc::servers_disagree) co_return verdict.status;
  suspects_.add(workers_, verdict);
  // By now, every server has worked in some attempts and not in others.
  const bool last = suspects_.failed() >= members.size();
  bool goes_on = do_without_proven(verdict.status.error());
  if (!goes_on && last) goes_on = do_without_odd(members, verdict);
  if (goes_on) co_return fail(Errc::unreachable, "{}", verdict.status.error().message);
  co_return verdict.status;
}

/// Names the servers that have been shown to lie. Returns whether one of them is left out.
bool Preparer::do_without_proven(const Error& found) {
  bool leaves = false;
  for (const Party server : suspects_.proven()) {
    if (!state_.in_step.holds(server)) continue;
    state_.servers.found_lying(
        server, fmt::format("eviction {}: {}", state_.tree.tree_version, found.message));
    leaves |= attendance_.do_without(server, "is faulty or lies");
  }
  return leaves;
}

/// Has the servers left out that differ from the others, although another server may have sent them
/// wrong rows, because otherwise evictions would stop. The others are right, and are enough.
bool Preparer::do_without_odd(const Bytes& members, const RowsVerdict& verdict) {
  std::set<Party> odd;
  for (const Bytes& some : {verdict.false_list, verdict.other_path, verdict.other_rows})
    odd.insert(some.begin(), some.end());
  if (odd.empty() || members.size() - odd.size() < state_.in_step.needed()) return false;
  bool leaves = false;
  for (const Party server : odd)
    leaves |= attendance_.do_without(
        server,
        "does not have the rows of the others: it is faulty or lies, or one that sent it "
        "the rows is");
  return leaves;
}

/// Checks the rows of the servers that took part and were not in step when they were asked, against
/// those of the servers in step, which are right. Such a server may have made other rows, or not
/// say which. Later it would be in step with them, and retrievals would fail in a way that shows a
/// lying server what was asked for. So the attempt ends, its stamp counts nowhere, and a server
/// that still follows rejoins later. One that has come into step meanwhile has all other rows. A
/// server that is away by now will be sent the rows of the others.
Task<Status> Preparer::certify_new_rows(EvictionId id, const CertifyAnswer& right, Bytes servers,
                                        std::vector<Result<CertifyAnswer>> answers) {
  Bytes wrong;
  for (std::size_t i = 0; i < servers.size(); ++i)
    if (state_.in_step.of(servers[i]) != Standing::away &&
        (!answers[i] || answers[i]->sum != right.sum))
      wrong.push_back(servers[i]);
  if (wrong.empty()) co_return Status{};
  S3O_CO_TRY(co_await discard(id));
  for (const Party server : wrong) {
    spdlog::error(
        "server {}, which was not in step, does not have the rows of the servers in step after an "
        "eviction: it is faulty or lies, or a server that sent it the rows is; the missing data is "
        "sent later",
        server);
    if (state_.in_step.of(server) == Standing::following) attendance_.drop(server);
  }
  co_return fail(Errc::unreachable, "a server that was not in step has made other rows");
}

}  // namespace s3oram
