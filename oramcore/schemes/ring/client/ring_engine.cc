// Opens and closes a ring's engine, implements its device, and leads accesses from start to end.
#include "oramcore/schemes/ring/client/ring_engine.h"

#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"

namespace s3oram::ring {
namespace {

constexpr unsigned kRestoredAgain = 2;  // further times that the same block is restored

}  // namespace

RingEngine::RingEngine(const ClientEnvironment& environment, const VolumeId& volume,
                       const VolumeParams& params, const Seed& sealing_key, RingState state,
                       std::unique_ptr<File> cache)
    : VolumeEngine(environment.executor),
      ring_(environment, volume, params, sealing_key, std::move(cache),
            [this](Task<void> task) { start(std::move(task)); }),
      committer_(ring_, std::move(state)),
      growing_(ring_, committer_),
      capacity_(growing_, ring_.servers, environment.clock, ring_.volume.filling()),
      top_(ring_),
      refill_(ring_, top_),
      top_sync_(ring_, top_, refill_),
      log_writer_(ring_, top_, refill_, [this] { rewriter_.begin_due(); }),
      rewriter_(ring_, committer_, capacity_, top_, top_sync_, sealing_key),
      scrubber_(ring_, rewriter_),
      records_(ring_, committer_, rewriter_),
      retriever_(ring_, top_, rewriter_, records_),
      turns_(ring_, refill_, rewriter_,
             [this](Turn turn, BlockId block) { log_again(turn, block); }),
      session_(ring_, committer_, rewriter_) {}

RingEngine::~RingEngine() = default;

Task<Status> RingEngine::open(Duration patience, Evictions evictions) {
  Findings findings;
  S3O_CO_ASSIGN(auto loaded, co_await committer_.with_state([&](RingState& state) {
    return state.load(ring_.volume, &findings);
  }));
  log_findings(findings);
  S3O_CO_TRY(co_await session_.compare_with_server(loaded, patience));
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

  S3O_CO_TRY(co_await session_.open(std::move(loaded.sessions), patience));
  log_writer_.begin_session();
  S3O_CO_ASSIGN(const bool restored, co_await refill_.restore());
  if (restored) co_await top_sync_.sync();
  S3O_CO_TRY(co_await finish_accesses(std::move(loaded.records)));
  if (evictions == Evictions::as_due) rewriter_.allow_evictions();
  turns_.open();
  rewriter_.begin_due();
  capacity_.count();
  capacity_.keep_known();
  co_return Status{};
}

Task<Status> RingEngine::close(bool with_commit) {
  Status status;
  if (with_commit && ring_.dead) {
    status = fail(*ring_.dead);
  } else if (with_commit && turns_.is_open()) {
    co_await top_sync_.sync_alone();
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
  status.capacity = capacity(ring_.tree.height, ring_.volume.filling());
  status.accesses = accesses_;
  status.evictions = rewriter_.count();
  status.uncommitted = ring_.pending.places.size();
  status.height = ring_.tree.height;
  status.evicting = rewriter_.under_way();
  status.unreadable = ring_.unreadable.size();
  status.evictions_stopped = rewriter_.stopped();
  status.failure = failure_of(ring_.dead);
  status.database = ring_.servers.trouble(kClient);
  status.evictions_due =
      ring_.params.evictions_until(ring_.tree.written) - rewriter_.evictions_done();
  status.evicting_for = rewriter_.under_way_for();
  status.committing_for = committer_.under_way_for();
  status.servers.push_back({ring_.servers.silent_for(kServer),
                            ring_.servers.trouble(kServer),
                            ring_.servers.stalled(kServer),
                            Standing::in_step,
                            {},
                            {}});
  status.servers.back().lacks_room = capacity_.lacks_room(kServer);
  status.servers.back().uses_reserve = capacity_.uses_reserve(kServer);
  status.vault_lacks_room = capacity_.vault_lacks_room();
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

Task<std::vector<Result<TrafficAnswer>>> RingEngine::server_traffic() {
  if (turns_.is_open() && !ring_.dead) session_.probe();
  return for_all(
      1, [this](Party server) { return ring_.servers.traffic(server, std::chrono::seconds(1)); });
}

// A write also asks before it writes, so that it looks the same as a read.
Task<void> RingEngine::access(Request request) {
  const auto failed = [&request](Error error) {
    if (request.read) std::exchange(request.read, {})(fail(error));
    if (request.written) std::exchange(request.written, {})(fail(std::move(error)));
  };
  const BlockId block = request.block;
  if (!request.content && ring_.is_given_up(block)) {
    failed({Errc::corrupt, fmt::format("block {} cannot be read", block)});
    co_return;
  }
  const bool is_new = request.content && ring_.places.get(block).kind == Place::Kind::unmapped;
  const Error no_room{Errc::disk_full, "there is no room for more blocks"};
  if (is_new && !capacity_.has_room(1)) {
    failed(no_room);
    co_return;
  }
  if (is_new) capacity_.begin_new_block();
  auto turn = co_await turns_.reserve(block);
  // The eviction that it waited for may have found no room. A reserved turn is used nevertheless.
  if (turn && is_new && !capacity_.has_room(0)) {
    failed(no_room);
    request.content.reset();
  }
  if (turn)
    co_await access_alone(*turn, std::move(request), Path::of_block);
  else
    failed(turn.error());
  if (is_new) capacity_.end_new_block();
  capacity_.count();
}

void RingEngine::log_again(Turn turn, BlockId block) {
  Request own{.block = block, .content = {}, .read = {}, .written = {}};
  start(access_alone(turn, std::move(own), Path::random));
}

Task<void> RingEngine::access_alone(Turn turn, Request request, Path path) {
  const BlockId block = request.block;
  co_await access_at(turn, std::move(request), path);
  turns_.release(block);
}

Task<void> RingEngine::access_at(Turn turn, Request request, Path path) {
  auto query = co_await records_.begin(turn, request.block, path);
  if (query) {
    co_await access_path(turn, std::move(*query), std::move(request));
    co_return;
  }
  if (request.read) request.read(fail(query.error()));
  if (request.written) request.written(fail(query.error()));
}

Task<void> RingEngine::access_path(Turn turn, Query query, Request request) {
  ++accesses_;
  ring_.metrics.accesses.add();
  const BlockId block = request.block;
  // The place when the query was chosen. If the block is discarded meanwhile, its version changes,
  // and what the query finds is ignored.
  const Place before = query.place;
  const Leaf shown = query.record.leaf;
  const Duration begun = ring_.now();
  auto found = co_await retriever_.retrieve(turn, std::move(query));
  ring_.metrics.retrieval_seconds.observe(ring_.now() - begun);
  if (ring_.dead) {
    if (request.read) request.read(fail(*ring_.dead));
    if (request.written) request.written(fail(*ring_.dead));
    co_return;
  }
  if (!found) did_not_open(block, before, shown);
  if (!found && !request.content && ring_.last_logged_at(turn) == block)
    found = co_await read_refilled(block);
  const bool had_content = found && found->has_value();
  const auto content_read = [&]() -> Result<Bytes> {
    if (!found) return fail(found.error());
    return had_content ? (*found)->content : Bytes(ring_.params.block_size);
  };
  if (request.read) start(deliver(std::move(request.read), content_read()));
  std::optional<Bytes> content = std::move(request.content);
  // A read preserves the mark of a block that belongs to a backup.
  Label label{.block = block, .version = 0, .leaf = {}, .backup = request.backup};
  if (!content && had_content) {
    label.backup = (*found)->label.backup;
    content = std::move((*found)->content);
  }
  // For a block that was never written, or could not be opened, the slot stays empty.
  if (!content) label = {};
  label.leaf = next_leaf(before, shown);
  if (!content) content.emplace(ring_.params.block_size);
  const Status status =
      co_await log_writer_.write(turn, label, before.version, *content, request.written);
  if (status) ring_.metrics.access_seconds.observe(ring_.now() - begun);
  if (!status && request.written) request.written(fail(status.error()));
}

/// Reads a block of the top that did not open, once it is restored from the log. For the last turn
/// that can log it again.
Task<Result<std::optional<OpenedBlock>>> RingEngine::read_refilled(BlockId block) {
  for (unsigned again = 0; !ring_.dead; ++again) {
    while (!ring_.dead && ring_.not_cached.contains(block)) {
      refill_.begin();
      co_await ring_.changed.wait();
    }
    const Place place = ring_.places.get(block);
    if (ring_.dead || place.kind != Place::Kind::top) break;  // (or it was discarded)
    auto found = co_await top_.read(block, place);
    if (found) co_return std::optional(std::move(*found));
    if (ring_.is_given_up(block)) co_return fail(std::move(found).error());
    if (again == kRestoredAgain)
      ring_.die({Errc::corrupt,
                 fmt::format("{}: the disk does not keep what is written to top.cache; no data is "
                             "given up; move the vault to another disk, then mount it again",
                             found.error().message)});
    ring_.not_cached.insert(block);
  }
  if (ring_.dead) co_return fail(*ring_.dead);
  co_return std::nullopt;
}

/// Makes sure that a block that is still where it was not found is not asked for along that path
/// again.
void RingEngine::did_not_open(BlockId block, const Place& before, Leaf shown) {
  ring_.metrics.failed_reads.add();
  if (ring_.places.get(block) != before) return;
  Place place = before;
  if (before.kind == Place::Kind::tree)
    place = {.kind = Place::Kind::lost, .version = before.version};
  if (before.kind == Place::Kind::top) place.leaf = next_leaf(before, shown);
  ring_.set_place(block, place);
  if (before.kind == Place::Kind::top)
    ring_.not_cached.insert(block);
  else
    ring_.mark_unreadable(block);
}

/// Delivers the content once the messages that the caller sends now are under way, because the
/// server must not see how long readers take, or whether one got anything.
Task<void> RingEngine::deliver(std::function<void(Result<Bytes>)> read, Result<Bytes> content) {
  co_await asio::post(ring_.environment.executor, asio::use_awaitable);
  read(std::move(content));
}

// Finishes accesses that a crash cut short, before all others, in order, with the same questions
// (Rule::access_records), except for buckets that were rewritten since.
Task<Status> RingEngine::finish_accesses(std::map<Turn, TurnRecord> records) {
  if (!rule_holds(Rule::recovery_first)) ring_.tree.written = ring_.next_turn;
  while (!ring_.dead && ring_.tree.written < ring_.next_turn) {
    const Turn turn = ring_.tree.written;
    while (!ring_.dead && turns_.must_wait(turn)) co_await ring_.changed.wait();
    const auto record = records.find(turn);
    if (record == records.end()) {
      // The turn was reserved, perhaps to log a block again in time, but had not asked for anything
      // yet.
      const BlockId again = turns_.to_log_again(turn, kNoBlock).value_or(kNoBlock);
      Request own{.block = again, .content = {}, .read = {}, .written = {}};
      co_await access_at(turn, std::move(own), Path::random);
      continue;
    }
    S3O_CO_ASSIGN(Query query, co_await records_.take_up(turn, std::move(record->second)));
    Request request{.block = query.record.block, .content = {}, .read = {}, .written = {}};
    co_await access_path(turn, std::move(query), std::move(request));
  }
  if (ring_.dead) co_return fail(*ring_.dead);
  co_return Status{};
}

/// Returns the block's next leaf. A leaf that the server has seen is not used again. A leaf that it
/// has not seen is kept, because a block's new leaf must not depend on how long the block lay in
/// the top.
Leaf RingEngine::next_leaf(const Place& place, Leaf shown) {
  return place.has_leaf() && place.leaf != shown ? place.leaf
                                                 : random_leaf(ring_.environment.random);
}

void RingEngine::forget(BlockId block) {
  ring_.mark_readable(block);
  if (ring_.places.get(block).kind != Place::Kind::unmapped) {
    ring_.set_place(block, {});
    capacity_.count();
    ring_.changed.notify_all();
  }
}

}  // namespace s3oram::ring
