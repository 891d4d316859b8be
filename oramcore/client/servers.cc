// Asks servers, opens sessions again, and keeps track of which servers answer.
#include "oramcore/client/servers.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

constexpr std::size_t kSlowLine = 32;  // bytes per millisecond
constexpr Duration kAnswersSoon = std::chrono::seconds(5);
constexpr Duration kLinesLater = std::chrono::seconds(3);  // an answer may wait behind blocks
constexpr Duration kBusy = std::chrono::seconds(3);        // a shorter silence does not count
/// Returns whether a server may take arbitrarily long for such a request.
bool may_take_long(MessageType type) {
  switch (type) {
    case MessageType::prepare:
    case MessageType::discard:  // waits for the end of the attempt that it discards
    case MessageType::release:  // waits for retrievals
    case MessageType::reserve:
    case MessageType::check:
    case MessageType::digests:
    case MessageType::certify:
    case MessageType::mark_prepared:
    case MessageType::mark_buckets:
    case MessageType::heads:
    case MessageType::labels:
    case MessageType::layout:
    case MessageType::reenrol:
      return true;
    default:
      return false;
  }
}

/// Returns whether an answer to such a request brings an access, or an eviction for which accesses
/// wait, closer to its end. What belongs only to an attempt does not count, because attempts may
/// fail again and again, nor does what is also asked as a probe (release).
bool is_part_of_access(MessageType type) {
  switch (type) {
    case MessageType::retrieve:
    case MessageType::write_root:
    case MessageType::prepare:
    case MessageType::commit:
      return true;
    default:
      return false;
  }
}

}  // namespace

Servers::Servers(Executor executor, Clock& clock, Random& random, Transport& transport,
                 const VolumeId& volume, unsigned count, unsigned threshold)
    : executor_(executor),
      clock_(clock),
      volume_(volume),
      count_(count),
      threshold_(threshold),
      openings_(count + 1),
      answering_(count + 1),
      reopening_(count + 1),
      left_out_(count + 1),
      has_session_(count + 1),
      did_part_(count + 1),
      told_(count + 1),
      told_reopening_(count + 1),
      last_heard_(count + 1),
      silent_since_(count + 1),
      trust_(clock, count, threshold),
      rpc_(executor, clock, random, transport) {}

void Servers::heard(Party server, Duration asked, bool answered) {
  if (answered) {
    const Duration now = clock_.now();
    if (silent_since_[server] && now - last_heard_[server].value_or(asked) >= kBusy)
      trust_.came_back(server);
    last_heard_[server] = now;
    silent_since_[server].reset();
  } else if (!last_heard_[server] || *last_heard_[server] < asked) {
    auto& since = silent_since_[server];
    since = std::min(since.value_or(asked), asked);
  }
}

// A server that is silent, or whose disk is full, keeps accesses from getting ahead. So the others
// count once each until it has done its part, however often they answer.
void Servers::note_step(Party server, MessageType type) {
  if (!is_part_of_access(type) || did_part_[server]) return;
  ++steps_;
  did_part_[server] = true;
  for (Party other = 1; other <= count_; ++other)
    if (!did_part_[other] && !left_out_[other]) return;
  did_part_.assign(count_ + 1, false);
}

Result<Payload> Servers::weigh(Party server, MessageType type, Result<Payload> answer) {
  return stopped_ ? std::move(answer) : trust_.weigh(server, type, std::move(answer));
}

void Servers::note(Party server, MessageType type, const Status& answer, bool follows) {
  if (!stopped_) trust_.note(server, type, answer, follows);
}

void Servers::warn(Party server, const Error& error) {
  if (told_[server].pass(clock_.now()))
    spdlog::warn("{}; trying again{}", error.message, told_[server].more());
}

std::optional<Duration> Servers::silent_for(Party server) const {
  std::optional<Duration> since = silent_since_[server];
  if (const auto overdue = rpc_.overdue_since(server))
    since = std::min(since.value_or(*overdue), *overdue);
  if (!since) return std::nullopt;
  const Duration now = clock_.now();
  if (const auto heard = last_heard_[server]) {
    if (now - *heard < kBusy) return std::nullopt;
    since = std::max(*since, *heard);
  }
  return now - *since;
}

// A server that does its part may wait for another one for a while after the client has left that
// one out and asked something else instead.
std::optional<Servers::Stall> Servers::stalled(Party server) const {
  for (Party other = 1; other <= count_; ++other)
    if (!left_out_[other] && silent_for(other)) return std::nullopt;
  const auto oldest =
      rpc_.long_overdue(server, trust_.last_return(), [this](const Rpc::Overdue& request) {
        return request.asked_at > trust_.last_left_out() &&
               !may_take_long(static_cast<MessageType>(request.type));
      });
  if (!oldest) return std::nullopt;
  return Stall{static_cast<MessageType>(oldest->type),
               clock_.now() - std::max(oldest->asked_at, trust_.last_return())};
}

Task<Result<HelloAnswer>> Servers::hello_one(Party server, Duration patience) {
  const auto answer =
      co_await rpc_.call(server, MessageType::hello, encode(HelloRequest{}), patience);
  answering_[server] = answer.has_value();
  if (!answer) co_return fail(answer.error());
  const auto hello = decode<HelloAnswer>(answer->body());
  if (!hello) co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  if (hello->server != server)
    co_return fail(Errc::wrong_volume,
                   "the server given as number {} says that it is number {}: check the order",
                   server, hello->server);
  co_return *hello;
}

Task<std::vector<Result<HelloAnswer>>> Servers::hello_each(Duration patience) {
  co_return co_await for_all(count_, [&](Party server) { return hello_one(server, patience); });
}

Task<Result<std::vector<HelloAnswer>>> Servers::hello(Duration patience) {
  auto each = co_await hello_each(patience);
  std::vector<HelloAnswer> hellos;
  for (auto& hello : each) {
    if (!hello) co_return fail(hello.error());
    hellos.push_back(std::move(*hello));
  }
  co_return hellos;
}

// Asks in rounds, so that a server that starts meanwhile is not missed.
Task<std::set<Party>> Servers::roll_call(std::function<bool(const std::set<Party>&)> enough,
                                         Duration patience) {
  constexpr Duration kRound = std::chrono::milliseconds(500);
  const Duration begun = clock_.now();
  for (;;) {
    const auto answers = co_await for_all(count_, [&](Party server) {
      return rpc_.call(server, MessageType::hello, encode(HelloRequest{}), kRound);
    });
    std::set<Party> answering;
    for (Party server = 1; server <= count_; ++server)
      if (answers[server - 1u]) answering.insert(server);
    const Duration passed = clock_.now() - begun;
    const bool so_many = enough(answering);
    if (answering.size() == count_ || stopped_ || passed >= (so_many ? kGrace : patience))
      co_return answering;
  }
}

Task<bool> Servers::holds_nothing(Party server, Duration patience) {
  const auto answer =
      co_await rpc_.call(server, MessageType::hello, encode(HelloRequest{}), patience);
  if (!answer) co_return false;
  const auto hello = decode<HelloAnswer>(answer->body());
  co_return hello && hello->server == server && !hello->volume;
}

Task<Result<SurveyAnswer>> Servers::survey_one(Party server, Duration patience) {
  auto answer =
      co_await rpc_.call(server, MessageType::survey, encode(SurveyRequest{volume_}), patience);
  if (!answer && answer.error().code == Errc::bad_request)
    co_return fail(Errc::unsupported,
                   "server {} has a version that cannot report what it holds: upgrade it", server);
  if (!answer) co_return fail(answer.error());
  auto survey = decode<SurveyAnswer>(answer->body());
  if (!survey || survey->session.epoch >= kMostEpoch || survey->height < 1 ||
      survey->height > kMaxHeight)
    co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  co_return std::move(*survey);
}

Task<std::optional<Error>> Servers::lacks_shares(Party server, Duration patience) {
  auto answer =
      co_await rpc_.call(server, MessageType::survey, encode(SurveyRequest{volume_}), patience);
  if (answer || answer.error().code != Errc::wrong_volume) co_return std::nullopt;
  co_return std::move(answer).error();
}

Task<Result<TrafficAnswer>> Servers::traffic(Party server, Duration patience) {
  const Duration asked = clock_.now();
  auto answer =
      co_await rpc_.call(server, MessageType::traffic, encode(TrafficRequest{}), patience);
  const bool heard_of = answer || answer.error().code != Errc::unreachable;
  heard(server, asked, heard_of);
  if (!answer) {
    if (heard_of) note(server, MessageType::traffic, fail(answer.error()));
    co_return fail(answer.error());
  }
  note(server, MessageType::traffic, {});
  const auto counted = decode<TrafficAnswer>(answer->body());
  if (!counted) co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  co_return *counted;
}

template <class Answer>
Task<Result<Answer>> Servers::ask_outside_session(Party server, MessageType type, Bytes question,
                                                  Duration patience) {
  S3O_CO_ASSIGN(auto answer, co_await rpc_.call(server, type, std::move(question), patience));
  auto decoded = decode<Answer>(answer.body());
  if (!decoded) co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  co_return std::move(*decoded);
}

Task<Result<LinesAnswer>> Servers::lines(Party server) {
  return ask_outside_session<LinesAnswer>(server, MessageType::lines, encode(LinesRequest{}),
                                          LinesAnswer::kWithin + kLinesLater);
}

Task<Result<RoomAnswer>> Servers::room(Party server, Duration patience) {
  return ask_outside_session<RoomAnswer>(server, MessageType::room, encode(RoomRequest{}),
                                         patience);
}

Task<Result<DiskAnswer>> Servers::disk(Party server, Duration patience) {
  return ask_outside_session<DiskAnswer>(server, MessageType::disk, encode(DiskRequest{}),
                                         patience);
}

std::optional<Duration> Servers::needs_others_since(Party server) const {
  return rpc_.waiting_since(
      server, [](std::uint16_t type) { return needs_others(static_cast<MessageType>(type)); });
}

Task<Status> Servers::reenrol(const ReenrolRequest& request, Duration patience) {
  Bytes message = encode(request);
  const Duration on_its_way = std::chrono::milliseconds(message.size() / kSlowLine);
  S3O_CO_TRY(co_await rpc_.call(request.volume.server, ReenrolRequest::kType, std::move(message),
                                patience + on_its_way));
  co_return Status{};
}

Task<Status> Servers::create(const VolumeParams& params, Duration patience) {
  S3O_CO_TRY(co_await hello(patience));
  const auto fits = co_await for_all(count_, [&](Party server) {
    return rpc_.call(server, FitsRequest::kType, encode(FitsRequest{{volume_, params, server}}),
                     patience);
  });
  for (const auto& answer : fits)  // an older server does not know the question
    if (!answer && answer.error().code != Errc::bad_request) co_return fail(answer.error());
  auto answers = co_await for_all(count_, [&](Party server) {
    return rpc_.call(server, MessageType::create, encode(CreateRequest{{volume_, params, server}}),
                     patience);
  });
  for (auto& answer : answers)
    if (!answer) co_return fail(answer.error());
  co_return Status{};
}

Task<Status> Servers::open(std::vector<Session> known, Session next,
                           std::function<void(OpenRequest&)> present, Reconcile reconcile,
                           Duration patience, std::set<Party> without) {
  const auto opened = co_await open_each(std::move(known), next, std::move(present),
                                         std::move(reconcile), patience, std::move(without));
  for (const auto& status : opened)
    if (status && !*status) co_return *status;
  co_return Status{};
}

Task<std::vector<std::optional<Status>>> Servers::open_each(
    std::vector<Session> known, Session next, std::function<void(OpenRequest&)> present,
    Reconcile reconcile, Duration patience, std::set<Party> without) {
  known_ = std::move(known);
  session_ = next;
  present_ = std::move(present);
  reconcile_ = std::move(reconcile);
  std::vector<Task<Status>> opening;
  for (Party server = 1; server <= count_; ++server)
    if (!without.contains(server)) opening.push_back(open_one(server, patience, Opening::first));
  auto opened = co_await all(std::move(opening));
  // A session counts as newer only if more servers report it than may lie.
  const auto stale = std::ranges::count_if(opened, [](const Status& status) {
    return !status && status.error().code == Errc::stale_vault;
  });
  for (auto& status : opened)
    if (!status && status.error().code == Errc::stale_vault && stale <= threshold_)
      status = fail(Errc::servers_disagree,
                    "{} (the other servers do not say so: that server is faulty or lies; have it "
                    "looked at)",
                    status.error().message);
  std::vector<std::optional<Status>> each(count_);
  std::size_t next_opened = 0;
  for (Party server = 1; server <= count_; ++server) {
    if (!without.contains(server)) each[server - 1u] = std::move(opened[next_opened++]);
    left_out_[server] = !each[server - 1u] || !*each[server - 1u];
  }
  if (all_have_session()) known_ = {session_};
  co_return each;
}

bool Servers::all_have_session() const {
  for (Party server = 1; server <= count_; ++server)
    if (!has_session_[server]) return false;
  return true;
}

void Servers::begin_again(Party server) {
  ++openings_[server];
  has_session_[server] = false;
  last_heard_[server].reset();
  silent_since_[server].reset();
}

void Servers::expect_empty(Party server, Reenrol reenrol) {
  expected_empty_[server] = std::move(reenrol);
}

Task<Status> Servers::tell_of_peer(Party server, const std::string& peer, Duration patience) {
  const PeerRequest request{volume_, as_bytes(peer)};
  auto told = co_await rpc_.call(server, PeerRequest::kType, encode(request), patience);
  if (told) co_return Status{};
  if (told.error().code != Errc::bad_request) co_return fail(std::move(told).error());
  co_return fail(
      Errc::unsupported,
      "server {} has a version that does not accept other servers' addresses: tell it with "
      "s3oramfs-serverd peers --update, and start it again",
      server);
}

Error Servers::away(Party server) {
  return {Errc::unreachable, fmt::format("server {} is away", server)};
}

void Servers::leave_out(Party server) {
  if (left_out_[server]) return;
  left_out_[server] = true;
  ++times_left_out_;
  trust_.left_out(server);
  rpc_.abandon(
      [server](Party to, std::uint16_t type) {
        const auto what = static_cast<MessageType>(type);
        return to == server || what == MessageType::write_root || what == MessageType::contribute;
      },
      away(server).message);
}

Task<Status> Servers::bring_back(Party server, Duration patience) {
  return bring_back(server, patience, std::nullopt);
}

Task<Status> Servers::bring_back(Party server, Duration patience, MaybeOlder older) {
  // A question from before the server was left out may still be opening the session at it.
  while (reopening_[server]) co_await reopened_.wait();
  S3O_CO_TRY(co_await open_one(server, patience, Opening::first, older));
  if (stopped_) co_return fail(Errc::shutting_down, "stopped");
  left_out_[server] = false;
  if (all_have_session()) known_ = {session_};
  co_return Status{};
}

Task<Status> Servers::bring_back_older(Party server, Duration patience) {
  S3O_CO_ASSIGN(const auto stands, co_await survey_one(server, patience));
  for (const Session& known : known_)
    if (known.epoch <= stands.session.epoch)
      co_return fail(Errc::wrong_volume, "server {} has a session that is not known (epoch {})",
                     server, stands.session.epoch);
  co_return co_await bring_back(server, patience, stands.session);
}

std::optional<Duration> Servers::unanswered_since(Party server) const {
  const auto waiting = rpc_.waiting_since(server);
  const auto heard = rpc_.last_received(server);
  return waiting && heard ? std::max(*waiting, *heard) : waiting;
}

bool Servers::heard_since(Party server, Duration time) const {
  const auto heard = rpc_.last_received(server);
  return heard && *heard >= time;
}

// At the first opening, a store that is not as it should be is an error; later, it may be put
// right.
Task<Status> Servers::open_one(Party server, Duration patience, Opening which, MaybeOlder older) {
  OpenRequest request{.volume = volume_,
                      .known = known_,
                      .next = session_,
                      .root = {},
                      .opening = ++openings_[server]};
  if (older) request.known.push_back(*older);
  const Duration start = clock_.now();
  for (bool restarted = false;;) {
    if (which == Opening::again && left_out_[server]) co_return fail(away(server));
    auto status = co_await try_open(server, request, patience);
    note(server, OpenRequest::kType, status);
    if (status) expected_empty_.erase(server);
    if (status || stopped_) co_return status;
    if (which == Opening::again) status = co_await reenrol_empty(server, std::move(status));
    if (status) continue;
    const Errc code = status.error().code;
    // A server that restarts repeatedly, or claims to, is not asked without a pause.
    if (code == Errc::need_open && !std::exchange(restarted, true)) continue;
    if (is_final(code) || clock_.now() - start >= patience) co_return status;
    if (which == Opening::first && Troubles::is_of_store(code)) co_return status;
    warn(server, status.error());
    co_await clock_.sleep(kRetryAfter);
  }
}

/// Re-enrols the server if that is expected and it holds nothing. On success the session can be
/// opened; otherwise returns `failed`, or the error of the re-enrolment.
Task<Status> Servers::reenrol_empty(Party server, Status failed) {
  const auto expected = expected_empty_.find(server);
  if (expected == expected_empty_.end() || failed.error().code != Errc::wrong_volume)
    co_return failed;
  const Reenrol reenrol_there = expected->second;
  const bool is_empty = co_await holds_nothing(server, kAnswersSoon);
  if (!is_empty) co_return failed;
  co_return co_await reenrol_there(server);
}

Task<Status> Servers::try_open(Party server, OpenRequest& request, Duration patience) {
  present_(request);
  const Duration asked = clock_.now();
  auto answer = co_await rpc_.call(server, OpenRequest::kType, encode(request), patience);
  if (answer) heard(server, asked, true);
  if (!answer) co_return fail(answer.error());
  const auto opened = decode<OpenAnswer>(answer->body());
  if (!opened) co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  answering_[server] = has_session_[server] = true;
  co_return co_await reconcile_(server, *opened, patience);
}

Task<Status> Servers::reopen(Party server) {
  reopening_[server] = true;
  if (told_reopening_[server].pass(clock_.now()))
    spdlog::info("server {} was restarted; opening the session again{}", server,
                 told_reopening_[server].more());
  auto status = co_await open_one(server, Duration::max(), Opening::again);
  reopening_[server] = false;
  if (status) trust_.came_back(server);
  reopened_.notify_all();
  co_return status;
}

Task<Result<Payload>> Servers::ask_once(Party server, MessageType type, Bytes message,
                                        std::shared_ptr<JointAttempt> attempt, Duration patience) {
  // A question sent meanwhile could be refused after the session is open, as if the server had
  // restarted a second time.
  const bool waited = reopening_[server];
  while (reopening_[server]) co_await reopened_.wait();
  if (left_out_[server]) {
    if (attempt) attempt->failed = true;
    co_return fail(away(server));
  }
  // The other servers may have sent this one data for the attempt before it was restarted. That
  // data is gone, and the server would wait for it forever.
  if (waited && attempt && !stopped_) {
    attempt->failed = true;
    co_return fail(Errc::need_open, "server {} was restarted meanwhile", server);
  }
  const std::uint16_t opening = openings_[server];
  const Duration asked = clock_.now();
  const std::uint64_t left_out_before = times_left_out_;
  auto answer = co_await rpc_.call(server, type, std::move(message), patience, opening);
  answering_[server] = answer.has_value();
  const bool abandoned = !answer && answer.error().code == Errc::unreachable;
  if (!stopped_ && !abandoned) heard(server, asked, true);
  if (answer) note_step(server, type);
  // A question is abandoned when its server is left out. Otherwise it is the server that reports
  // unreachable, about another server.
  if (!abandoned || times_left_out_ == left_out_before)
    answer = weigh(server, type, std::move(answer));
  const bool is_put_off = !answer && Troubles::may_pass_at_once(answer.error().code) &&
                          openings_[server] == opening && times_left_out_ == left_out_before;
  if (is_put_off) trust_.put_off(server, type);
  const bool follows = !answer && attempt && std::exchange(attempt->failed, true);
  if (answer || !trust_.may_be_of_another(type, answer.error().code, asked))
    note(server, type, answer ? Status() : Status(fail(answer.error())), follows);
  const bool restarted = !answer && answer.error().code == Errc::need_open;
  if (restarted && openings_[server] == opening)
    if (auto reopened = co_await reopen(server); !reopened)
      answer = weigh(server, OpenRequest::kType, fail(reopened.error()));
  co_return answer;
}

Task<Result<Payload>> Servers::ask(Party server, MessageType type, Bytes message) {
  for (bool again = false;;) {
    auto answer = co_await ask_once(server, type, message);
    if (answer || stopped_ || is_final(answer.error().code)) co_return answer;
    if (left_out_[server]) co_return fail(away(server));
    if (Troubles::may_pass_at_once(answer.error().code) && !std::exchange(again, true)) continue;
    warn(server, answer.error());
    co_await clock_.sleep(kRetryAfter);
  }
}

Task<Status> Servers::ask_all(Bytes servers, MessageType type, Bytes message) {
  auto answers =
      co_await for_each_of(servers, [&](Party server) { return ask(server, type, message); });
  for (std::size_t i = 0; i < servers.size(); ++i)
    if (!answers[i] && !left_out_[servers[i]]) co_return fail(answers[i].error());
  co_return Status{};
}

}  // namespace s3oram
