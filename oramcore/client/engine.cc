#include "oramcore/client/engine.h"

#include <spdlog/spdlog.h>

#include <numeric>

#include "oramcore/base/rules.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

// Access numbers: the epoch in the upper bits makes those of a session newer than all before.
constexpr unsigned kEpochShift = 40;
constexpr unsigned kHealings = 3;        // of one path, before it is given up
constexpr std::size_t kMostToldOf = 20;  // damaged rows, in the log

}  // namespace

Engine::Engine(const ClientEnvironment& environment, const VolumeId& volume,
               const VolumeParams& params, const Seed& sealing_key, ClientState state)
    : environment_(environment),
      params_(params),
      state_(std::move(state)),
      sealer_(sealing_key, environment.random),
      servers_(environment.executor, environment.clock, environment.random, environment.transport,
               volume, params.scheme.servers),
      root_(params.bucket_size),
      intents_(params.bucket_size) {}

Engine::~Engine() = default;

Task<Status> Engine::open(Duration patience) {
  Findings findings;
  auto loaded =
      co_await offload(environment_.database, [&] { return state_.load(params_, &findings); });
  if (!loaded) co_return fail(loaded.error());
  for (std::size_t i = 0; i < std::min(findings.size(), kMostToldOf); ++i)
    spdlog::error("{}: {}", findings[i].where, findings[i].what);
  if (!findings.empty())
    spdlog::error("vault.db: {} damaged rows are left out: unmount and run s3oramfs fsck",
                  findings.size());
  tree_ = loaded->tree;
  positions_ = std::move(loaded->positions);
  stash_ = std::move(loaded->stash);

  session_.epoch = loaded->sessions.back().epoch + 1;
  environment_.random.fill(session_.nonce);
  next_access_ = (session_.epoch << kEpochShift) + 1;
  S3O_CO_TRY(
      co_await offload(environment_.database, [this] { return state_.add_session(session_); }));
  if (loaded->intents.size() > params_.bucket_size || loaded->intents.size() < tree_.written)
    loaded->intents.resize(tree_.written);
  std::copy(loaded->intents.begin(), loaded->intents.end(), intents_.begin());
  Servers::Reconcile bring_along = [this](Party server, OpenAnswer answer, Duration limit) {
    return reconcile(server, answer, limit);
  };
  auto present = [this](OpenRequest& request) {
    request.view = tree_.view;
    request.root.clear();
    for (std::uint16_t slot = 0; slot < tree_.written; ++slot)
      request.root.push_back(intents_[slot].access);
  };
  S3O_CO_TRY(co_await servers_.open(std::move(loaded->sessions), session_, std::move(present),
                                    std::move(bring_along), patience));
  S3O_CO_TRY(co_await offload(environment_.database,
                              [this] { return state_.forget_sessions_before(session_.epoch); }));

  S3O_CO_TRY(co_await finish_accesses(std::move(loaded->intents)));
  count_room();
  co_return Status{};
}

Task<Status> Engine::close(bool with_commit) {
  Status status;
  if (with_commit) status = co_await commit_now();
  if (!dead_) dead_ = Error{Errc::shutting_down, "the volume is being closed"};
  servers_.stop();
  slots_changed_.notify_all();
  while (running_ > 0 || committing_) {
    if (committing_)
      co_await committed_.wait();
    else
      co_await idle_.wait();
  }
  co_return status;
}

void Engine::die(Error reason) {
  if (dead_) return;
  spdlog::error("the volume cannot go on: {}", reason.message);
  dead_ = std::move(reason);
  servers_.stop();
  slots_changed_.notify_all();
}

EngineStatus Engine::status() const {
  EngineStatus status{.blocks = positions_.mapped(),
                      .capacity = capacity(tree_.height, params_.evict_every),
                      .accesses = accesses_,
                      .evictions = evictions_,
                      .stash = stash_.size(),
                      .uncommitted = pending_.positions.size(),
                      .height = tree_.height,
                      .answering = {}};
  for (Party server = 1; server <= servers_.count(); ++server)
    status.answering.push_back(servers_.answering(server));
  return status;
}

// ---- the device

void Engine::read(BlockId block, std::function<void(Result<Bytes>)> done) {
  asio::post(environment_.executor, [this, block, done = std::move(done)]() mutable {
    enqueue({.block = block, .content = {}, .read = std::move(done), .written = {}});
  });
}

void Engine::write(BlockId block, Bytes content, std::function<void(Status)> done) {
  asio::post(environment_.executor, [this, block, content = std::move(content),
                                     done = std::move(done)]() mutable {
    enqueue(
        {.block = block, .content = std::move(content), .read = {}, .written = std::move(done)});
  });
}

void Engine::discard(BlockId block) {
  asio::post(environment_.executor, [this, block] {
    enqueue({.block = block, .discard = true, .content = {}, .read = {}, .written = {}});
  });
}

// ---- accesses

// At most one access to a block is in flight; others wait for it in order.
void Engine::enqueue(Request request) {
  const BlockId block = request.block;
  const auto [queue, first] = queues_.try_emplace(block);
  if (first && request.discard) {
    queues_.erase(queue);
    forget(block);
    return;
  }
  queue->second.push_back(std::move(request));
  if (first) spawn(environment_.executor, serve_block(block));
}

Task<void> Engine::serve_block(BlockId block) {
  ++running_;
  auto& queue = queues_[block];
  while (!queue.empty()) {
    Request request = std::move(queue.front());
    queue.pop_front();
    if (request.discard)
      forget(block);
    else
      co_await access(std::move(request));
  }
  queues_.erase(block);
  if (--running_ == 0) idle_.notify_all();
}

void Engine::forget(BlockId block) {
  unreadable_.erase(block);
  if (positions_.get(block).kind == Position::Kind::unmapped) return;
  positions_.set(block, {});
  pending_.positions[block].reset();
  if (stash_.erase(block) > 0) pending_.stash[block].reset();
  count_room();
}

// Protocol 2. A write retrieves too, before it writes: from outside they are the same.
Task<void> Engine::access(Request request) {
  const auto failed = [&request](Error error) {
    if (request.read) std::exchange(request.read, {})(fail(error));
    if (request.written) std::exchange(request.written, {})(fail(std::move(error)));
  };
  const BlockId block = request.block;
  if (!request.content && unreadable_.contains(block)) {
    failed({Errc::corrupt, fmt::format("block {} cannot be read", block)});
    co_return;
  }
  const bool is_new = request.content && positions_.get(block).kind == Position::Kind::unmapped;
  const Error no_room{Errc::disk_full, "there is no room for more blocks"};
  if (is_new && !has_room(1)) {
    failed(no_room);
    co_return;
  }
  new_blocks_ += is_new;
  auto slot = co_await reserve_slot();
  // The eviction that it waited for may have found none. A reserved slot is used all the same.
  if (slot && is_new && !has_room(0)) {
    failed(no_room);
    request.content.reset();
  }
  Status intended;
  Leaf leaf = 0;
  if (slot) {
    leaf = leaf_of(block);
    intended = co_await intend(*slot, block, leaf);
  } else {
    intended = fail(slot.error());
  }
  if (intended)
    co_await access_path(*slot, leaf, std::move(request));
  else
    failed(intended.error());
  new_blocks_ -= is_new;
  count_room();
}

Task<void> Engine::access_path(std::uint16_t slot, Leaf leaf, Request request) {
  ++accesses_;
  const BlockId block = request.block;
  const std::uint64_t replaces = positions_.get(block).version;
  auto found = co_await retrieve(block, leaf);
  if (!found && !dead_) unreadable_.insert(block);
  if (request.read && !found) request.read(fail(dead_ ? *dead_ : found.error()));
  if (dead_) {
    if (request.written) request.written(fail(*dead_));
    co_return;
  }
  const bool had_content = found && found->has_value();
  if (request.read && found)
    request.read(had_content ? Result<Bytes>(**found) : Result<Bytes>(Bytes(params_.block_size)));
  std::optional<Bytes> content = std::move(request.content);
  if (!content && had_content) content = std::move(**found);
  // What was never written, or could not be opened, leaves an empty slot behind.
  const BlockId kept = content ? block : kNoBlock;
  if (!content) content.emplace(params_.block_size);
  const Status status = co_await write_root(slot, kept, replaces, *content, request.written);
  if (status && kept != kNoBlock) unreadable_.erase(block);
  if (!status && request.written) request.written(fail(status.error()));
}

// Rules 3 and 4: accesses that a crash cut short are finished first, in order, on the same paths.
// Their root slots are written anew, by newer accesses, before a retrieval covers them.
Task<Status> Engine::finish_accesses(std::vector<Intent> intents) {
  evicting_ = true;  // not now
  if (!rule_holds(Rule::recovery_first))
    tree_.written = std::max(tree_.written, static_cast<std::uint16_t>(intents.size()));
  for (std::size_t slot = tree_.written; slot < intents.size() && !dead_; ++slot) {
    Request request{.block = intents[slot].block, .content = {}, .read = {}, .written = {}};
    co_await access_path(static_cast<std::uint16_t>(slot), intents[slot].leaf, std::move(request));
  }
  if (dead_) co_return fail(*dead_);
  evicting_ = false;
  next_slot_ = tree_.written;
  if (next_slot_ >= params_.evict_every) {
    evicting_ = true;
    spawn(environment_.executor, evict());
  }
  co_return Status{};
}

Task<Result<std::uint16_t>> Engine::reserve_slot() {
  while (!dead_ && (evicting_ || next_slot_ >= params_.evict_every)) co_await slots_changed_.wait();
  if (dead_) co_return fail(*dead_);
  co_return next_slot_++;
}

/// The path to ask for: that of the block, or any.
Leaf Engine::leaf_of(BlockId block) {
  const Position position = positions_.get(block);
  return position.kind == Position::Kind::tree ? position.leaf : random_leaf(environment_.random);
}

// Rule 4: nothing is asked for before this is durable.
Task<Status> Engine::intend(std::uint16_t slot, BlockId block, Leaf leaf) {
  intents_[slot] = {.view = tree_.view, .block = block, .leaf = leaf};
  pending_.intents[slot] = intents_[slot];
  if (!rule_holds(Rule::intents)) co_return Status{};
  co_return co_await commit_until_done();
}

// Subroutine 1. Nothing for a block that is not on the path: then the query selects no slot.
Task<Result<std::optional<Bytes>>> Engine::retrieve(BlockId block, Leaf leaf) {
  const Position position = positions_.get(block);
  const bool in_tree = position.kind == Position::Kind::tree && position.leaf == leaf;
  const std::size_t z = params_.bucket_size;
  const std::size_t slots = tree_.written + tree_.height * z;
  std::size_t index = slots;
  if (in_tree)
    index = position.level == 0 ? position.slot
                                : tree_.written + (position.level - 1) * z + position.slot;
  auto slot = co_await inner_product(leaf, slots, index);
  if (!slot) co_return fail(slot.error());
  if (position.kind == Position::Kind::stash)
    *slot = stash_.at(block);
  else if (!in_tree)
    co_return std::nullopt;
  auto opened = sealer_.open(*slot);
  if (!opened || opened->block != block || opened->version != position.version) {
    spdlog::error("block {}: {}", block,
                  opened ? "another block or version came back" : opened.error().message);
    co_return fail(Errc::corrupt,
                   "block {} could not be read: a server's share is damaged or altered", block);
  }
  co_return std::optional<Bytes>(std::move(opened->content));
}

/// Slot `index` of the path's `slots` (or zeros), from all servers. Damaged slots on the path are
/// healed first.
Task<Result<Bytes>> Engine::inner_product(Leaf leaf, std::size_t slots, std::size_t index) {
  RetrieveRequest request{.epoch = session_.epoch,
                          .view = tree_.view,
                          .height = static_cast<std::uint8_t>(tree_.height),
                          .written = static_cast<std::uint16_t>(
                              slots - tree_.height * std::size_t{params_.bucket_size}),
                          .leaf = leaf & ((Leaf{1} << tree_.height) - 1),
                          .query = {}};
  for (unsigned tries = 0;; ++tries) {
    Prg prg(environment_.random.seed(), as_view("select"));
    const auto queries = create_query(params_.scheme, slots, index, prg);
    auto answers = co_await for_all(servers_.count(), [&](Party server) {
      request.query = queries[server - 1];
      return servers_.ask(server, RetrieveRequest::kType, encode(request));
    });
    std::optional<Error> error;
    for (auto& answer : answers)
      if (!answer && (!error || error->code == Errc::corrupt)) error = answer.error();
    if (!error) {
      const std::size_t quorum = params_.scheme.quorum();
      Bytes points(quorum);
      std::iota(points.begin(), points.end(), std::uint8_t{1});
      std::vector<View> shares;
      for (std::size_t i = 0; i < quorum; ++i) shares.push_back(answers[i]->body());
      for (const View share : shares)
        if (share.size() != params_.slot_size())
          co_return fail(Errc::corrupt, "a server's answer has a wrong size");
      co_return recover(points, shares);
    }
    if (error->code != Errc::corrupt) die(*error);
    if (dead_ || tries == kHealings) co_return fail(*error);
    S3O_CO_TRY(co_await heal());
  }
}

// Protocol 2, steps 2 to 10: fresh shares into the next root slot, and a fresh leaf.
Task<Status> Engine::write_root(std::uint16_t slot, BlockId block, std::uint64_t replaces,
                                View content, std::function<void(Status)> written) {
  const std::uint64_t access = next_access_++;
  const Bytes sealed = sealer_.seal(block, access, content);
  Prg prg(environment_.random.seed(), as_view("root write"));
  const auto shares = create_shares(params_.scheme, sealed, prg);
  WriteRootRequest request{
      .epoch = session_.epoch, .view = tree_.view, .slot = slot, .access = access, .share = {}};
  const Leaf leaf = random_leaf(environment_.random);
  const auto acknowledged = [&] {
    root_[slot] = {.acknowledged = true,
                   .block = block,
                   .replaces = replaces,
                   .leaf = leaf,
                   .version = access,
                   .written = std::move(written)};
  };
  if (!rule_holds(Rule::acknowledged_positions)) {
    acknowledged();
    acknowledge_in_order();
  }
  auto answers = co_await for_all(servers_.count(), [&](Party server) {
    request.share = shares[server - 1];
    return servers_.ask(server, WriteRootRequest::kType, encode(request));
  });
  for (auto& answer : answers) {
    if (answer) continue;
    // The slot stays unacknowledged for ever, and with it all that follow.
    die(answer.error());
    co_return fail(*dead_);
  }
  if (dead_) co_return fail(*dead_);
  if (rule_holds(Rule::acknowledged_positions)) acknowledged();
  const std::uint64_t view = tree_.view;
  const auto counts = [&] { return tree_.view != view || tree_.written > slot; };
  acknowledge_in_order();
  while (!dead_ && !counts()) co_await slots_changed_.wait();
  if (!counts()) co_return fail(*dead_);
  co_return Status{};
}

// A retrieval covers the root slots before `written`, so they count in their order.
void Engine::acknowledge_in_order() {
  const bool pulling_up = evicting_;
  while (tree_.written < root_.size() && root_[tree_.written].acknowledged) {
    RootWrite write = std::exchange(root_[tree_.written], {});
    intents_[tree_.written].access = write.version;
    pending_.intents[tree_.written] = intents_[tree_.written];
    if (write.block != kNoBlock && positions_.get(write.block).version == write.replaces)
      set_position(write.block, {.kind = Position::Kind::tree,
                                 .leaf = write.leaf,
                                 .level = 0,
                                 .slot = tree_.written,
                                 .version = write.version});
    ++tree_.written;
    if (write.written) write.written({});
  }
  slots_changed_.notify_all();
  if (!pulling_up && tree_.written >= params_.evict_every) {
    evicting_ = true;
    spawn(environment_.executor, evict());
  }
}

void Engine::set_position(BlockId block, const Position& position) {
  if (positions_.get(block).kind == Position::Kind::stash &&
      position.kind != Position::Kind::stash) {
    stash_.erase(block);
    pending_.stash[block].reset();
  }
  positions_.set(block, position);
  pending_.positions[block] =
      StateChanges::Row{PositionMap::pack(position, tree_.height), position.version};
}

}  // namespace s3oram
