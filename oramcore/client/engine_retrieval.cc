// Retrievals (Subroutine 1): get one slot of a path from all servers, in a tree version that they
// all hold.
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "oramcore/client/agreement.h"
#include "oramcore/client/engine.h"
#include "oramcore/client/overdue.h"
#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {
namespace {

// How often one path is healed before it is given up: in vain, and at all. If much is damaged, the
// healing of other paths may go before this one again and again.
constexpr unsigned kVainHealings = 3, kHealings = 200;

/// Returns the error to act on: one that is final, then one that a newer tree version mends, then
/// one that healing mends, then one that passes.
Error gravest(const std::vector<Result<Payload>>& answers) {
  const auto gravity = [](const Error& error) {
    if (error.code == Errc::need_open || error.code == Errc::unreachable) return 1;
    if (Servers::may_pass(error.code)) return 0;
    return error.code == Errc::corrupt ? 2 : error.code == Errc::former_view ? 3 : 4;
  };
  std::optional<Error> found;
  for (const auto& answer : answers)
    if (!answer && (!found || gravity(answer.error()) > gravity(*found))) found = answer.error();
  return *found;
}

// Longer than any sum takes that is still under way.
constexpr Duration kSumPatience = std::chrono::minutes(1);

/// Ends an attempt at the aggregator.
Task<void> withdraw(Servers& servers, Party aggregator, WithdrawRequest request) {
  static_cast<void>(co_await servers.ask(aggregator, WithdrawRequest::kType, encode(request)));
}

/// An answer of another size is a wrong answer like any other.
Bytes of_size(ByteSpan answer, std::size_t size) {
  Bytes bytes(answer.begin(), answer.end());
  bytes.resize(size);
  return bytes;
}

}  // namespace

/// What an answer is worth: opened once, whatever it is for, so that all take as long.
struct Engine::Judgement {
  bool right = false;
  Result<OpenedBlock> opened = fail(Errc::corrupt, "no answer");
};

/// std::nullopt for a block that is not on the path: then the query selects no slot, and the answer
/// must be zeros. A block in the stash needs none. A wrong answer is asked for once more, in fresh
/// shares, and is then looked up in the servers' raw shares of the path; all of that is the same
/// whatever block it is for, and whether it is for one at all.
Task<Result<std::optional<OpenedBlock>>> Engine::retrieve(WriteNumber write_number, BlockId block,
                                                          Leaf leaf) {
  auto answer = co_await inner_product(write_number, block, leaf);
  if (!answer && !dead_) {
    spdlog::error(
        "a server does not answer as it should: the servers' shares are read one by one; {}",
        answer.error().message);
    answer = co_await read_raw(block, leaf);
  }
  auto judged = co_await judge(block, answer ? &*answer : nullptr);
  for (unsigned again = 0; answer && !judged.right && !dead_; ++again) {
    spdlog::error("the servers' answer is wrong: one of them is faulty or lies; {}",
                  again == 0   ? "they are asked again"
                  : again == 1 ? "their shares are read one by one"
                               : "more than one of them");
    metrics_.wrong_answers.add();
    if (again == 2) break;  // the shares of two servers are wrong
    if (again == 0)
      answer = co_await inner_product(write_number, block, leaf);
    else
      answer = co_await read_raw(block, leaf);
    judged = co_await judge(block, answer ? &*answer : nullptr);
  }
  const bool in_stash = positions_.get(block).kind == Position::Kind::stash && !dead_;
  if (!answer && !in_stash) co_return fail(answer.error());
  if (!is_found_by(leaf, block)) co_return std::nullopt;
  if (!judged.opened || !is_newest(block, judged.opened->label))
    co_return fail(Errc::corrupt,
                   "block {} could not be read: a server's share is damaged or altered", block);
  co_return std::optional<OpenedBlock>(std::move(*judged.opened));
}

bool Engine::is_newest(BlockId block, const Label& label) const {
  return label.block == block && label.version == positions_.get(block).version;
}

/// Opens the block in the answer, or that in the stash, or else something that takes as long: the
/// aggregator sees when the root write follows its answer. Also right if it cannot be told any
/// more, because the block was discarded meanwhile.
Task<Engine::Judgement> Engine::judge(BlockId block, const PathAnswer* answer) {
  const bool selected = answer && answer->selected;
  const bool in_stash = positions_.get(block).kind == Position::Kind::stash && !dead_;
  const Bytes& kept = in_stash && !stash_.at(block).empty() ? stash_.at(block) : blank_;
  const Bytes slot = in_stash ? kept : selected ? answer->slot : blank_;
  Judgement judged;
  judged.opened = co_await offload(environment_.pool, scheme_->work_to_open(),
                                   [&] { return scheme_->open(slot); });
  if (!answer) co_return judged;
  if (!selected)
    judged.right = !rule_holds(Rule::zero_answers) || is_zero(answer->slot);
  else
    judged.right = positions_.get(block).kind == Position::Kind::unmapped || in_stash ||
                   (judged.opened && is_newest(block, judged.opened->label));
  co_return judged;
}

/// Whether a retrieval of that path finds the block.
bool Engine::is_found_by(Leaf leaf, BlockId block) const {
  const Position position = positions_.get(block);
  return position.kind == Position::Kind::stash ||
         (position.kind == Position::Kind::tree && position.leaf == leaf);
}

/// Returns where the block lies in the tree version that is read. When the tree has grown, a block
/// at a leaf has kept its slot.
Position Engine::position_read(BlockId block) const {
  Position position = positions_.get(block);
  const auto moved = former_.find(block);
  if (moved != former_.end() && moved->second.version == position.version) return moved->second;
  position.level = static_cast<std::uint8_t>(std::min<unsigned>(position.level, reading_.height));
  return position;
}

/// Returns the block's slot on the path, or zeros, in whichever tree version can be read. Heals
/// damaged slots on the path first.
Task<Result<Engine::PathAnswer>> Engine::inner_product(WriteNumber write_number, BlockId block,
                                                       Leaf leaf) {
  std::uint64_t before = so_far_.total() + so_far_.lost;
  for (unsigned healings = 0, in_vain = 0;;) {
    const ReadVersion tree_version = reading_;
    const PathSlots path(params_, tree_version.tree_version, tree_.written, tree_version.height);
    const Position position = position_read(block);
    const bool on_path = position.kind == Position::Kind::tree && position.leaf == leaf;
    const std::size_t index = on_path ? path.index(position.level, position.slot) : path.count();
    const std::uint64_t contents = contents_changed_;
    ++retrieving_[tree_version.tree_version];
    auto found = co_await ask_for_product(write_number, leaf, path, index);
    if (--retrieving_[tree_version.tree_version] == 0) {
      retrieving_.erase(tree_version.tree_version);
      write_numbers_changed_.notify_all();
    }
    if (found && contents == contents_changed_ && zeroing_ == 0)
      co_return PathAnswer{std::move(*found), on_path};
    if (dead_) co_return fail(*dead_);
    if (found) continue;  // some servers may have used old shares
    if (found.error().code == Errc::former_view) {
      // A server that was restarted holds only the newest tree version.
      while (!dead_ && reading_.tree_version != tree_.tree_version)
        co_await write_numbers_changed_.wait();
      if (reading_.tree_version == tree_version.tree_version) co_return fail(found.error());
    } else if (found.error().code == Errc::corrupt) {
      const std::uint64_t mended = so_far_.total() + so_far_.lost;
      in_vain = std::exchange(before, mended) == mended ? in_vain + 1 : 0;
      if (in_vain > kVainHealings || ++healings > kHealings) co_return fail(found.error());
      if (auto healed = co_await heal(); !healed) S3O_CO_TRY(co_await wait_after(healed.error()));
    } else if (!Servers::may_pass(found.error().code)) {
      die(found.error());
    } else {
      S3O_CO_TRY(co_await wait_after(found.error()));
    }
    if (dead_) co_return fail(*dead_);
  }
}

/// All servers' shares of every slot of the path, as they are. Those that do not fit together are
/// settled, so that the server that has a wrong one is named and the next retrieval is right. The
/// content is that of the block's slot, or zeros.
Task<Result<Engine::PathAnswer>> Engine::read_raw(BlockId block, Leaf leaf) {
  while (!dead_ && healing_) co_await await_healed();
  if (dead_) co_return fail(*dead_);
  co_await begin_healing();
  const PathSlots path(params_, tree_.tree_version, tree_.written, tree_.height);
  const Position position = position_read(block);
  PathAnswer answer{Bytes(params_.slot_size()),
                    position.kind == Position::Kind::tree && position.leaf == leaf};
  const SlotAddress wanted{bucket_on_path(leaf, position.level), position.slot};
  const Bytes servers = in_step_.members();
  std::vector<SlotAddress> slots = slots_of(path, leaf);
  Status read;
  std::vector<Task<Status>> readers;
  for (std::size_t i = 0; i < raw_reads_at_once(); ++i)
    readers.push_back(read_raw_slots(slots, wanted, servers, answer));
  auto ended = co_await all(std::move(readers));
  for (auto& status : ended)
    if (!status && read) read = std::move(status);
  end_healing();
  if (dead_) co_return fail(*dead_);
  if (!read) co_return fail(read.error());
  co_return answer;
}

/// In the order of the path's slots.
std::vector<SlotAddress> Engine::slots_of(const PathSlots& path, Leaf leaf) const {
  std::vector<SlotAddress> slots;
  for (std::size_t i = 0; i < path.writes(); ++i)
    slots.push_back({kRoot, path.root_buffer_slot(i)});
  for (std::uint32_t slot = params_.root_buffer_slots(); slot < params_.root_slots(); ++slot)
    slots.push_back({kRoot, static_cast<std::uint16_t>(slot)});
  for (unsigned level = 1; level <= path.height(); ++level)
    for (std::uint16_t slot = 0; slot < params_.bucket_size; ++slot)
      slots.push_back({bucket_on_path(leaf, level), slot});
  return slots;
}

/// Takes one after the other from `slots`, until there is none left.
Task<Status> Engine::read_raw_slots(std::vector<SlotAddress>& slots, SlotAddress wanted,
                                    const Bytes& servers, PathAnswer& answer) {
  while (!slots.empty() && !dead_) {
    const SlotAddress at = slots.back();
    slots.pop_back();
    S3O_CO_ASSIGN(auto content, co_await settle(at, servers));
    if (content && answer.selected && at == wanted) answer.slot = std::move(*content);
  }
  co_return Status{};
}

/// Waits until an error may have passed. Returns it if it will not.
Task<Status> Engine::wait_after(Error error) {
  if (dead_) co_return fail(*dead_);
  if (!Servers::may_pass(error.code)) co_return fail(std::move(error));
  if (error.code == Errc::need_open || error.code == Errc::unreachable) co_return Status{};
  if (told_of_retrieval_.pass(environment_.clock.now()))
    spdlog::warn("a retrieval is tried again: {}{}", error.message, told_of_retrieval_.more());
  co_await environment_.clock.sleep(Servers::kRetryAfter);
  co_return Status{};
}

Task<Result<Bytes>> Engine::ask_for_product(WriteNumber write_number, Leaf leaf,
                                            const PathSlots& path, std::size_t index) {
  RetrieveRequest request{.epoch = session_.epoch,
                          .tree_version = reading_.tree_version,
                          .height = static_cast<std::uint8_t>(path.height()),
                          .written = tree_.written,
                          .write_number = write_number,
                          .leaf = leaf & ((Leaf{1} << path.height()) - 1),
                          .query = {},
                          .query_seed = {},
                          .sum = {}};
  return params_.privacy == Privacy::computational ? ask_for_sum(request, path.count(), index)
                                                   : ask_for_shares(request, path.count(), index);
}

/// As in the paper: every server gets its share of the query and answers its share of the product.
Task<Result<Bytes>> Engine::ask_for_shares(RetrieveRequest request, std::size_t slots,
                                           std::size_t index) {
  const auto queries = scheme_->queries(request.write_number, slots, index);
  const auto quorum = static_cast<unsigned>(params_.scheme.quorum());
  auto answers = co_await for_all(quorum, [&](Party server) {
    request.query = queries[server - 1].given;
    return servers_.ask(server, RetrieveRequest::kType, encode(request));
  });
  for (const auto& answer : answers)
    if (!answer) co_return fail(gravest(answers));
  std::vector<Bytes> shares;
  for (const auto& answer : answers) shares.push_back(of_size(answer->body(), params_.slot_size()));
  co_return recover(quorum_points(params_.scheme), spans_of(shares));
}

/// The answers of one attempt by server; an error where there is none. The aggregator's answer is
/// the sum: the others only say that they have done their part.
struct Engine::SumAttempt {
  explicit SumAttempt(std::size_t workers) : unanswered(workers) {
    while (answers.size() < workers) answers.push_back(fail(Errc::failed, "no answer yet"));
  }
  std::vector<Result<Payload>> answers;
  std::size_t unanswered;
  bool hopeless = false;  // the aggregator is away
  Event answered;
  const std::shared_ptr<Servers::JointAttempt> joint = std::make_shared<Servers::JointAttempt>();
};

/// Who answers together: in a mirror any of the servers in step can, and they take turns.
Bytes Engine::workers_of(std::uint64_t request_id) const {
  return in_step_.workers(params_.is_mirror() ? request_id : 0, params_.workers());
}

/// Gets one block down: t servers get their share of the query as a seed, and the servers add up
/// their masked products. Each attempt has fresh seeds.
Task<Result<Bytes>> Engine::ask_for_sum(RetrieveRequest request, std::size_t slots,
                                        std::size_t index) {
  const auto queries = scheme_->queries(request.write_number, slots, index);
  const std::uint64_t request_id = next_request_id_++;
  const Bytes workers = workers_of(request_id);
  const std::size_t adding = request_id % workers.size();
  request_ids_.insert(request_id);
  request.sum = SumOrder{.request_id = request_id,
                         .oldest = *request_ids_.begin(),
                         .aggregator = workers[adding],
                         .mask = {}};
  const bool named = workers.size() < servers_.count() && params_.is_mirror();
  const auto message = [&] {
    return named ? encode(SharedRetrieveRequest{request, workers}) : encode(request);
  };
  Bytes masks(params_.slot_size());
  const auto attempt = std::make_shared<SumAttempt>(workers.size());
  for (std::size_t nth = 0; nth < workers.size(); ++nth) {
    request.query_seed = queries[nth].seed;
    request.query = queries[nth].given;
    request.sum->mask.reset();
    if (nth != adding) {
      request.sum->mask = environment_.random.seed();
      gf::multiply_add(1, expand(*request.sum->mask, "answer", request_id, masks.size()), masks);
    }
    start(ask_for_masked_share(workers[nth], nth, message(), *request.sum, attempt));
  }
  // A server can say that it has done its part, and not have done it.
  when_overdue(environment_.clock, kSumPatience, attempt,
               [this, late = std::weak_ptr(attempt), adding, aggregator = workers[adding],
                epoch = request.epoch, request_id] {
                 const auto there = late.lock();
                 if (there && !there->answers[adding] && !dead_)
                   start(withdraw(servers_, aggregator, {epoch, request_id}));
               });
  while (attempt->unanswered > 0 && !attempt->answers[adding] && !attempt->hopeless)
    co_await attempt->answered.wait();
  request_ids_.erase(request_id);
  if (!attempt->answers[adding]) co_return fail(gravest(attempt->answers));
  gf::multiply_add(1, of_size(attempt->answers[adding]->body(), masks.size()), masks);
  co_return masks;
}

/// Any failure at one server ends the attempt at the aggregator, which would wait for it.
Task<void> Engine::ask_for_masked_share(Party server, std::size_t nth, Bytes message,
                                        SumOrder order, std::shared_ptr<SumAttempt> attempt) {
  auto answer = co_await servers_.ask_once(server, RetrieveRequest::kType, std::move(message),
                                           attempt->joint);
  if (!answer && server != order.aggregator && !dead_) {
    const WithdrawRequest withdraw{session_.epoch, order.request_id};
    auto withdrawn =
        co_await servers_.ask(order.aggregator, WithdrawRequest::kType, encode(withdraw));
    if (!withdrawn) answer = std::move(withdrawn);
  }
  attempt->hopeless = attempt->hopeless || (server == order.aggregator && !answer &&
                                            answer.error().code == Errc::unreachable);
  attempt->answers[nth] = std::move(answer);
  --attempt->unanswered;
  attempt->answered.notify_all();
}

}  // namespace s3oram
