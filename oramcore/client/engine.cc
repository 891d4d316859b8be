// Opens and closes the engine, implements its device, and leads accesses from start to end.
#include "oramcore/client/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

constexpr Duration kStatusPatience = std::chrono::seconds(1);
constexpr std::size_t kMostKeptBytes = 256 << 20;  // read without being written back

}  // namespace

Engine::Engine(const ClientEnvironment& environment, const VolumeId& volume,
               const VolumeParams& params, std::unique_ptr<ClientScheme> scheme, ClientState state)
    : VolumeEngine(environment.executor),
      state_(environment, volume, params, std::move(scheme),
             [this](Task<void> task) { start(std::move(task)); }),
      committer_(state_, std::move(state)),
      growing_(state_, committer_),
      capacity_(growing_, state_.servers, environment.clock, params.evict_every),
      slots_(state_),
      healing_turn_(state_),
      settler_(state_, slots_),
      repair_record_(state_, committer_),
      prover_(state_, committer_, slots_, repair_record_),
      healer_(state_, committer_, slots_, healing_turn_, settler_, prover_, repair_record_),
      scrubber_(state_, capacity_, slots_, healing_turn_, settler_, prover_, healer_,
                repair_record_),
      retriever_(state_, slots_, healing_turn_, settler_, healer_),
      root_writer_(state_, [this] { evictions_.begin_if_due(); }),
      eviction_gate_(state_),
      returning_(state_, committer_, slots_, healing_turn_, settler_, healer_, root_writer_,
                 eviction_gate_),
      evictions_(state_, committer_, capacity_, healing_turn_, healer_, retriever_, eviction_gate_,
                 Preparer(state_, returning_.attendance()),
                 Arbiter(state_, slots_, healing_turn_, settler_, prover_), Marker(state_),
                 [this](BlockId block) { return_to_tree(block); }),
      replacer_(state_, committer_, returning_.attendance(), eviction_gate_),
      sessions_(state_, committer_, returning_.attendance(), evictions_),
      write_numbers_(state_, evictions_, root_writer_,
                     {.blocks_in_use = [this] { return blocks_in_use(); },
                      .maintain = [this](WriteNumber number) { start(maintain(number)); }}) {}

Engine::~Engine() = default;

Task<Status> Engine::open(Duration patience, Evictions evictions) {
  if (evictions == Evictions::none) evictions_.forbid();
  Findings findings;
  auto loaded = co_await committer_.with_database(
      [&](ClientState& database) { return database.load(state_.params, &findings); });
  if (!loaded) co_return fail(loaded.error());
  log_findings(findings);
  if (!state_.scheme->keeps_marks())
    S3O_CO_TRY(co_await committer_.with_database(
        [](ClientState& database) { return database.forget_marks(); }));
  state_.in_step.load(loaded->left_out);
  S3O_CO_ASSIGN(const auto answering, co_await sessions_.find_servers(patience));
  S3O_CO_TRY(co_await sessions_.compare_with_servers(*loaded, answering, patience));
  take_up(*loaded);
  state_.session.epoch = loaded->sessions.back().epoch + 1;
  state_.environment.random.fill(state_.session.nonce);
  root_writer_.begin_session();
  S3O_CO_TRY(co_await committer_.with_database(
      [session = state_.session](ClientState& database) { return database.add_session(session); }));
  S3O_CO_TRY(co_await sessions_.open(std::move(loaded->sessions), answering, patience));

  const WriteNumber first = first_write_number(state_.tree.tree_version, state_.params.evict_every);
  const std::size_t ended = std::min(loaded->access_records.size(), state_.tree.written - first);
  loaded->access_records.erase(loaded->access_records.begin(),
                               loaded->access_records.begin() + static_cast<std::ptrdiff_t>(ended));
  returning_.attendance().begin();
  S3O_CO_TRY(co_await healer_.end_refreshes());
  // Without evictions nothing is computed from shares, and a repair proves them.
  if (evictions == Evictions::as_due) S3O_CO_TRY(co_await scrubber_.prove_cut_repair());
  S3O_CO_TRY(co_await finish_accesses(std::move(loaded->access_records)));
  capacity_.keep_known();
  capacity_.count();
  co_return Status{};
}

/// Takes over the content of vault.db.
void Engine::take_up(ClientState::Loaded& loaded) {
  committer_.set_loaded(loaded.tree);
  state_.positions = std::move(loaded.positions);
  state_.stash = std::move(loaded.stash);
  maintained_ = loaded.maintained;
  state_.rewritten = std::move(loaded.rewritten);
  state_.repairs = std::move(loaded.repairs);
  state_.refreshes = std::move(loaded.refreshes);
  mapped_ = state_.positions.blocks();
  for (const BlockId block : loaded.unreadable) {
    state_.unreadable[block] = false;
    // The file system may use this number for another block.
    if (state_.positions.get(block).kind == Position::Kind::unmapped) state_.mark_readable(block);
  }
  state_.versions.read = {state_.tree.tree_version, state_.tree.height};
  state_.versions.released = state_.tree.tree_version;
  for (const AccessRecord& access_record : loaded.access_records)
    state_.access_records[root_slot(access_record.write_number, state_.params.evict_every)] =
        access_record;
}

Task<Status> Engine::close(bool with_commit) {
  Status status;
  if (with_commit) status = co_await committer_.commit();
  if (!state_.dead) state_.dead = Error{Errc::shutting_down, "the volume is being closed"};
  state_.servers.stop();
  state_.changed.notify_all();
  do {
    co_await ended();
    co_await committer_.ended();
  } while (!idle());
  if (with_commit && status) {
    const auto folded = co_await committer_.with_database(
        [](ClientState& database) { return database.fold_log(); });
    if (!folded)
      spdlog::warn("the log of vault.db could not be copied into it: {}", folded.error().message);
  }
  co_return status;
}

EngineStatus Engine::status() const {
  EngineStatus status{.blocks = state_.positions.mapped(),
                      .capacity = capacity(state_.tree.height, state_.params.evict_every),
                      .accesses = accesses_,
                      .evictions = evictions_.count(),
                      .stash = state_.stash.size(),
                      .uncommitted = state_.pending.places(),
                      .height = state_.tree.height,
                      .evicting = evictions_.under_way(),
                      .unreadable = state_.unreadable.size(),
                      .failure = failure_of(state_.dead),
                      .evictions_stopped = evictions_.stopped(),
                      .database = state_.servers.trouble(kClient),
                      .top = {},
                      .servers = {}};
  const WriteNumber released =
      first_write_number(state_.versions.released, state_.params.evict_every);
  status.evictions_due =
      (std::max(state_.tree.written, released) - released) / state_.params.evict_every;
  status.evicting_for = evictions_.under_way_for();
  status.committing_for = committer_.under_way_for();
  for (Party server = 1; server <= state_.servers.count(); ++server)
    status.servers.push_back({state_.servers.silent_for(server), state_.servers.trouble(server),
                              state_.servers.stalled(server), state_.in_step.of(server),
                              returning_.progress(server), returning_.attendance().cut_from(server),
                              state_.repairs.servers.contains(server), capacity_.lacks_room(server),
                              capacity_.uses_reserve(server)});
  status.vault_lacks_room = capacity_.vault_lacks_room();
  return status;
}

Task<Result<Healed>> Engine::scrub(std::set<Party> servers, ScrubProgress progress) {
  co_return co_await run(scrubber_.scrub(std::move(servers), std::move(progress)));
}

Task<Result<std::vector<Party>>> Engine::replace(Replacement replacement) {
  co_return co_await run(replacer_.replace(std::move(replacement)));
}

Task<std::vector<Result<TrafficAnswer>>> Engine::server_traffic() {
  if (write_numbers_.is_open()) sessions_.probe();
  return for_all(state_.servers.count(),
                 [this](Party server) { return state_.servers.traffic(server, kStatusPatience); });
}

std::vector<BlockId> Engine::mapped() { return std::exchange(mapped_, {}); }

void Engine::refresh_room() {
  asio::post(state_.environment.executor, [this] { capacity_.keep_known(); });
}

void Engine::look_for_room() {
  asio::post(state_.environment.executor, [this] { capacity_.ask(); });
}

void Engine::commit(std::function<void(Status)> done) {
  asio::post(state_.environment.executor, [this, done = std::move(done)]() mutable {
    start([](Engine& engine, std::function<void(Status)> then) -> Task<void> {
      then(co_await engine.committer_.commit());
    }(*this, std::move(done)));
  });
}

void Engine::forget(BlockId block) {
  if (state_.forget(block)) capacity_.count();
}

void Engine::return_to_tree(BlockId block) {
  if (!in_use(block)) enqueue({.block = block, .content = {}, .read = {}, .written = {}});
}

// Protocol 2. A write retrieves first, too, so that servers cannot tell reads from writes.
Task<void> Engine::access(Request request) {
  const auto failed = [&request](Error error) {
    if (request.read) std::exchange(request.read, {})(fail(error));
    if (request.written) std::exchange(request.written, {})(fail(std::move(error)));
  };
  const BlockId block = request.block;
  if (!request.content && state_.is_given_up(block)) {
    failed({Errc::corrupt, fmt::format("block {} cannot be read", block)});
    co_return;
  }
  const bool is_new =
      request.content && state_.positions.get(block).kind == Position::Kind::unmapped;
  const Error no_room{Errc::disk_full, "there is no room for more blocks"};
  if (is_new && !capacity_.has_room(1)) {
    failed(no_room);
    co_return;
  }
  if (is_new) capacity_.begin_new_block();
  auto write_number = co_await write_numbers_.reserve();
  // The eviction that it waited for may have found no room. The reserved number is still used.
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
  const Leaf leaf = state_.leaf_of(request.block);
  if (Status recorded = co_await commit_access_record(write_number, request.block, leaf);
      !recorded) {
    if (request.read) request.read(fail(recorded.error()));
    if (request.written) request.written(fail(recorded.error()));
    co_return recorded;
  }
  co_await access_path(write_number, leaf, std::move(request));
  co_return Status{};
}

// Nothing is asked for before the record is durable (Rule::access_records).
Task<Status> Engine::commit_access_record(WriteNumber write_number, BlockId block, Leaf leaf) {
  const std::uint16_t slot = root_slot(write_number, state_.params.evict_every);
  state_.access_records[slot] = {.write_number = write_number, .block = block, .leaf = leaf};
  state_.pending.access_records[slot] = state_.access_records[slot];
  if (!rule_holds(Rule::access_records)) co_return Status{};
  co_return co_await committer_.commit_until_done();
}

// Takes blocks in the order of their numbers, whatever they hold and wherever they lie, so the
// choice tells the servers nothing about leaves or layers.
BlockId Engine::next_to_maintain() {
  const BlockId end = state_.positions.end();
  for (BlockId passed = 0; passed < end; ++passed) {
    const BlockId block = maintained_ < end ? maintained_ : 0;
    maintained_ = block + 1;
    if (state_.positions.get(block).kind != Position::Kind::unmapped && !in_use(block))
      return block;
  }
  // All blocks are being accessed, or there are none. The write number is used nevertheless.
  BlockId block = 0;
  while (in_use(block)) ++block;
  return block;
}

Task<void> Engine::maintain(WriteNumber write_number) {
  const BlockId block = next_to_maintain();
  state_.pending.maintained = maintained_;
  claim(block);
  Request request{.block = block, .content = {}, .read = {}, .written = {}};
  static_cast<void>(co_await access_at(write_number, std::move(request)));
  co_await serve(block);
}

Task<void> Engine::access_path(WriteNumber write_number, Leaf leaf, Request request) {
  ++accesses_;
  state_.metrics.accesses.add();
  const BlockId block = request.block;
  const std::uint64_t replaces = state_.positions.get(block).version;
  const Duration begun = state_.now();
  auto found = co_await retriever_.retrieve(write_number, block, leaf);
  const Duration took = state_.now() - begun;
  write_numbers_.set_retrieval_time(took);
  state_.metrics.retrieval_seconds.observe(took);
  if (!found && !state_.dead) {
    if (!request.content && state_.is_found_by(leaf, block)) state_.mark_unreadable(block);
    state_.metrics.failed_reads.add();
  }
  if (request.read && (state_.dead || !found))
    std::exchange(request.read, {})(fail(state_.dead ? *state_.dead : found.error()));
  if (state_.dead) {
    if (request.written) request.written(fail(*state_.dead));
    co_return;
  }
  const bool had_content = found && found->has_value();
  if (request.read && found)
    start(deliver(std::move(request.read),
                  had_content ? (*found)->content : Bytes(state_.params.block_size)));
  std::optional<Bytes> content = std::move(request.content);
  // A read preserves the mark of a block that belongs to a backup.
  Label label{.block = block, .version = 0, .leaf = {}, .backup = request.backup};
  if (!content && had_content) {
    label.backup = (*found)->label.backup;
    content = std::move((*found)->content);
  }
  // For a block that was never written, or could not be opened, the slot stays empty.
  if (!content) label = {};
  if (!content) content.emplace(state_.params.block_size);
  const Status status =
      co_await root_writer_.write(write_number, label, replaces, *content, request.written);
  if (status) state_.metrics.access_seconds.observe(state_.now() - begun);
  if (!status && request.written) request.written(fail(status.error()));
}

/// Reads while evictions have stopped and the root is full. The block is moved to the stash before
/// the caller gets its content, so that its path is not asked for again.
Task<void> Engine::read_only(Request request) {
  const BlockId block = request.block;
  if (state_.stash.size() * state_.params.slot_size() >= kMostKeptBytes) {
    request.read(fail(evictions_.stopped()->code, "nothing more can be read: {}",
                      evictions_.stopped()->message));
    co_return;
  }
  const Leaf leaf = state_.leaf_of(block);
  auto found = co_await retriever_.retrieve(kNoWriteNumber, block, leaf);
  if (found && found->has_value() && state_.positions.get(block).kind == Position::Kind::tree) {
    state_.keep_in_stash(block, &**found);
    if (auto kept = co_await committer_.commit_until_done(); !kept) found = fail(kept.error());
  }
  if (state_.dead) {
    request.read(fail(*state_.dead));
  } else if (!found) {
    if (state_.is_found_by(leaf, block)) state_.mark_unreadable(block);
    state_.metrics.failed_reads.add();
    request.read(fail(found.error()));
  } else {
    request.read(found->has_value() ? std::move((*found)->content)
                                    : Bytes(state_.params.block_size));
  }
}

/// Delivers the content after the messages that the caller sends now, because servers must not see
/// how long readers take.
Task<void> Engine::deliver(std::function<void(Result<Bytes>)> read, Bytes content) {
  co_await asio::post(state_.environment.executor, asio::use_awaitable);
  read(std::move(content));
}

// Finishes accesses that a crash cut short, before all others, in order, on the same paths
// (Rule::access_records). Newer accesses rewrite their root slots before a retrieval covers these
// (Rule::recovery_first).
Task<Status> Engine::finish_accesses(std::vector<AccessRecord> access_records) {
  evictions_.hold_back();
  if (!rule_holds(Rule::recovery_first)) {
    state_.tree.written += access_records.size();
    access_records.clear();
  }
  for (const AccessRecord& access_record : access_records) {
    Request request{.block = access_record.block, .content = {}, .read = {}, .written = {}};
    if (!state_.dead)
      co_await access_path(access_record.write_number, access_record.leaf, std::move(request));
  }
  if (state_.dead) co_return fail(*state_.dead);
  evictions_.let_begin();
  write_numbers_.open();
  root_writer_.acknowledge_in_order();
  co_return Status{};
}

}  // namespace s3oram
