// The client's part in evictions: plan, prepare, decide, commit (docs/protocol.md, "One eviction";
// Rule::decide_first).
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/client/engine.h"
#include "oramcore/client/overdue.h"

namespace s3oram {
namespace {

// Attempts whose check fails until evictions stop, but at least one for each server: each has had
// each role by then, and in a mirror of more servers than work, none.
constexpr unsigned kMostDisagreements = 3;
constexpr Duration kFollowsWithin = std::chrono::seconds(2);

// An attempt takes at most so long, and the next one twice as long. On the slowest line that an
// eviction goes over at all, some attempt is long enough.
constexpr Duration kAttemptPatience = std::chrono::minutes(10);
constexpr unsigned kMostDoublings = 6;

Task<void> end_late_attempt(Servers& servers, Bytes takers, DiscardRequest request) {
  static_cast<void>(co_await servers.ask_all(takers, MessageType::discard, encode(request)));
}

/// What it means that a server refuses its orders.
Error refused(Party server, const Error& refusal) {
  return {Errc::servers_disagree,
          fmt::format("server {} refuses its part in an eviction ({}): upgrade its "
                      "s3oramfs-serverd, if it is older than this client",
                      server, refusal.message)};
}

}  // namespace

bool Engine::eviction_due() const {
  return tree_.written >= first_write_number(tree_.tree_version + 1, params_.evict_every);
}

Task<void> Engine::evict() {
  while (!dead_ && !evictions_stopped_ && eviction_due()) {
    eviction_begun_ = environment_.clock.now();
    auto status = co_await evict_once();
    end_step();
    if (!status && !dead_) {
      if (status.error().code != Errc::servers_disagree)
        die(status.error());
      else
        stop_evictions(std::move(status).error());
    }
    if (evictions_stopped_) break;
    // Blocks that had to go to the stash return to the tree by ordinary accesses.
    for (const auto& [block, sealed] : stash_)
      if (!dead_ && !in_use(block) && !is_given_up(block)) {
        const BlockId returning = block;
        enqueue({.block = returning, .content = {}, .read = {}, .written = {}});
      }
  }
  evicting_ = false;
}

/// No server comes back between the orders of an attempt and its end: it would lack what the others
/// have prepared.
Task<void> Engine::begin_step() {
  while (!dead_ && holds_ > 0) co_await stepped_.wait();
  stepping_ = true;
}

void Engine::end_step() {
  stepping_ = false;
  stepped_.notify_all();
}

Task<Status> Engine::evict_once() {
  EvictionId id{tree_.tree_version, {}};
  unsigned disagreements = 0;
  for (unsigned tries = 0;; ++tries) {
    co_await begin_step();
    S3O_CO_ASSIGN(auto plan, co_await plan_that_fits());
    unsigned next_height = tree_.height;
    if (capacity_.wants_to_grow(params_.root_buffer_slots()) &&
        co_await capacity_.reserve(tree_.height + 1))
      ++next_height;
    environment_.random.fill(id.attempt);
    attempt_ = id;
    const std::uint64_t contents = contents_changed_;
    auto status = co_await prepare(plan, id, next_height, tries);
    if (status) status = co_await certify(plan, id);
    co_await await_decision_allowed();
    if (dead_) co_return fail(*dead_);
    if (status && (contents_changed_ != contents || zeroing_ > 0)) {
      // Some servers may have computed with a slot's old shares, others with the new ones.
      status = fail(Errc::failed, "a slot was changed meanwhile");
      S3O_CO_TRY(co_await discard_attempt(id));
    }
    if (status) {
      decide(plan, id, next_height);
      break;
    }
    if (told_of_eviction_.pass(environment_.clock.now()))
      spdlog::warn("eviction {} is tried again: {}{}", id.eviction, status.error().message,
                   told_of_eviction_.more());
    attempt_.reset();
    metrics_.eviction_retries.add();
    if (status.error().code == Errc::servers_disagree) {
      const bool last = ++disagreements == std::max(kMostDisagreements, servers_.count());
      S3O_CO_TRY(co_await after_disagreement(status.error(), last));
    }
    end_step();
    if (status.error().code == Errc::unreachable) continue;  // without the server that is away
    auto healed = co_await heal();
    if (!healed && !Servers::may_pass(healed.error().code)) co_return healed;
    co_await environment_.clock.sleep(Servers::kRetryAfter);
  }
  co_return co_await install();
}

Task<void> Engine::await_decision_allowed() {
  while (!dead_ && (healing_ || enrolling_ > 0)) {
    if (healing_)
      co_await await_healed();
    else
      co_await stepped_.wait();
  }
}

/// From here on the new tree version counts, and the next commit makes it durable. Blocks that were
/// accessed meanwhile keep their newer places.
void Engine::decide(const EvictionPlan& plan, const EvictionId& id, unsigned next_height) {
  std::set<BucketIndex> changed;
  for (const Placement& placement : plan.placements) {
    const Position position = positions_.get(placement.block);
    if (position.kind != Position::Kind::tree || position.version != placement.version) continue;
    former_[placement.block] = position;
    positions_.move(placement.block, placement.level, placement.slot, changed);
  }
  for (const BucketIndex bucket : changed) pending_.buckets[bucket] = positions_.row(bucket);
  if (next_height > tree_.height) {
    positions_.grow();
    // Both children of a leaf have its slots from now on.
    for (const BucketIndex bucket : std::set(rewritten_))
      if (level_of(bucket) == tree_.height)
        for (const unsigned side : {0u, 1u}) note_rewritten(child_of(bucket, side));
  }
  tree_ = {.tree_version = id.eviction + 1,
           .height = next_height,
           .written = tree_.written,
           .last_decided = id};
}

Task<Status> Engine::install() {
  const EvictionId id = tree_.last_decided;
  if (rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await commit_until_done());
  attempt_.reset();
  S3O_CO_TRY(co_await servers_.ask_all(in_step_.takers(), MessageType::commit,
                                       encode(CommitRequest{session_.epoch, id})));
  if (!rule_holds(Rule::decide_first)) S3O_CO_TRY(co_await commit_until_done());
  const std::uint64_t former = reading_.tree_version;
  reading_ = {tree_.tree_version, tree_.height};
  former_.clear();
  write_numbers_changed_.notify_all();
  while (!dead_ && retrieving_.contains(former)) co_await write_numbers_changed_.wait();
  if (dead_) co_return fail(*dead_);
  S3O_CO_TRY(co_await servers_.ask_all(in_step_.takers(), MessageType::release,
                                       encode(ReleaseRequest{session_.epoch, id})));
  released_tree_version_ = tree_.tree_version;
  ++evictions_;
  metrics_.evictions.add();
  const Duration took = environment_.clock.now() - eviction_begun_;
  metrics_.eviction_seconds.observe(took);
  capacity_.keep_known();
  eviction_takes_ += (took - eviction_takes_) / (eviction_takes_ == Duration::zero() ? 1 : 2);
  write_numbers_changed_.notify_all();
  co_return Status{};
}

EvictionPath Engine::path_now() const {
  EvictionPath path{
      .eviction = tree_.tree_version, .height = tree_.height, .on_path = {}, .leaf_sibling = {}};
  for (unsigned level = 0; level <= tree_.height; ++level)
    path.on_path.push_back(positions_.contents(bucket_on_path(tree_.tree_version, level)));
  const PathSlots evicted = PathSlots::evicted(params_, tree_.tree_version, tree_.height);
  std::erase_if(path.on_path[0], [&](const Resident& resident) {
    return !evicted.covers_root(resident.slot);  // written since
  });
  path.leaf_sibling =
      positions_.contents(sibling_of(bucket_on_path(tree_.tree_version, tree_.height)));
  return path;
}

Task<Result<EvictionPlan>> Engine::plan_that_fits() {
  for (;;) {
    EvictionPlan plan = plan_eviction(params_, path_now());
    if (plan.overflow.empty()) co_return plan;
    spdlog::warn("eviction {}: {} blocks do not fit into their buckets", tree_.tree_version,
                 plan.overflow.size());
    for (const std::uint64_t block : plan.overflow) S3O_CO_TRY(co_await to_stash(block));
  }
}

// Moves a block to the client's stash. Its row commits with the decision of the eviction that
// leaves the block behind. A block that cannot be read is kept unreadable, so that it harms no
// other.
Task<Status> Engine::to_stash(BlockId block) {
  const Position position = positions_.get(block);
  if (position.kind != Position::Kind::tree) co_return Status{};
  auto found = co_await retrieve(kNoWriteNumber, block, position.leaf);
  if (dead_) co_return fail(*dead_);
  // Written or discarded meanwhile.
  if (positions_.get(block).version != position.version) co_return Status{};
  keep_in_stash(block, found && found->has_value() ? &**found : nullptr);
  co_return Status{};
}

/// From the next commit on. Without `content` the block stays as unreadable as it is.
void Engine::keep_in_stash(BlockId block, const OpenedBlock* content) {
  Position position = positions_.get(block);
  Bytes sealed;
  if (content) {
    Label label = content->label;
    label.leaf = position.leaf;
    sealed = scheme_->seal(label, content->content);
  }
  position.kind = Position::Kind::stash;
  position.level = 0;
  position.slot = 0;
  set_position(block, position);
  pending_.stash[block] = sealed;
  stash_[block] = std::move(sealed);
}

/// What is there is sound: accesses go on as long as the root has room for their writes, and then
/// reads alone (read_only()).
void Engine::stop_evictions(Error reason) {
  spdlog::error("evictions stop: {}", reason.message);
  evictions_stopped_ = std::move(reason);
  write_numbers_changed_.notify_all();
}

/// A share on the path that is wrong under a right checksum spoils every attempt. All servers show
/// digests of their shares of the whole path; one that does not fit is replaced, and its server is
/// named in the log.
Task<Status> Engine::settle_path() {
  while (!dead_ && healing_) co_await await_healed();
  if (dead_) co_return fail(*dead_);
  co_await begin_healing();
  Status settled;
  const Bytes servers = in_step_.members();
  for (unsigned level = 0; settled && !dead_ && level <= tree_.height; ++level)
    settled = co_await compare_shares(bucket_on_path(tree_.tree_version, level), servers);
  end_healing();
  if (dead_) co_return fail(*dead_);
  co_return settled;
}

/// A question to all servers that take part in an eviction. One that follows is not needed, and is
/// not waited for much longer than for those in step.
struct Engine::Stage {
  Bytes members, followers;  // that have not answered yet
  Duration begun{};
};

std::shared_ptr<Engine::Stage> Engine::begin_stage() const {
  Stage stage{in_step_.members(), {}, environment_.clock.now()};
  for (const Party server : in_step_.takers())
    if (in_step_.of(server) == Standing::following) stage.followers.push_back(server);
  return std::make_shared<Stage>(std::move(stage));
}

void Engine::answered(const std::shared_ptr<Stage>& stage, Party server) {
  std::erase(stage->followers, server);
  if (std::erase(stage->members, server) > 0 && stage->members.empty() && !stage->followers.empty())
    start(drop_late(stage));
}

Task<void> Engine::drop_late(std::shared_ptr<Stage> stage) {
  constexpr Duration kLook = std::chrono::milliseconds(100);
  const Duration now = environment_.clock.now();
  const Duration until = now + std::max(kFollowsWithin, 2 * (now - stage->begun));
  while (!dead_ && !stage->followers.empty() && environment_.clock.now() < until)
    co_await environment_.clock.sleep(kLook);
  if (dead_) co_return;
  for (const Party server : stage->followers) {
    if (in_step_.of(server) != Standing::following) continue;
    spdlog::warn("server {} is too slow to follow: it is sent what it lacks later", server);
    attendance_.drop(server);
  }
}

struct Engine::CheckWork {
  bool done = false;
  Event ended;
};

/// Beside what the servers do: it takes about as long.
Task<void> Engine::expect_reports(std::shared_ptr<ReportCheck> check,
                                  std::shared_ptr<CheckWork> work) {
  co_await offload(environment_.pool, [&] {
    check->expect();
    return true;
  });
  work->done = true;
  work->ended.notify_all();
}

Task<Status> Engine::prepare(const EvictionPlan& plan, EvictionId& id, unsigned next_height,
                             unsigned tries) {
  Writer context;
  context(as_bytes("eviction orders"), session_.epoch, id.eviction, id.attempt);
  Prg prg(environment_.random.seed(), context.take());
  const bool theoretic = params_.privacy == Privacy::information_theoretic;
  Random& random = theoretic ? environment_.random : prg;
  auto orders = scheme_->orders(plan, id, tree_.height, session_.epoch, tries, in_step_, random);
  const Bytes takers = in_step_.takers();
  const auto check = rule_holds(Rule::hop_check) ? std::move(orders.check) : nullptr;
  const auto work = std::make_shared<CheckWork>();
  if (check) start(expect_reports(check, work));
  PrepareRequest request{.epoch = session_.epoch,
                         .id = id,
                         .height = static_cast<std::uint8_t>(tree_.height),
                         .next_height = static_cast<std::uint8_t>(next_height),
                         .orders = {}};
  Status outcome;
  dispute_.reset();
  const std::uint64_t contents = contents_changed_;
  auto attempt = std::make_shared<Servers::JointAttempt>();
  // A server can say that it has passed something on, and not have done it: others wait for that.
  when_overdue(environment_.clock, kAttemptPatience * (1 << std::min(tries, kMostDoublings)),
               attempt, [this, takers, id] {
                 if (!dead_) start(end_late_attempt(servers_, takers, {session_.epoch, id}));
               });
  const auto stage = begin_stage();
  std::vector<Payload> reports(servers_.count());
  auto discarded = co_await for_each_of(takers, [&](Party server) {
    request.orders = orders.messages[server - 1u];
    return prepare_at(server, encode(request), id, attempt, stage, outcome, reports[server - 1u]);
  });
  attempt.reset();
  for (auto& status : discarded) S3O_CO_TRY(status);
  if (!check) co_return outcome;
  while (!work->done) co_await work->ended.wait();
  if (!outcome) co_return outcome;
  outcome = check->verdict(reports);
  if (outcome) co_return outcome;
  dispute_ = Dispute{check, std::move(reports), contents};
  S3O_CO_TRY(co_await discard_attempt(id));
  co_return outcome;
}

Task<Status> Engine::prepare_at(Party server, Bytes message, EvictionId id,
                                std::shared_ptr<Servers::JointAttempt> attempt,
                                std::shared_ptr<Stage> stage, Status& outcome, Payload& report) {
  auto answer =
      co_await servers_.ask_once(server, PrepareRequest::kType, std::move(message), attempt);
  answered(stage, server);
  if (answer) {
    report = std::move(*answer);
    co_return Status{};
  }
  const Errc code = answer.error().code;
  const bool refuses = code == Errc::bad_request;
  if (code == Errc::fenced || code == Errc::stale_vault) die(answer.error());
  if (outcome) outcome = fail(refuses ? refused(server, answer.error()) : answer.error());
  // Others may be waiting for messages that this server will never send: end the attempt
  // everywhere.
  co_return co_await discard_attempt(id);
}

Task<Status> Engine::discard_attempt(EvictionId id) {
  co_return co_await servers_.ask_all(in_step_.takers(), MessageType::discard,
                                      encode(DiscardRequest{session_.epoch, id}));
}

// All have prepared: what a server that lies has made is fixed before it knows what it is asked.
Task<Status> Engine::certify(const EvictionPlan& plan, EvictionId id) {
  const auto check = scheme_->check(plan, id, tree_.height, session_.epoch, in_step_);
  if (!check || !rule_holds(Rule::row_check)) co_return Status{};
  const auto stage = begin_stage();
  const Bytes members = stage->members, followers = stage->followers;
  std::vector<Task<Result<CertifyAnswer>>> asked;
  for (const Party server : members)
    asked.push_back(ask_to_certify(server, check->question(server), stage));
  for (const Party server : followers)
    asked.push_back(ask_to_certify(server, check->question_of_new_rows(), stage));
  auto answers = co_await all(std::move(asked));
  if (dead_) co_return fail(*dead_);
  Status status;
  std::vector<CertifyAnswer> reports;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (answers[i])
      reports.push_back(*answers[i]);
    else
      status = fail(answers[i].error());
  if (status)
    status = co_await offload(environment_.pool, [&] { return check->verdict(members, reports); });
  if (!status) {
    S3O_CO_TRY(co_await discard_attempt(id));
    co_return status;
  }
  answers.erase(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(members.size()));
  co_return co_await certify_new_rows(id, reports.front(), followers, std::move(answers));
}

Task<Result<CertifyAnswer>> Engine::ask_to_certify(Party server, Bytes question,
                                                   std::shared_ptr<Stage> stage) {
  auto answer = co_await ask_again(server, CertifyRequest::kType, std::move(question));
  answered(stage, server);
  if (!answer) co_return fail(std::move(answer).error());
  auto report = decode<CertifyAnswer>(answer->body());
  if (!report) co_return fail(Errc::servers_disagree, "server {} answers nonsense", server);
  co_return std::move(*report);
}

/// What the servers in step have made is right. A server that follows and has made other rows, or
/// does not say which, would be in step with them later, and show a server that lies, by which
/// retrievals fail, what is asked for: the attempt ends, so that its stamp counts nowhere, and that
/// server rejoins later.
Task<Status> Engine::certify_new_rows(EvictionId id, const CertifyAnswer& right, Bytes servers,
                                      std::vector<Result<CertifyAnswer>> answers) {
  Bytes wrong;
  for (std::size_t i = 0; i < servers.size(); ++i)
    if (in_step_.of(servers[i]) == Standing::following &&
        (!answers[i] || answers[i]->sum != right.sum))
      wrong.push_back(servers[i]);
  if (wrong.empty()) co_return Status{};
  S3O_CO_TRY(co_await discard_attempt(id));
  for (const Party server : wrong) {
    if (in_step_.of(server) != Standing::following) continue;
    spdlog::error(
        "server {} follows, and does not show the rows of those in step after an eviction: it is "
        "faulty or lies, or one that sent it the rows; it is sent what it lacks later",
        server);
    attendance_.drop(server);
  }
  co_return fail(Errc::unreachable, "a server that follows made other rows");
}

}  // namespace s3oram
