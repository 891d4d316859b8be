// The client's part in evictions: plan, prepare, decide, commit (3-durability.md, rules 5 to 7).
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/client/engine.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr Duration kRetryAfter = std::chrono::seconds(1);

}  // namespace

Task<void> Engine::evict() {
  ++running_;
  auto status = co_await evict_once();
  if (!status && !dead_) die(status.error());
  evicting_ = false;
  slots_changed_.notify_all();
  // Blocks that had to go to the stash return to the tree by ordinary accesses.
  for (const auto& [block, sealed] : stash_)
    if (!dead_ && !queues_.contains(block) && !unreadable_.contains(block)) {
      const BlockId returning = block;
      enqueue({.block = returning, .content = {}, .read = {}, .written = {}});
    }
  if (--running_ == 0) idle_.notify_all();
}

Task<Status> Engine::evict_once() {
  const unsigned height = tree_.height;
  EvictionPath path;
  EvictionId id{tree_.view, {}};
  unsigned next_height = height;
  for (bool prepared = false; !prepared;) {
    auto plan = co_await plan_that_fits(path);
    if (!plan) co_return fail(plan.error());
    next_height = height;
    if (wants_to_grow() && co_await reserve(height + 1)) next_height = height + 1;
    environment_.random.fill(id.attempt);
    attempt_ = id;
    auto status = co_await prepare(*plan, id, next_height);
    if (dead_) co_return fail(*dead_);
    if (status) {
      // Decide: from here on the new view is the truth, and the commit makes it so for good.
      for (const Placement& placement : plan->placements) {
        Position position = positions_.get(placement.block);
        if (position.kind != Position::Kind::tree) continue;  // discarded meanwhile
        position.level = placement.level;
        position.slot = placement.slot;
        set_position(placement.block, position);
      }
      prepared = true;
    } else {
      spdlog::warn("eviction {} is tried again: {}", id.eviction, status.error().message);
      attempt_.reset();
      S3O_CO_TRY(co_await heal());
      co_await environment_.clock.sleep(kRetryAfter);
    }
  }
  if (next_height > height) positions_.grow();
  tree_ = {.view = id.eviction + 1, .height = next_height, .written = 0, .last_decided = id};
  attempt_.reset();
  next_slot_ = 0;
  if (rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await commit_until_done());
  S3O_CO_TRY(
      co_await servers_.ask_all(MessageType::commit, encode(CommitRequest{session_.epoch, id})));
  if (!rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await commit_until_done());
  S3O_CO_TRY(
      co_await servers_.ask_all(MessageType::release, encode(ReleaseRequest{session_.epoch, id})));
  ++evictions_;
  co_return Status{};
}

EvictionPath Engine::path_now() const {
  EvictionPath path{.eviction = tree_.view,
                    .height = tree_.height,
                    .bucket_size = params_.bucket_size,
                    .on_path = {},
                    .leaf_sibling = {}};
  for (unsigned level = 0; level <= tree_.height; ++level)
    path.on_path.push_back(positions_.contents(bucket_on_path(tree_.view, level)));
  path.leaf_sibling = positions_.contents(sibling_of(bucket_on_path(tree_.view, tree_.height)));
  return path;
}

Task<Result<EvictionPlan>> Engine::plan_that_fits(EvictionPath& path) {
  for (;;) {
    path = path_now();
    EvictionPlan plan = plan_triplet_eviction(path);
    if (plan.overflow.empty()) co_return plan;
    S3O_CO_TRY(co_await make_room(plan.overflow));
  }
}

// Ordinary accesses pull the blocks up into the Z - A root slots kept for that; then the stash.
Task<Status> Engine::make_room(const std::vector<std::uint64_t>& overflow) {
  spdlog::warn("eviction {}: {} blocks do not fit into their buckets", tree_.view, overflow.size());
  for (const std::uint64_t block : overflow) {
    const Position position = positions_.get(block);
    if (position.kind != Position::Kind::tree) continue;  // discarded meanwhile
    if (next_slot_ >= params_.bucket_size) {
      S3O_CO_TRY(co_await to_stash(block));
      continue;
    }
    const std::uint16_t slot = next_slot_++;
    S3O_CO_TRY(co_await intend(slot, block, position.leaf));
    Request request{.block = block, .content = {}, .read = {}, .written = {}};
    co_await access_path(slot, position.leaf, std::move(request));
    if (dead_) co_return fail(*dead_);
    if (unreadable_.contains(block)) S3O_CO_TRY(co_await to_stash(block));
  }
  co_return Status{};
}

// The stash row commits with the decision of the eviction that leaves the block behind. A block
// that cannot be read is kept in the stash as it is, unreadable, so that it harms no other.
Task<Status> Engine::to_stash(BlockId block) {
  Position position = positions_.get(block);
  if (position.kind != Position::Kind::tree) co_return Status{};
  auto found = co_await retrieve(block, position.leaf);
  if (dead_) co_return fail(*dead_);
  if (positions_.get(block).version != position.version) co_return Status{};  // discarded meanwhile
  Bytes sealed;
  if (found && found->has_value()) sealed = sealer_.seal(block, position.version, **found);
  position.kind = Position::Kind::stash;
  position.level = 0;
  position.slot = 0;
  set_position(block, position);
  pending_.stash[block] = sealed;
  stash_[block] = std::move(sealed);
  co_return Status{};
}

Task<Status> Engine::prepare(const EvictionPlan& plan, EvictionId& id, unsigned next_height) {
  const std::size_t z = params_.bucket_size;
  const std::size_t matrix = 2 * z * z;
  // All shares of one step lie one behind the other in each server's message.
  Bytes ones(plan.steps.size() * matrix);
  for (std::size_t step = 0; step < plan.steps.size(); ++step)
    for (const MatrixStep::Move& move : plan.steps[step].moves)
      ones[step * matrix + move.from * z + move.to] = 1;
  Writer context;
  context(as_view("matrices"), session_.epoch, id.eviction, id.attempt);
  Prg prg(environment_.random.seed(), context.take());
  const auto shares = create_shares(params_.scheme, ones, prg);
  PrepareRequest request{.epoch = session_.epoch,
                         .id = id,
                         .height = static_cast<std::uint8_t>(tree_.height),
                         .next_height = static_cast<std::uint8_t>(next_height),
                         .written = tree_.written,
                         .matrices = {}};
  Status outcome;
  auto discarded = co_await for_all(servers_.count(), [&](Party server) {
    request.matrices = shares[server - 1];
    return prepare_at(server, encode(request), id, outcome);
  });
  for (auto& status : discarded) S3O_CO_TRY(status);
  co_return outcome;
}

Task<Status> Engine::prepare_at(Party server, Bytes message, EvictionId id, Status& outcome) {
  auto answer = co_await servers_.ask_once(server, PrepareRequest::kType, std::move(message));
  if (answer) co_return Status{};
  const Errc code = answer.error().code;
  if (code == Errc::fenced || code == Errc::stale_vault || code == Errc::bad_request)
    die(answer.error());
  if (outcome)
    outcome = fail(Error{code, fmt::format("server {}: {}", server, answer.error().message)});
  // The others may be waiting for what this one will never send: the attempt ends everywhere.
  co_return co_await servers_.ask_all(MessageType::discard,
                                      encode(DiscardRequest{session_.epoch, id}));
}

// Brings a server that has just opened the session to our view. Our database decides.
Task<Status> Engine::reconcile(Party server, OpenAnswer answer, Duration patience) {
  const auto tell = [&](MessageType type, const EvictionId& id) {
    Writer writer(Rpc::kHeaderSize);
    writer(session_.epoch, id);
    return servers_.rpc().call(server, type, writer.take(), patience);
  };
  if (answer.view > tree_.view)
    co_return fail(Errc::stale_vault,
                   "server {} has seen {} evictions and this vault {}: it is an old copy; use the "
                   "newest one",
                   server, answer.view, tree_.view);
  if (answer.view + 1 == tree_.view && answer.prepared == tree_.last_decided) {
    auto committed = co_await tell(MessageType::commit, tree_.last_decided);
    if (!committed) co_return fail(committed.error());
    co_return Status{};
  }
  if (answer.view != tree_.view)
    co_return fail(Errc::wrong_volume,
                   "server {} has lost evictions {} to {}: its store was set back to an old state",
                   server, answer.view, tree_.view - 1);
  if (answer.prepared && answer.prepared != attempt_) {
    auto discarded = co_await tell(MessageType::discard, *answer.prepared);
    if (!discarded) co_return fail(discarded.error());
  }
  co_return Status{};
}

}  // namespace s3oram
