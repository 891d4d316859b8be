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
      environment_(environment),
      volume_(params),
      params_(params),
      sealing_key_(sealing_key),
      sealer_(sealing_key, environment.random),
      codec_(params_, sealing_key),
      blank_(sealer_.seal({}, Bytes(params.block_size))),
      metrics_(environment.metrics),
      cache_(std::move(cache), params_.slot_size),
      servers_(environment.executor, environment.clock, environment.random, environment.transport,
               volume, 1),
      committer_(environment.executor, environment.database, environment.clock, std::move(state),
                 cache_, servers_.troubles(), metrics_),
      tree_(committer_.tree),
      pending_(committer_.changes),
      doubt_(params_.log_slots / params_.evict_every),
      capacity_(*this, servers_, environment.clock, params.evict_every) {}

RingEngine::~RingEngine() = default;

Task<Status> RingEngine::open(Duration patience, Evictions evictions) {
  may_evict_ = evictions == Evictions::as_due;
  Findings findings;
  S3O_CO_ASSIGN(auto loaded, co_await committer_.with_state(
                                 [&](RingState& state) { return state.load(volume_, &findings); }));
  log_findings(findings);
  S3O_CO_TRY(co_await compare_with_server(loaded, patience));
  committer_.set_loaded(loaded.tree);
  places_ = std::move(loaded.places);
  held_ = std::move(loaded.buckets);
  mapped_ = places_.blocks();
  for (const auto& [turn, block] : places_.top()) cache_.use(places_.get(block).cache_slot);
  for (const BlockId block : loaded.unreadable)
    if (places_.get(block).kind != Place::Kind::unmapped) unreadable_[block] = false;
  logged_ = std::move(loaded.logged);
  next_turn_ = loaded.turns();
  next_rewrite_ = installed_ = tree_.tree_version;
  next_attempt_ = static_cast<std::uint32_t>(environment_.random.u64());
  next_eviction_ = evictions_done_ = tree_.evictions;

  S3O_CO_TRY(co_await open_session(std::move(loaded.sessions), patience));
  S3O_CO_TRY(co_await look_after_cache());
  S3O_CO_TRY(co_await finish_accesses(std::move(loaded.records)));
  capacity_.count();
  capacity_.keep_known();
  co_return Status{};
}

Task<Result<SurveyAnswer>> RingEngine::survey(Duration patience) {
  S3O_CO_ASSIGN(const auto answer,
                co_await servers_.call_opened(kServer, SurveyRequest::kType,
                                              encode(SurveyRequest{servers_.volume()}), patience));
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
  S3O_CO_TRY(co_await bring_along(servers_, kServer, answer, committer_.durable(), attempt_,
                                  session_.epoch, patience));
  S3O_CO_ASSIGN(const SurveyAnswer found, co_await survey(patience));
  co_return check_not_set_back(found, tree_.written);
}

Task<Status> RingEngine::open_session(std::vector<Session> sessions, Duration patience) {
  session_.epoch = sessions.back().epoch + 1;
  environment_.random.fill(session_.nonce);
  next_access_ = first_access(session_.epoch);
  S3O_CO_TRY(co_await committer_.with_state(
      [this](RingState& state) { return state.add_session(session_); }));
  // vault.db decides (Rule::decide_first): a change that it does not hold is not decided.
  Servers::Reconcile reconcile = [this](Party, OpenAnswer answer, Duration limit) {
    return bring_server_along(answer, limit);
  };
  auto present = [this](OpenRequest& request) {
    request.tree_version = committer_.durable().tree_version;
    request.root = {next_turn_};
  };
  S3O_CO_TRY(co_await servers_.open(std::move(sessions), session_, std::move(present),
                                    std::move(reconcile), patience));
  co_return co_await committer_.with_state(
      [this](RingState& state) { return state.forget_sessions_before(session_.epoch); });
}

/// Returns whether every block of the top that was synced can be opened. Runs before anything else,
/// because the log is not read for the sake of a single block that is wanted.
Result<bool> RingEngine::cache_is_whole() {
  S3O_ASSIGN(const bool there, cache_.has_all_in_use());
  if (!there) return false;
  for (const auto& [turn, block] : places_.top()) {
    if (turn >= tree_.synced) break;
    if (unreadable_.contains(block)) continue;
    const Place place = places_.get(block);
    const auto sealed = cache_.read(place.cache_slot);
    if (!sealed || !opened(*sealed, block, place.version)) return false;
  }
  return true;
}

/// Restores the cache. A process that ended without closing may have lost what it had not synced; a
/// file that is gone, truncated or damaged may have lost anything.
Task<Status> RingEngine::look_after_cache() {
  S3O_CO_ASSIGN(const bool whole,
                co_await offload(environment_.pool, [this] { return cache_is_whole(); }));
  if (!whole) spdlog::warn("top.cache is incomplete: it is rebuilt from the server's log");
  const Status reserved =
      co_await offload(environment_.pool, [this] { return cache_.reserve(cache_slots(volume_)); });
  if (!reserved)
    spdlog::warn("cannot reserve disk space for top.cache: {}", reserved.error().message);
  if (whole && tree_.synced == tree_.written) co_return Status{};
  const Turn oldest = tree_.written - std::min<Turn>(tree_.written, params_.log_slots);
  co_return co_await refill_lost(whole ? std::max(tree_.synced, oldest) : oldest);
}

// Finishes accesses that a crash cut short, before all others, in order, with the same questions
// (Rule::access_records), except for buckets that were rewritten since.
Task<Status> RingEngine::finish_accesses(std::map<Turn, TurnRecord> records) {
  if (!rule_holds(Rule::recovery_first)) tree_.written = next_turn_;
  while (!dead_ && tree_.written < next_turn_) {
    const Turn turn = tree_.written;
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
  if (dead_) co_return fail(*dead_);
  opened_ = true;
  changed_.notify_all();
  begin_rewrites();
  co_return Status{};
}

Task<Status> RingEngine::close(bool with_commit) {
  Status status;
  if (with_commit && dead_) {
    status = fail(*dead_);
  } else if (with_commit && opened_) {
    co_await sync_cache();
    status = co_await committer_.commit();
  }
  if (!dead_) dead_ = Error{Errc::shutting_down, "the volume is being closed"};
  servers_.stop();
  changed_.notify_all();
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

void RingEngine::die(Error reason) {
  if (dead_) return;
  spdlog::error("the volume cannot go on: {}", reason.message);
  dead_ = std::move(reason);
  servers_.stop();
  changed_.notify_all();
}

void RingEngine::look_for_room() {
  asio::post(environment_.executor, [this] { capacity_.ask(); });
}

void RingEngine::refresh_room() {
  asio::post(environment_.executor, [this] { capacity_.keep_known(); });
}

void RingEngine::commit(std::function<void(Status)> done) {
  asio::post(environment_.executor, [this, done = std::move(done)]() mutable {
    start([](RingEngine& engine, std::function<void(Status)> then) -> Task<void> {
      then(co_await engine.committer_.commit());
    }(*this, std::move(done)));
  });
}

EngineStatus RingEngine::status() const {
  EngineStatus status;
  status.blocks = places_.mapped();
  status.capacity = capacity(tree_.height, params_.evict_every);
  status.accesses = accesses_;
  status.evictions = evictions_;
  status.uncommitted = pending_.places.size();
  status.height = tree_.height;
  status.evicting = rewriting_ > 0;
  status.unreadable = unreadable_.size();
  status.evictions_stopped = evictions_stopped_;
  status.failure = dead_ ? dead_->message : std::string();
  status.database = servers_.trouble(kClient);
  status.evictions_due = params_.evictions_until(tree_.written) - evictions_done_;
  const Duration now = environment_.clock.now();
  if (eviction_begun_) status.evicting_for = now - *eviction_begun_;
  status.committing_for = committer_.under_way_for();
  status.servers.push_back({servers_.silent_for(kServer),
                            servers_.trouble(kServer),
                            servers_.stalled(kServer),
                            Standing::in_step,
                            {}});
  status.top =
      TopStatus{.blocks = places_.top().size(),
                .slots = cache_slots(volume_),
                .bytes = cache_bytes(volume_),
                .log_slots = params_.log_slots,
                .not_synced = std::min<Turn>(tree_.written - tree_.synced, params_.log_slots),
                .trouble = trouble_of_cache(),
                .most_evictions_behind = params_.most_evictions_due()};
  return status;
}

std::string RingEngine::trouble_of_cache() const {
  if (cache_unwritten_) return cache_unwritten_->message;
  return doubt_.failure() ? doubt_.failure()->message : std::string();
}

/// Asks for something that is done already. The answer shows, without an access, whether the server
/// was restarted or now belongs to another client.
Task<void> RingEngine::probe() {
  const ReleaseRequest nothing{session_.epoch, {~std::uint64_t{0} - 1, {}}};
  auto answer = co_await servers_.ask_once(kServer, ReleaseRequest::kType, encode(nothing));
  if (!answer && (answer.error().code == Errc::fenced || answer.error().code == Errc::stale_vault))
    die(answer.error());
  probing_ = false;
}

Task<std::vector<Result<TrafficAnswer>>> RingEngine::server_traffic() {
  if (opened_ && !dead_ && !std::exchange(probing_, true)) start(probe());
  return for_all(
      1, [this](Party server) { return servers_.traffic(server, std::chrono::seconds(1)); });
}

}  // namespace s3oram::ring
