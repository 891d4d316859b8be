// The life cycle of a ring engine: opening, finishing what was under way, closing, status.
#include "oramcore/schemes/ring/client/ring_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
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

RingEngine::RingEngine(const ClientEnvironment& environment, const VolumeId& volume,
                       const VolumeParams& params, const Seed& sealing_key, RingState state,
                       std::unique_ptr<File> cache)
    : VolumeEngine(environment.executor),
      ring_(environment, volume, params, sealing_key, std::move(cache),
            [this](Task<void> task) { start(std::move(task)); }),
      committer_(ring_, std::move(state)),
      growing_(ring_, committer_),
      capacity_(growing_, ring_.servers, environment.clock, params.evict_every),
      top_(ring_),
      refill_(ring_, top_),
      top_sync_(ring_, top_, refill_),
      log_writer_(ring_, top_, refill_, [this] { rewriter_.begin_due(); }),
      rewriter_(ring_, committer_, capacity_, top_, top_sync_, sealing_key),
      scrubber_(ring_, rewriter_) {}

RingEngine::~RingEngine() = default;

Task<Status> RingEngine::open(Duration patience, Evictions evictions) {
  Findings findings;
  S3O_CO_ASSIGN(auto loaded, co_await committer_.with_state([&](RingState& state) {
    return state.load(ring_.volume, &findings);
  }));
  log_findings(findings);
  S3O_CO_TRY(co_await compare_with_server(loaded, patience));
  committer_.set_loaded(loaded.tree);
  ring_.places = std::move(loaded.places);
  ring_.held = std::move(loaded.buckets);
  mapped_ = ring_.places.blocks();
  for (const auto& [turn, block] : ring_.places.top())
    ring_.cache.use(ring_.places.get(block).cache_slot);
  for (const BlockId block : loaded.unreadable)
    if (ring_.places.get(block).kind != Place::Kind::unmapped) ring_.unreadable[block] = false;
  top_.set_loaded(std::move(loaded.logged));
  ring_.next_turn = loaded.turns();
  rewriter_.begin_session();

  S3O_CO_TRY(co_await open_session(std::move(loaded.sessions), patience));
  S3O_CO_ASSIGN(const bool restored, co_await refill_.restore());
  if (restored) co_await top_sync_.sync();
  S3O_CO_TRY(co_await finish_accesses(std::move(loaded.records)));
  opened_ = true;
  ring_.changed.notify_all();
  if (evictions == Evictions::as_due) rewriter_.allow_evictions();
  rewriter_.begin_due();
  capacity_.count();
  capacity_.keep_known();
  co_return Status{};
}

Task<Result<SurveyAnswer>> RingEngine::survey(Duration patience) {
  S3O_CO_ASSIGN(const auto answer, co_await ring_.servers.call_opened(
                                       kServer, SurveyRequest::kType,
                                       encode(SurveyRequest{ring_.servers.volume()}), patience));
  const auto found = decode<SurveyAnswer>(answer.body());
  if (!found || found->session.epoch >= kMostEpoch)
    co_return fail(Errc::corrupt, "server {} sent an invalid answer", kServer);
  co_return *found;
}

/// Refuses an old copy before the new epoch would shut out the newest one.
Task<Status> RingEngine::compare_with_server(const RingState::Loaded& loaded, Duration patience) {
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
Task<Status> RingEngine::bring_server_along(OpenAnswer answer, Duration patience) {
  S3O_CO_TRY(co_await bring_along(ring_.servers, kServer, answer, committer_.durable(),
                                  rewriter_.attempt(), ring_.session.epoch, patience));
  S3O_CO_ASSIGN(const SurveyAnswer found, co_await survey(patience));
  co_return check_not_set_back(found, ring_.tree.written);
}

Task<Status> RingEngine::open_session(std::vector<Session> sessions, Duration patience) {
  ring_.session.epoch = sessions.back().epoch + 1;
  ring_.environment.random.fill(ring_.session.nonce);
  log_writer_.begin_session();
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
  S3O_CO_TRY(co_await ring_.servers.open(std::move(sessions), ring_.session, std::move(present),
                                         std::move(reconcile), patience));
  co_return co_await committer_.with_state(
      [this](RingState& state) { return state.forget_sessions_before(ring_.session.epoch); });
}

// Finishes accesses that a crash cut short, before all others, in order, with the same questions
// (Rule::access_records), except for buckets that were rewritten since.
Task<Status> RingEngine::finish_accesses(std::map<Turn, TurnRecord> records) {
  if (!rule_holds(Rule::recovery_first)) ring_.tree.written = ring_.next_turn;
  while (!ring_.dead && ring_.tree.written < ring_.next_turn) {
    const Turn turn = ring_.tree.written;
    const auto record = records.find(turn);
    if (record == records.end()) {
      // The turn was reserved, perhaps to log a block again in time, but had not asked for anything
      // yet.
      const BlockId again = to_log_again(turn, kNoBlock).value_or(kNoBlock);
      Request own{.block = again, .content = {}, .read = {}, .written = {}};
      co_await access_at(turn, std::move(own), Path::random);
      continue;
    }
    Query query{std::move(record->second), {}, {}};
    S3O_CO_TRY(co_await renew(turn, query));
    hold_cached(query);
    Request request{.block = query.record.block, .content = {}, .read = {}, .written = {}};
    co_await access_path(turn, std::move(query), std::move(request));
  }
  if (ring_.dead) co_return fail(*ring_.dead);
  co_return Status{};
}

Task<Status> RingEngine::close(bool with_commit) {
  Status status;
  if (with_commit && ring_.dead) {
    status = fail(*ring_.dead);
  } else if (with_commit && opened_) {
    co_await top_sync_.sync();
    status = co_await committer_.commit();
  }
  if (!ring_.dead) ring_.dead = Error{Errc::shutting_down, "the volume is being closed"};
  ring_.servers.stop();
  ring_.changed.notify_all();
  do {
    co_await ended();
    co_await committer_.ended();
  } while (!idle());
  if (with_commit && status) {
    const auto folded =
        co_await committer_.with_state([](RingState& state) { return state.fold_log(); });
    if (!folded)
      spdlog::warn("the log of vault.db could not be copied into it: {}", folded.error().message);
  }
  co_return status;
}

Task<Result<Healed>> RingEngine::scrub(std::set<Party>, ScrubProgress progress) {
  return scrubber_.scrub(std::move(progress));
}

void RingEngine::look_for_room() {
  asio::post(ring_.environment.executor, [this] { capacity_.ask(); });
}

void RingEngine::refresh_room() {
  asio::post(ring_.environment.executor, [this] { capacity_.keep_known(); });
}

void RingEngine::commit(std::function<void(Status)> done) {
  asio::post(ring_.environment.executor, [this, done = std::move(done)]() mutable {
    start([](RingEngine& engine, std::function<void(Status)> then) -> Task<void> {
      then(co_await engine.committer_.commit());
    }(*this, std::move(done)));
  });
}

EngineStatus RingEngine::status() const {
  EngineStatus status;
  status.blocks = ring_.places.mapped();
  status.capacity = capacity(ring_.tree.height, ring_.params.evict_every);
  status.accesses = accesses_;
  status.evictions = rewriter_.count();
  status.uncommitted = ring_.pending.places.size();
  status.height = ring_.tree.height;
  status.evicting = rewriter_.under_way();
  status.unreadable = ring_.unreadable.size();
  status.evictions_stopped = rewriter_.stopped();
  status.failure = ring_.dead ? ring_.dead->message : std::string();
  status.database = ring_.servers.trouble(kClient);
  status.evictions_due =
      ring_.params.evictions_until(ring_.tree.written) - rewriter_.evictions_done();
  status.evicting_for = rewriter_.under_way_for();
  status.committing_for = committer_.under_way_for();
  status.servers.push_back({ring_.servers.silent_for(kServer),
                            ring_.servers.trouble(kServer),
                            ring_.servers.stalled(kServer),
                            Standing::in_step,
                            {}});
  status.top = TopStatus{
      .blocks = ring_.places.top().size(),
      .slots = cache_slots(ring_.volume),
      .bytes = cache_bytes(ring_.volume),
      .log_slots = ring_.params.log_slots,
      .not_synced = std::min<Turn>(ring_.tree.written - ring_.tree.synced, ring_.params.log_slots),
      .trouble = top_sync_.trouble(),
      .most_evictions_behind = ring_.params.most_evictions_due()};
  return status;
}

/// Asks for something that is done already. The answer shows, without an access, whether the server
/// was restarted or now belongs to another client.
Task<void> RingEngine::probe() {
  const ReleaseRequest nothing{ring_.session.epoch, {~std::uint64_t{0} - 1, {}}};
  auto answer = co_await ring_.servers.ask_once(kServer, ReleaseRequest::kType, encode(nothing));
  if (!answer && (answer.error().code == Errc::fenced || answer.error().code == Errc::stale_vault))
    ring_.die(answer.error());
  probing_ = false;
}

Task<std::vector<Result<TrafficAnswer>>> RingEngine::server_traffic() {
  if (opened_ && !ring_.dead && !std::exchange(probing_, true)) start(probe());
  return for_all(
      1, [this](Party server) { return ring_.servers.traffic(server, std::chrono::seconds(1)); });
}

}  // namespace s3oram::ring
