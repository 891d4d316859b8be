// The engine's opening and closing, its device, and accesses from start to end.
#include "oramcore/client/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/client/reconcile.h"
#include "oramcore/client/testimony.h"

namespace s3oram {
namespace {

constexpr Duration kStatusPatience = std::chrono::seconds(1);
constexpr Duration kUplinkQueue = std::chrono::milliseconds(500);  // the least limit
constexpr Duration kLeastPace = std::chrono::milliseconds(1), kMostPace = std::chrono::seconds(1);
constexpr std::size_t kMostKeptBytes = 256 << 20;  // of blocks that are read without being written

}  // namespace

Engine::Engine(const ClientEnvironment& environment, const VolumeId& volume,
               const VolumeParams& params, std::unique_ptr<ClientScheme> scheme, ClientState state)
    : VolumeEngine(environment.executor),
      environment_(environment),
      params_(params),
      state_(std::move(state)),
      scheme_(std::move(scheme)),
      blank_(scheme_->seal({}, Bytes(params.block_size))),
      servers_(environment.executor, environment.clock, environment.random, environment.transport,
               volume, params.scheme.servers, params.scheme.threshold),
      in_step_(params),
      attendance_(environment.clock, servers_, in_step_, attendance_owner()),
      catch_up_(environment, params, servers_, in_step_, catch_up_owner()),
      root_(params.root_buffer_slots()),
      access_records_(params.root_buffer_slots()),
      metrics_(environment.metrics),
      commits_(environment.executor, environment.database, environment.clock, servers_.troubles(),
               metrics_, [this] { return begin_commit(); }),
      capacity_(*this, servers_, environment.clock, params.evict_every) {
  servers_.set_may_do_without(
      [this](Party server) { return in_step_.may_shrink() && in_step_.may_do_without(server); });
}

Engine::~Engine() = default;

Task<Status> Engine::open(Duration patience, Evictions evictions) {
  may_evict_ = evictions == Evictions::as_due;
  Findings findings;
  auto loaded =
      co_await offload(environment_.database, [&] { return state_.load(params_, &findings); });
  if (!loaded) co_return fail(loaded.error());
  log_findings(findings);
  in_step_.load(loaded->left_out);
  S3O_CO_ASSIGN(const auto answering, co_await find_servers(patience));
  S3O_CO_TRY(co_await compare_with_servers(*loaded, answering, patience));
  tree_ = durable_ = loaded->tree;
  positions_ = std::move(loaded->positions);
  stash_ = std::move(loaded->stash);
  maintained_ = loaded->maintained;
  rewritten_ = std::move(loaded->rewritten);
  mapped_ = positions_.blocks();
  for (const BlockId block : loaded->unreadable) {
    unreadable_[block] = false;
    // The file system may use this number for another block.
    if (positions_.get(block).kind == Position::Kind::unmapped) mark_readable(block);
  }

  session_.epoch = loaded->sessions.back().epoch + 1;
  environment_.random.fill(session_.nonce);
  next_access_ = first_access(session_.epoch);
  S3O_CO_TRY(
      co_await offload(environment_.database, [this] { return state_.add_session(session_); }));
  reading_ = {tree_.tree_version, tree_.height};
  released_tree_version_ = tree_.tree_version;
  const WriteNumber first = first_write_number(tree_.tree_version, params_.evict_every);
  for (const AccessRecord& access_record : loaded->access_records)
    access_records_[root_slot(access_record.write_number, params_.evict_every)] = access_record;
  S3O_CO_TRY(co_await open_sessions(std::move(loaded->sessions), answering, patience));

  const std::size_t ended = std::min(loaded->access_records.size(), tree_.written - first);
  loaded->access_records.erase(loaded->access_records.begin(),
                               loaded->access_records.begin() + static_cast<std::ptrdiff_t>(ended));
  attendance_.begin();
  S3O_CO_TRY(co_await finish_accesses(std::move(loaded->access_records)));
  capacity_.keep_known();
  capacity_.count();
  co_return Status{};
}

/// The servers to open the volume with. Errors: unreachable.
Task<Result<std::set<Party>>> Engine::find_servers(Duration patience) {
  std::set<Party> answering;
  for (Party server = 1; server <= servers_.count(); ++server) answering.insert(server);
  if (!in_step_.may_shrink()) co_return answering;
  const auto enough = [this](const std::set<Party>& some) { return in_step_.may_open(some); };
  answering = co_await servers_.roll_call(enough, patience);
  if (enough(answering)) co_return answering;
  std::string away;
  for (Party server = 1; server <= servers_.count(); ++server)
    if (!answering.contains(server))
      away += fmt::format("{}server {}", away.empty() ? "" : " and ", server);
  co_return fail(Errc::unreachable,
                 "no answer from {}: to open this volume, {} of {} servers are needed, and among "
                 "them {} that have all data",
                 away, in_step_.least(), servers_.count(), in_step_.needed());
}

/// Refuses an old copy of the vault before the new epoch would shut out the newest one. Also asks
/// the servers what a damaged access record no longer says: whose write is in its root slot. One
/// that is away says nothing that this vault does not. One that was left out may lag behind, and
/// what it holds does not count; but that it knows of more than this vault does.
Task<Status> Engine::compare_with_servers(ClientState::Loaded& loaded, std::set<Party> answering,
                                          Duration patience) {
  const Bytes asked(answering.begin(), answering.end());
  auto answers = co_await for_each_of(
      asked, [&](Party server) { return servers_.survey_one(server, patience); });
  std::size_t answered = 0;
  const SurveyAnswer as_here{.session = loaded.sessions.back(),
                             .tree_version = loaded.tree.tree_version,
                             .height = static_cast<std::uint8_t>(loaded.tree.height),
                             .prepared = {},
                             .root = {}};
  std::vector<SurveyAnswer> testimony, stand;
  for (Party server = 1; server <= servers_.count(); ++server) {
    Result<SurveyAnswer> answer = fail(Errc::unreachable, "server {} is away", server);
    if (answering.contains(server)) answer = std::move(answers[answered++]);
    if (!answer && answer.error().code == Errc::unsupported) co_return Status{};  // older servers
    const bool may_lack = in_step_.may_shrink() && (!in_step_.holds(server) || !answer);
    if (!answer && !may_lack) co_return fail(answer.error());
    testimony.push_back(answer ? std::move(*answer) : as_here);
    stand.push_back(may_lack ? as_here : testimony.back());
  }
  S3O_CO_TRY(check_testimony(testimony, loaded, params_));
  std::erase_if(stand, [&](const SurveyAnswer& each) {
    return std::ranges::find(loaded.sessions, each.session) == loaded.sessions.end();
  });
  for (AccessRecord& access_record : loaded.access_records)
    if (access_record.access == 0 && access_record.write_number < loaded.tree.written)
      access_record.access =
          agreed_stamp(stand, root_slot(access_record.write_number, params_.evict_every),
                       params_.scheme.threshold);
  co_return Status{};
}

/// Servers::Reconcile
Task<Status> Engine::bring_to_version(Party server, OpenAnswer stands, Duration patience) {
  const Standing standing = in_step_.of(server);
  if (standing == Standing::away) co_return Status{};  // it rejoins
  if (standing == Standing::following) {               // what it was told of the root is lost
    attendance_.drop(server);
    co_return fail(Errc::unreachable, "server {} was restarted meanwhile", server);
  }
  co_return co_await bring_along(servers_, server, std::move(stands), durable_, attempt_,
                                 session_.epoch, patience);
}

/// At the servers that answer. Those that fail, and may, are left out.
Task<Status> Engine::open_sessions(std::vector<Session> known, const std::set<Party>& answering,
                                   Duration patience) {
  // vault.db decides (Rule::decide_first): what it does not hold is not decided.
  Servers::Reconcile reconcile = [this](Party server, OpenAnswer answer, Duration limit) {
    return bring_to_version(server, std::move(answer), limit);
  };
  auto present = [this](OpenRequest& request) {
    request.tree_version = durable_.tree_version;
    request.root = acknowledged_root();
  };
  std::set<Party> without;
  for (Party server = 1; server <= servers_.count(); ++server)
    if (!answering.contains(server)) without.insert(server);
  const auto opened =
      co_await servers_.open_each(std::move(known), session_, std::move(present),
                                  std::move(reconcile), patience, std::move(without));
  for (Party server = 1; server <= servers_.count(); ++server) {
    const auto& status = opened[server - 1u];
    if (!in_step_.holds(server)) servers_.leave_out(server);
    if ((status && *status) || !in_step_.holds(server)) continue;
    const Error why = status ? status->error() : Error{Errc::unreachable, "it does not answer"};
    bool is_away = why.code == Errc::unreachable || why.code == Errc::failed ||
                   why.code == Errc::disk_full || why.code == Errc::damaged_vault;
    if (!is_away) is_away = co_await servers_.holds_nothing(server, kStatusPatience);
    if (!is_away || !in_step_.may_leave(server)) co_return fail(why);
    S3O_CO_TRY(co_await attendance_.leave_out(server, why.message));
  }
  if (servers_.all_have_session())
    S3O_CO_TRY(co_await offload(environment_.database,
                                [this] { return state_.forget_sessions_before(session_.epoch); }));
  co_return Status{};
}

Task<Status> Engine::close(bool with_commit) {
  Status status;
  if (with_commit) status = co_await commits_.commit();
  if (!dead_) dead_ = Error{Errc::shutting_down, "the volume is being closed"};
  servers_.stop();
  write_numbers_changed_.notify_all();
  do {
    co_await ended();
    co_await commits_.ended();
  } while (!idle());
  if (with_commit && status) {
    const auto folded =
        co_await offload(environment_.database, [this] { return state_.fold_log(); });
    if (!folded) spdlog::warn("vault.db keeps its log: {}", folded.error().message);
  }
  co_return status;
}

void Engine::die(Error reason) {
  if (dead_) return;
  spdlog::error("the volume cannot go on: {}", reason.message);
  dead_ = std::move(reason);
  servers_.stop();
  write_numbers_changed_.notify_all();
}

EngineStatus Engine::status() const {
  EngineStatus status{.blocks = positions_.mapped(),
                      .capacity = capacity(tree_.height, params_.evict_every),
                      .accesses = accesses_,
                      .evictions = evictions_,
                      .stash = stash_.size(),
                      .uncommitted = pending_.places(),
                      .height = tree_.height,
                      .evicting = evicting_,
                      .unreadable = unreadable_.size(),
                      .failure = dead_ ? dead_->message : std::string(),
                      .evictions_stopped = evictions_stopped_,
                      .database = servers_.trouble(kClient),
                      .top = {},
                      .servers = {}};
  const WriteNumber released = first_write_number(released_tree_version_, params_.evict_every);
  status.evictions_due = (std::max(tree_.written, released) - released) / params_.evict_every;
  const Duration now = environment_.clock.now();
  if (evicting_) status.evicting_for = now - eviction_begun_;
  status.committing_for = commits_.under_way_for();
  for (Party server = 1; server <= servers_.count(); ++server)
    status.servers.push_back({servers_.silent_for(server), servers_.trouble(server),
                              servers_.stalled(server), in_step_.of(server),
                              catch_up_.progress(server)});
  return status;
}

Task<void> Engine::probe(Party server) {
  constexpr std::uint64_t kNoEviction = ~std::uint64_t{0};
  const ReleaseRequest nothing{session_.epoch, {kNoEviction, {}}};
  auto answer = co_await servers_.ask_once(server, ReleaseRequest::kType, encode(nothing));
  if (!answer && (answer.error().code == Errc::fenced || answer.error().code == Errc::stale_vault))
    die(answer.error());
  probed_.erase(server);
}

Task<std::vector<Result<TrafficAnswer>>> Engine::server_traffic() {
  for (Party server = 1; server <= servers_.count() && opened_ && !dead_; ++server)
    if (probed_.insert(server).second) start(probe(server));
  return for_all(servers_.count(),
                 [this](Party server) { return servers_.traffic(server, kStatusPatience); });
}

// ---- the device

std::vector<BlockId> Engine::mapped() { return std::exchange(mapped_, {}); }

void Engine::refresh_room() {
  asio::post(environment_.executor, [this] { capacity_.keep_known(); });
}

void Engine::look_for_room() {
  asio::post(environment_.executor, [this] { capacity_.ask(); });
}

void Engine::commit(std::function<void(Status)> done) {
  asio::post(environment_.executor, [this, done = std::move(done)]() mutable {
    start([](Engine& engine, std::function<void(Status)> then) -> Task<void> {
      then(co_await engine.commits_.commit());
    }(*this, std::move(done)));
  });
}

CommitWork Engine::begin_commit() {
  auto changes = std::make_shared<StateChanges>(std::exchange(pending_, {}));
  CommitParticipant* const participant = participant_;
  auto with = participant ? participant->snapshot() : std::function<Status(Database&)>();
  return {[this, tree = tree_, changes, with] { return state_.commit(tree, *changes, with); },
          [this, tree = tree_, changes, participant](const Status& outcome) {
            if (outcome)
              durable_ = tree;
            else
              pending_.merge_older(std::move(*changes));
            if (participant) participant->committed(outcome);
          }};
}

// ---- accesses

bool Engine::is_given_up(BlockId block) const {
  const auto found = unreadable_.find(block);
  return found != unreadable_.end() && found->second;
}

void Engine::mark_unreadable(BlockId block) {
  unreadable_[block] = true;
  pending_.unreadable[block] = true;
}

void Engine::mark_unreadable(SlotAddress at) {
  for (const Resident& resident : positions_.contents(at.bucket))
    if (resident.slot == at.slot) mark_unreadable(resident.block);
}

void Engine::mark_readable(BlockId block) {
  if (unreadable_.erase(block) > 0) pending_.unreadable[block] = false;
}

void Engine::forget(BlockId block) {
  mark_readable(block);
  if (positions_.get(block).kind != Position::Kind::unmapped) {
    positions_.set(block, {});
    pending_.positions[block].reset();
    if (stash_.erase(block) > 0) pending_.stash[block].reset();
    capacity_.count();
  }
}

// Protocol 2. A write retrieves first, too: servers cannot tell reads from writes.
Task<void> Engine::access(Request request) {
  const auto failed = [&request](Error error) {
    if (request.read) std::exchange(request.read, {})(fail(error));
    if (request.written) std::exchange(request.written, {})(fail(std::move(error)));
  };
  const BlockId block = request.block;
  if (!request.content && is_given_up(block)) {
    failed({Errc::corrupt, fmt::format("block {} cannot be read", block)});
    co_return;
  }
  const bool is_new = request.content && positions_.get(block).kind == Position::Kind::unmapped;
  const Error no_room{Errc::disk_full, "there is no room for more blocks"};
  if (is_new && !capacity_.has_room(1)) {
    failed(no_room);
    co_return;
  }
  if (is_new) capacity_.begin_new_block();
  auto write_number = co_await reserve_write_number();
  // The eviction that it waited for may have found no room. A reserved write number is used anyway.
  if (write_number && is_new && !capacity_.has_room(0)) {
    failed(no_room);
    request.content.reset();
  }
  if (write_number)
    static_cast<void>(co_await access_at(*write_number, std::move(request)));
  else if (write_number.error().code == Errc::servers_disagree && request.read)
    co_await read_only(std::move(request));
  else
    failed(write_number.error());
  if (is_new) capacity_.end_new_block();
  capacity_.count();
}

Task<Status> Engine::access_at(WriteNumber write_number, Request request) {
  const Leaf leaf = leaf_of(request.block);
  if (Status intended = co_await intend(write_number, request.block, leaf); !intended) {
    if (request.read) request.read(fail(intended.error()));
    if (request.written) request.written(fail(intended.error()));
    co_return intended;
  }
  co_await access_path(write_number, leaf, std::move(request));
  co_return Status{};
}

// ---- maintenance

bool Engine::is_maintenance(WriteNumber write_number) const {
  const unsigned every = params_.maintain_every();
  return every != 0 && write_number % every == every - 1 && rule_holds(Rule::maintenance);
}

// In the order of their numbers, whatever they hold and wherever they lie: which block it is tells
// the servers nothing of leaves or layers.
BlockId Engine::next_to_maintain() {
  const BlockId end = positions_.end();
  for (BlockId passed = 0; passed < end; ++passed) {
    const BlockId block = maintained_ < end ? maintained_ : 0;
    maintained_ = block + 1;
    if (positions_.get(block).kind != Position::Kind::unmapped && !in_use(block)) return block;
  }
  // All are being accessed, or there is none: the write number is used all the same.
  BlockId block = 0;
  while (in_use(block)) ++block;
  return block;
}

Task<void> Engine::maintain(WriteNumber write_number) {
  const BlockId block = next_to_maintain();
  pending_.maintained = maintained_;
  claim(block);
  Request request{.block = block, .content = {}, .read = {}, .written = {}};
  static_cast<void>(co_await access_at(write_number, std::move(request)));
  co_await serve(block);
}

Task<void> Engine::access_path(WriteNumber write_number, Leaf leaf, Request request) {
  ++accesses_;
  metrics_.accesses.add();
  const BlockId block = request.block;
  const std::uint64_t replaces = positions_.get(block).version;
  const Duration begun = environment_.clock.now();
  auto found = co_await retrieve(write_number, block, leaf);
  last_retrieval_ = environment_.clock.now() - begun;
  metrics_.retrieval_seconds.observe(last_retrieval_);
  if (!found && !dead_) {
    if (!request.content && is_found_by(leaf, block)) mark_unreadable(block);
    metrics_.failed_reads.add();
  }
  if (request.read && (dead_ || !found))
    std::exchange(request.read, {})(fail(dead_ ? *dead_ : found.error()));
  if (dead_) {
    if (request.written) request.written(fail(*dead_));
    co_return;
  }
  const bool had_content = found && found->has_value();
  if (request.read && found)
    start(deliver(std::move(request.read),
                  had_content ? (*found)->content : Bytes(params_.block_size)));
  std::optional<Bytes> content = std::move(request.content);
  // A read keeps the mark of a block that is a part of a backup.
  Label label{.block = block, .version = 0, .leaf = {}, .backup = request.backup};
  if (!content && had_content) {
    label.backup = (*found)->label.backup;
    content = std::move((*found)->content);
  }
  // A block that was never written, or could not be opened, leaves an empty slot behind.
  if (!content) label = {};
  if (!content) content.emplace(params_.block_size);
  const Status status =
      co_await write_root(write_number, label, replaces, *content, request.written);
  if (status) metrics_.access_seconds.observe(environment_.clock.now() - begun);
  if (!status && request.written) request.written(fail(status.error()));
}

/// Evictions have stopped and the root is full. What is read stays here, in the stash, before
/// anybody gets it: its path is not asked for again.
Task<void> Engine::read_only(Request request) {
  const BlockId block = request.block;
  if (stash_.size() * params_.slot_size() >= kMostKeptBytes) {
    request.read(
        fail(evictions_stopped_->code, "no more can be read: {}", evictions_stopped_->message));
    co_return;
  }
  const Leaf leaf = leaf_of(block);
  auto found = co_await retrieve(kNoWriteNumber, block, leaf);
  if (found && found->has_value() && positions_.get(block).kind == Position::Kind::tree) {
    keep_in_stash(block, &**found);
    if (auto kept = co_await commit_until_done(); !kept) found = fail(kept.error());
  }
  if (dead_) {
    request.read(fail(*dead_));
  } else if (!found) {
    if (is_found_by(leaf, block)) mark_unreadable(block);
    metrics_.failed_reads.add();
    request.read(fail(found.error()));
  } else {
    request.read(found->has_value() ? std::move((*found)->content) : Bytes(params_.block_size));
  }
}

/// Delivers the content after the messages that the caller sends now: servers must not see how long
/// readers take.
Task<void> Engine::deliver(std::function<void(Result<Bytes>)> read, Bytes content) {
  co_await asio::post(environment_.executor, asio::use_awaitable);
  read(std::move(content));
}

// Accesses that a crash cut short are finished first, in order, on the same paths
// (Rule::access_records). Their root slots are rewritten, by newer accesses, before a retrieval
// covers them (Rule::recovery_first).
Task<Status> Engine::finish_accesses(std::vector<AccessRecord> access_records) {
  evicting_ = true;  // no eviction may begin now
  eviction_begun_ = environment_.clock.now();
  if (!rule_holds(Rule::recovery_first)) {
    tree_.written += access_records.size();
    access_records.clear();
  }
  for (const AccessRecord& access_record : access_records) {
    Request request{.block = access_record.block, .content = {}, .read = {}, .written = {}};
    if (!dead_)
      co_await access_path(access_record.write_number, access_record.leaf, std::move(request));
  }
  if (dead_) co_return fail(*dead_);
  evicting_ = false;
  next_write_number_ = tree_.written;
  opened_ = true;
  acknowledge_in_order();
  co_return Status{};
}

// The client's line stays full if the uploads under way take longer than the next access needs
// until its own upload begins: an acknowledgement, a commit and a retrieval, about three retrievals
// of time. Without a limit reads would run ahead of their uploads until the root is full, and then
// wait for all of them.
bool Engine::uplink_full() const {
  const auto uploads = static_cast<Duration::rep>(uploads_);
  return uploads > 1 && uploads * upload_each_ > std::max(kUplinkQueue, 3 * last_retrieval_);
}

// An eviction takes about as long as the one before. Accesses that come one after another, faster
// than it, fill the root meanwhile, and the next one would wait for the rest of the eviction. So
// the write numbers are spread over that time, and a quarter more, because it varies. The first
// quarter of them is free at once, for accesses that come together. Accesses of which many are
// under way wait for each other in any case, and lose nothing by the end of an eviction.
Duration Engine::write_number_is_due() const {
  const WriteNumber every = params_.evict_every, few = every / 4 + 1;
  const WriteNumber first = first_write_number(released_tree_version_ + 1, params_.evict_every);
  if (!evicting_ || blocks_in_use() > few) return Duration::min();
  if (next_write_number_ <= first + few || next_write_number_ >= first + every)
    return Duration::min();
  const auto part = static_cast<Duration::rep>(next_write_number_ - first - few);
  const auto all = static_cast<Duration::rep>(every - few);
  return eviction_begun_ + 5 * eviction_takes_ * part / (4 * all);
}

Task<Result<WriteNumber>> Engine::reserve_write_number() {
  // Sleeps in parts, because the eviction may end meanwhile, or more accesses may come.
  const Duration part = std::clamp(last_retrieval_ / 4, kLeastPace, kMostPace / 8);
  const Duration limit = environment_.clock.now() + std::min(2 * last_retrieval_, kMostPace);
  while (!dead_ && environment_.clock.now() < std::min(limit, write_number_is_due()))
    co_await environment_.clock.sleep(part);
  const auto in_root = [this] {
    return next_write_number_ < end_write_number(released_tree_version_, params_.evict_every);
  };
  const auto open = [&] { return opened_ && !uplink_full() && in_root(); };
  const auto used_up = [&] { return evictions_stopped_ && !in_root(); };
  for (;;) {
    while (!dead_ && !open() && !used_up()) co_await write_numbers_changed_.wait();
    if (dead_) co_return fail(*dead_);
    if (!open()) co_return fail(*evictions_stopped_);
    if (!is_maintenance(next_write_number_)) co_return next_write_number_++;
    start(maintain(next_write_number_++));
  }
}

/// Returns the path to ask for: that of the block, or a random one.
Leaf Engine::leaf_of(BlockId block) {
  const Position position = positions_.get(block);
  return position.kind == Position::Kind::tree ? position.leaf : random_leaf(environment_.random);
}

// Commits the access record. Nothing is asked for before it is durable (Rule::access_records).
Task<Status> Engine::intend(WriteNumber write_number, BlockId block, Leaf leaf) {
  const std::uint16_t slot = root_slot(write_number, params_.evict_every);
  access_records_[slot] = {.write_number = write_number, .block = block, .leaf = leaf};
  pending_.access_records[slot] = access_records_[slot];
  if (!rule_holds(Rule::access_records)) co_return Status{};
  co_return co_await commit_until_done();
}

}  // namespace s3oram
