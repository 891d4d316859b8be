// Runs evictions, from the plan to the release of the previous tree version.
#include "oramcore/client/eviction_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

// Evictions stop after this many attempts whose check fails, but not before there was one for each
// server: by then each server has had each role and, in a mirror with more servers than workers,
// has been without one.
constexpr unsigned kMostDisagreements = 3;
// They also stop after this many attempts that took too long although all servers were there, and
// after this many in succession that failed because of damage that no server reports when asked.
constexpr unsigned kMostLate = 4, kMostInVain = 10;

}  // namespace

/// How often one eviction has failed for a reason that an honest server does not give again and
/// again.
struct EvictionLoop::Failures {
  unsigned disagreements = 0, withheld = 0, in_vain = 0;
};

EvictionLoop::EvictionLoop(VolumeState& state, Committer& committer, Capacity& capacity,
                           HealingTurn& turn, Healer& healer, Retriever& retriever,
                           EvictionGate& gate, Preparer preparer, Arbiter arbiter, Marker marker,
                           std::function<void(BlockId)> return_to_tree)
    : state_(state),
      committer_(committer),
      capacity_(capacity),
      turn_(turn),
      healer_(healer),
      retriever_(retriever),
      gate_(gate),
      preparer_(std::move(preparer)),
      arbiter_(std::move(arbiter)),
      marker_(std::move(marker)),
      return_to_tree_(std::move(return_to_tree)) {}

void EvictionLoop::hold_back() {
  evicting_ = true;
  begun_ = state_.now();
}

void EvictionLoop::begin_if_due() {
  if (!may_evict_ || stopped_ || evicting_ || !is_due()) return;
  evicting_ = true;
  state_.start(evict());
}

bool EvictionLoop::is_due() const {
  return state_.tree.written >=
         first_write_number(state_.tree.tree_version + 1, state_.params.evict_every);
}

Task<void> EvictionLoop::evict() {
  while (!state_.dead && !stopped_ && is_due()) {
    begun_ = state_.now();
    auto status = co_await evict_once();
    gate_.end_attempt();
    if (!status && !state_.dead) {
      if (status.error().code != Errc::servers_disagree)
        state_.die(status.error());
      else
        stop(std::move(status).error());
    }
    if (stopped_) break;
    // Blocks that had to go to the stash return to the tree by ordinary accesses.
    for (const auto& [block, sealed] : state_.stash)
      if (!state_.dead && !state_.is_given_up(block)) return_to_tree_(block);
  }
  evicting_ = false;
}

Task<Status> EvictionLoop::evict_once() {
  EvictionId id{state_.tree.tree_version, {}};
  Failures failures;
  for (unsigned tries = 0;; ++tries) {
    co_await gate_.begin_attempt();
    S3O_CO_ASSIGN(auto plan, co_await plan_that_fits());
    unsigned next_height = state_.tree.height;
    if (capacity_.wants_to_grow(state_.params.root_buffer_slots()) &&
        co_await capacity_.reserve(state_.tree.height + 1))
      ++next_height;
    state_.environment.random.fill(id.attempt);
    attempt_ = id;
    const std::uint64_t contents = state_.contents.changed;
    auto status = co_await preparer_.prepare(plan, id, next_height, tries);
    if (status) status = co_await preparer_.certify(plan, id);
    std::map<BucketIndex, MarkRow> marks;
    if (status) marks = co_await marker_.collect(id);
    co_await await_decision_allowed();
    if (state_.dead) co_return fail(*state_.dead);
    if (status && (state_.contents.changed != contents || state_.contents.zeroing > 0 ||
                   !state_.repairs.unproven.empty() || !state_.refreshes.empty())) {
      // Some servers may have computed with a slot's old shares, others with the new ones, or with
      // shares that nobody has proven.
      status = fail(Errc::failed, "a slot was changed meanwhile");
      S3O_CO_TRY(co_await preparer_.discard(id));
    }
    if (status) {
      decide(plan, id, next_height, std::move(marks));
      break;
    }
    if (told_.pass(state_.now()))
      spdlog::warn("eviction {} is tried again: {}{}", id.eviction, status.error().message,
                   told_.more());
    attempt_.reset();
    state_.metrics.eviction_retries.add();
    S3O_CO_TRY(co_await after_failure(status.error(), failures));
  }
  co_return co_await install();
}

/// Prepares for the next attempt. Errors: servers_disagree (there must be no other one) ...
Task<Status> EvictionLoop::after_failure(Error why, Failures& failures) {
  if (why.code == Errc::servers_disagree) {
    const bool last =
        ++failures.disagreements == std::max(kMostDisagreements, state_.servers.count());
    S3O_CO_TRY(co_await arbiter_.after_disagreement(why, preparer_.take_dispute(), last));
  }
  gate_.end_attempt();
  if (preparer_.was_withheld() && ++failures.withheld == kMostLate)
    co_return fail(Errc::servers_disagree,
                   "{} attempts at an eviction did not end in time although all servers are there: "
                   "one of them is faulty or lies, and does not pass on what the others wait for, "
                   "or a line between them is very slow",
                   kMostLate);
  if (why.code == Errc::unreachable) co_return Status{};  // without the server that is away
  const auto mended = [this] {
    return state_.metrics.healed_slots.value() + state_.contents.changed;
  };
  const std::uint64_t before = mended();
  auto healed = co_await healer_.heal();
  if (!healed && !Troubles::may_pass(healed.error().code)) co_return healed;
  const bool in_vain = why.code == Errc::corrupt && healed && mended() == before;
  failures.in_vain = in_vain ? failures.in_vain + 1 : 0;
  if (failures.in_vain == kMostInVain)
    co_return fail(Errc::servers_disagree,
                   "{} attempts at an eviction failed, and no server reports damage: one of the "
                   "servers is faulty or lies ({})",
                   kMostInVain, why.message);
  co_await state_.environment.clock.sleep(Servers::kRetryAfter);
  co_return Status{};
}

Task<void> EvictionLoop::await_decision_allowed() {
  while (!state_.dead && (turn_.under_way() || gate_.enrolling())) {
    if (turn_.under_way())
      co_await turn_.await_end();
    else
      co_await gate_.wait();
  }
}

Task<Result<EvictionPlan>> EvictionLoop::plan_that_fits() {
  for (;;) {
    EvictionPlan plan = plan_eviction(state_.params, path_now());
    if (plan.overflow.empty()) co_return plan;
    spdlog::warn("eviction {}: {} blocks do not fit into their buckets", state_.tree.tree_version,
                 plan.overflow.size());
    for (const std::uint64_t block : plan.overflow) S3O_CO_TRY(co_await to_stash(block));
  }
}

EvictionPath EvictionLoop::path_now() const {
  EvictionPath path{.eviction = state_.tree.tree_version,
                    .height = state_.tree.height,
                    .on_path = {},
                    .leaf_sibling = {}};
  for (unsigned level = 0; level <= state_.tree.height; ++level)
    path.on_path.push_back(
        state_.positions.contents(bucket_on_path(state_.tree.tree_version, level)));
  const PathSlots evicted =
      PathSlots::evicted(state_.params, state_.tree.tree_version, state_.tree.height);
  std::erase_if(path.on_path[0], [&](const Resident& resident) {
    return !evicted.covers_root(resident.slot);  // written since
  });
  path.leaf_sibling = state_.positions.contents(
      sibling_of(bucket_on_path(state_.tree.tree_version, state_.tree.height)));
  return path;
}

// Moves a block to the client's stash. Its row commits with the decision of the eviction that does
// not place the block. A block that cannot be read moves too, and stays unreadable, so that it
// harms no other block.
Task<Status> EvictionLoop::to_stash(BlockId block) {
  const Position position = state_.positions.get(block);
  if (position.kind != Position::Kind::tree) co_return Status{};
  auto found = co_await retriever_.retrieve(kNoWriteNumber, block, position.leaf);
  if (state_.dead) co_return fail(*state_.dead);
  // The block was written or discarded meanwhile.
  if (state_.positions.get(block).version != position.version) co_return Status{};
  state_.keep_in_stash(block, found && found->has_value() ? &**found : nullptr);
  co_return Status{};
}

/// Makes the new tree version count from here on; the next commit makes it durable. Blocks that
/// were accessed meanwhile keep their newer places.
void EvictionLoop::decide(const EvictionPlan& plan, const EvictionId& id, unsigned next_height,
                          std::map<BucketIndex, MarkRow> marks) {
  std::set<BucketIndex> changed;
  for (const Placement& placement : plan.placements) {
    const Position position = state_.positions.get(placement.block);
    if (position.kind != Position::Kind::tree || position.version != placement.version) continue;
    state_.versions.former[placement.block] = position;
    state_.positions.move(placement.block, placement.level, placement.slot, changed);
  }
  for (const BucketIndex bucket : changed)
    state_.pending.buckets[bucket] = state_.positions.row(bucket);
  for (auto& [bucket, row] : marks) state_.pending.marks[bucket] = std::move(row);
  if (next_height > state_.tree.height) {
    state_.positions.grow();
    // From now on both children of a leaf have its slots.
    for (const BucketIndex bucket : std::set(state_.rewritten))
      if (level_of(bucket) == state_.tree.height)
        for (const unsigned side : {0u, 1u}) state_.note_rewritten(child_of(bucket, side));
  }
  state_.tree = {.tree_version = id.eviction + 1,
                 .height = next_height,
                 .written = state_.tree.written,
                 .last_decided = id};
}

Task<Status> EvictionLoop::install() {
  const EvictionId id = state_.tree.last_decided;
  if (rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await committer_.commit_until_done());
  attempt_.reset();
  S3O_CO_TRY(co_await preparer_.tell_all(MessageType::commit,
                                         encode(CommitRequest{state_.session.epoch, id})));
  if (!rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await committer_.commit_until_done());
  const std::uint64_t former = state_.versions.read.tree_version;
  state_.versions.read = {state_.tree.tree_version, state_.tree.height};
  state_.versions.former.clear();
  state_.changed.notify_all();
  while (!state_.dead && state_.versions.under_way.contains(former)) co_await state_.changed.wait();
  if (state_.dead) co_return fail(*state_.dead);
  S3O_CO_TRY(co_await preparer_.tell_all(MessageType::release,
                                         encode(ReleaseRequest{state_.session.epoch, id})));
  state_.versions.released = state_.tree.tree_version;
  ++evictions_;
  state_.metrics.evictions.add();
  const Duration took = state_.now() - begun_;
  state_.metrics.eviction_seconds.observe(took);
  capacity_.keep_known();
  takes_ += (took - takes_) / (takes_ == Duration::zero() ? 1 : 2);
  state_.changed.notify_all();
  co_return Status{};
}

/// Stops evictions. The stored data is sound, so accesses continue as long as the root has room for
/// their writes, and after that only reads (Engine::read_only()).
void EvictionLoop::stop(Error reason) {
  spdlog::error("evictions stop: {}", reason.message);
  stopped_ = std::move(reason);
  state_.changed.notify_all();
}

}  // namespace s3oram
