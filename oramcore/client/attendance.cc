// Watches the servers, has them left out, and waits for their return.
#include "oramcore/client/attendance.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

// The client notices a server that is gone after 1.7 s at most: kSuspect without a message, kLook
// until that is seen, then kAnswersWithin (plus the tick of Rpc, 100 ms) for a question that every
// server answers immediately. On a slow line the answer may come behind blocks that the server
// sends; so any message that comes meanwhile shows that the server is there.
constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr Duration kSuspect = std::chrono::milliseconds(300);
constexpr Duration kAnswersWithin = std::chrono::milliseconds(1200);
constexpr Duration kLooksWhenIdle = std::chrono::seconds(10);
constexpr Duration kTroubleLasts = std::chrono::seconds(1);  // it is asked again each second
constexpr Duration kAskAgain = std::chrono::seconds(1), kMostAskAgain = std::chrono::seconds(30);
constexpr Duration kSteady = std::chrono::minutes(5);  // one that stays this long is back for good

}  // namespace

Attendance::Attendance(Clock& clock, Servers& servers, InStep& in_step, Owner owner)
    : clock_(clock),
      servers_(servers),
      in_step_(in_step),
      owner_(std::move(owner)),
      lines_(clock, servers, in_step,
             [this](Party server, const std::string& why) { return do_without(server, why); }),
      looking_(in_step.count() + 1),
      again_(in_step.count() + 1, kAskAgain),
      joined_(in_step.count() + 1) {}

void Attendance::begin() {
  owner_.start(lines_.watch());
  if (!in_step_.may_shrink()) return;
  looked_around_ = clock_.now();
  owner_.start(watch());
  for (Party server = 1; server <= in_step_.count(); ++server)
    if (in_step_.of(server) == Standing::away) owner_.start(await_return(server));
}

// Sleeps in short intervals, because the volume may be closed meanwhile.
Task<void> Attendance::pause(Duration time) {
  const Duration until = clock_.now() + time;
  while (!servers_.stopped() && clock_.now() < until)
    co_await clock_.sleep(std::min(kLook, until - clock_.now()));
}

// Looks around for each suspect separately, so that none waits until another one was looked for.
Task<void> Attendance::watch() {
  for (;;) {
    co_await pause(kLook);
    if (servers_.stopped()) co_return;
    if (clock_.now() - looked_around_ >= kLooksWhenIdle) owner_.start(look_around(kClient));
    for (const Party server : in_step_.takers())
      if (!looking_[server] && is_suspect(server)) owner_.start(look_around(server));
  }
}

bool Attendance::is_suspect(Party server) const {
  if (in_step_.of(server) == Standing::leaving) return false;
  const auto since = servers_.unanswered_since(server);
  return (since && clock_.now() - *since >= kSuspect) || lasting_trouble(server);
}

/// Returns an error of the server's disk or store that it has reported for a while since it came
/// into step. What it failed at before may not have been tried again yet.
std::optional<Error> Attendance::lasting_trouble(Party server) const {
  const auto trouble = servers_.trouble(server);
  const Duration joined = joined_[server].value_or(Duration{});
  if (!trouble || trouble->last - std::max(trouble->since, joined) < kTroubleLasts ||
      clock_.now() - trouble->last > Troubles::kFresh || !Troubles::may_pass(trouble->error.code))
    return std::nullopt;
  return trouble->error;
}

/// Asks all takers because of a suspect (kClient: none), and has those that fail left out while
/// enough others are well. If none answers, it is the client that is offline, and none is left out.
Task<void> Attendance::look_around(Party suspect) {
  const Duration begun = looked_around_ = clock_.now();
  const Bytes asked = in_step_.takers();
  looking_[suspect] = std::ranges::find(asked, suspect) != asked.end();
  const auto answers =
      co_await for_each_of(asked, [&](Party server) { return ask_because_of(suspect, server); });
  if (servers_.stopped()) co_return;
  unsigned well = 0;
  std::vector<std::pair<Party, std::string>> unwell;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Party server = asked[i];
    const bool silent = !answers[i] && answers[i].error().code == Errc::unreachable;
    if (silent && !servers_.heard_since(server, begun))
      unwell.emplace_back(server, "does not answer");
    else if (!answers[i] && !silent)  // its disk hangs
      unwell.emplace_back(server, answers[i].error().message);
    else if (const auto trouble = lasting_trouble(server))
      unwell.emplace_back(server, trouble->message);
    else
      well += in_step_.holds(server);
  }
  for (auto& [server, why] : unwell) {
    const Standing standing = in_step_.of(server);
    if (standing == Standing::following)
      drop(server);
    else if (well >= in_step_.needed() && in_step_.may_leave(server))
      owner_.start(leave(server, std::move(why)));
  }
}

/// The suspect may go away after its answer, while others are waited for. So from then on it may be
/// suspected again.
Task<Result<TrafficAnswer>> Attendance::ask_because_of(Party suspect, Party server) {
  auto answer = co_await servers_.traffic(server, kAnswersWithin);
  if (server == suspect) looking_[suspect] = false;
  co_return answer;
}

bool Attendance::do_without(Party server, const std::string& why) {
  if (in_step_.of(server) == Standing::following) {
    spdlog::warn("server {} {}: it is sent the missing data later", server, why);
    drop(server);
    return true;
  }
  if (!in_step_.may_leave(server)) return false;
  owner_.start(leave(server, why));
  return true;
}

Task<void> Attendance::leave(Party server, std::string why) {
  if (!in_step_.may_leave(server)) co_return;
  const Status left = co_await leave_out(server, why);
  if (left && !servers_.stopped()) co_await await_return(server);
}

// The client keeps waiting for the server until vault.db says that the server is left out.
Task<Status> Attendance::leave_out(Party server, const std::string& why) {
  spdlog::warn("server {} is left out: {}; {} servers have all data and continue", server, why,
               in_step_.members().size() - 1);
  in_step_.begin_leaving(server);
  S3O_CO_TRY(co_await owner_.commit());
  in_step_.leave(server);
  servers_.leave_out(server);
  const auto joined = std::exchange(joined_[server], std::nullopt);
  if (joined && clock_.now() - *joined < kSteady)
    put_off(server);
  else
    again_[server] = kAskAgain;
  co_return Status{};
}

void Attendance::put_off(Party server) {
  again_[server] = std::min(2 * again_[server], kMostAskAgain);
}

void Attendance::drop(Party server) {
  in_step_.leave(server);
  servers_.leave_out(server);
}

Task<void> Attendance::await_return(Party server) {
  while (!servers_.stopped()) {
    co_await await_next_try(server);
    if (servers_.stopped()) co_return;
    const auto answer = co_await servers_.traffic(server, kAnswersWithin);
    // The server is silent, or has said that it cannot do its part because its disk hangs.
    if (!answer &&
        (answer.error().code == Errc::unreachable || answer.error().code == Errc::failed))
      continue;
    const bool hears_others = co_await lines_.hears_others(server);
    if (!hears_others || servers_.stopped()) continue;
    const Status back = co_await bring_back(server);
    if (back || servers_.stopped()) co_return;
    drop(server);
    put_off(server);
    if (told_.pass(clock_.now()))
      spdlog::warn("server {} is not in step again yet: {}{}", server, back.error().message,
                   told_.more());
  }
}

/// Waits until the next try is due; that time may be shortened meanwhile.
Task<void> Attendance::await_next_try(Party server) {
  const Duration begun = clock_.now();
  while (!servers_.stopped() && clock_.now() < begun + again_[server])
    co_await clock_.sleep(std::min(kLook, begun + again_[server] - clock_.now()));
}

Task<Status> Attendance::bring_back(Party server) {
  ++returning_;
  const Status caught_up = co_await owner_.catch_up(server);
  --returning_;
  if (!caught_up) co_return caught_up;
  if (in_step_.of(server) != Standing::following)
    co_return fail(Errc::unreachable, "it no longer answers");
  in_step_.begin_joining(server);
  S3O_CO_TRY(co_await owner_.commit());
  in_step_.join(server);
  joined_[server] = clock_.now();
  spdlog::info("server {} has all data again", server);
  co_return Status{};
}

Task<Status> Attendance::replace(Party server, std::function<Status()> exchange) {
  S3O_CO_ASSIGN(const bool leaves, co_await release(server));
  // There must be no suspension from here on, because the server must not come back before the
  // exchange.
  Status exchanged = exchange();
  if (exchanged) servers_.begin_again(server);
  again_[server] = kAskAgain;
  if (leaves) owner_.start(await_return(server));
  co_return exchanged;
}

/// Waits until the server is away. Returns true if this call left it out, so that no coroutine
/// awaits its return yet.
Task<Result<bool>> Attendance::release(Party server) {
  while (!servers_.stopped()) {
    switch (in_step_.of(server)) {
      case Standing::away:
        co_return false;
      case Standing::following:
        drop(server);
        break;
      case Standing::in_step:
        if (!in_step_.may_leave(server))
          co_return fail(
              Errc::unreachable,
              "the volume cannot do without server {} now: wait until {} others have all data",
              server, in_step_.needed());
        S3O_CO_TRY(co_await leave_out(server, "it is replaced"));
        co_return true;
      case Standing::leaving:
      case Standing::joining:
        co_await pause(kLook);
    }
  }
  co_return fail(Errc::shutting_down, "the volume is being closed");
}

}  // namespace s3oram
