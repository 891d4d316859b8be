// Retrievals: choose the tree version to read, and deal with damage and wrong answers.
#include "oramcore/client/retriever.h"

#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

// One path is healed this many times before the retrieval fails: without any progress, and in
// total. If much is damaged, other paths may be healed before this one many times.
constexpr unsigned kVainHealings = 3, kHealings = 200;
// A server may be restarted in the middle of a retrieval, or another one may be left out, but not
// as often as this. And a part of an answer may be lost once.
constexpr unsigned kMostRestarts = 10, kMostWithheld = 2;

}  // namespace

Retriever::Retriever(VolumeState& state, SlotShares& slots, HealingTurn& turn, Settler& settler,
                     Healer& healer)
    : state_(state),
      slots_(slots),
      turn_(turn),
      settler_(settler),
      healer_(healer),
      query_(state),
      blank_(state.scheme->seal({}, Bytes(state.params.block_size))) {}

/// The judgement on an answer. Each answer is opened exactly once, whatever it is for, so that all
/// take equally long.
struct Retriever::Judgement {
  bool right = false;
  Result<OpenedBlock> opened = fail(Errc::corrupt, "no answer");
};

Task<Result<std::optional<OpenedBlock>>> Retriever::retrieve(WriteNumber write_number,
                                                             BlockId block, Leaf leaf) {
  auto answer = co_await inner_product(write_number, block, leaf, Asked::together);
  if (!answer && !state_.dead) {
    spdlog::error(
        "a server does not answer as it should: reading the servers' shares one by one; {}",
        answer.error().message);
    answer = co_await read_raw(block, leaf);
  }
  auto judged = co_await judge(block, answer ? &*answer : nullptr, state_.tree.height);
  for (unsigned again = 0; answer && !judged.right && !state_.dead; ++again) {
    spdlog::error("the servers' answer is wrong: one of them is faulty or lies; {}",
                  again == 0   ? "asking again"
                  : again == 1 ? "reading their shares one by one"
                               : "more than one of them");
    state_.metrics.wrong_answers.add();
    if (again == 2) break;  // the shares of two servers are wrong
    if (again == 0)
      answer = co_await inner_product(write_number, block, leaf,
                                      query_.can_ask_each() ? Asked::each : Asked::together);
    if (again == 1 || (!answer && !state_.dead)) answer = co_await read_raw(block, leaf);
    judged = co_await judge(block, answer ? &*answer : nullptr, std::nullopt);
  }
  // The block may have come to the stash meanwhile.
  if (answer && !judged.right) judged = co_await judge(block, nullptr, std::nullopt);
  const bool in_stash = state_.positions.get(block).kind == Position::Kind::stash && !state_.dead;
  if (!answer && !in_stash) co_return fail(answer.error());
  if (!state_.is_found_by(leaf, block)) co_return std::nullopt;
  if (!judged.opened || !state_.is_newest(block, judged.opened->label))
    co_return fail(Errc::corrupt,
                   "block {} could not be read: a server's share is damaged or altered", block);
  co_return std::optional<OpenedBlock>(std::move(*judged.opened));
}

/// Opens the block in the answer. If the answer holds none, opens the one in the stash, or
/// something that takes equally long, because the aggregator sees how long after its answer the
/// root write follows. `height` limits the work: see ClientScheme::open_on().
///
/// The answer is compared with the version that was asked for. An access to the block, or its move
/// to the stash, may have ended since: a right answer is then still right, and a wrong one must not
/// pass, or else the liar would see that it did.
Task<Retriever::Judgement> Retriever::judge(BlockId block, const PathAnswer* answer,
                                            std::optional<unsigned> height) {
  const bool selected = answer && answer->selected;
  const bool in_stash = state_.positions.get(block).kind == Position::Kind::stash && !state_.dead;
  const Bytes& kept = in_stash && !state_.stash.at(block).empty() ? state_.stash.at(block) : blank_;
  Bytes slot = selected ? answer->slot : kept;
  Judgement judged;
  judged.opened = co_await state_.scheme->open_on(state_.environment.pool, std::move(slot), height);
  if (!answer) co_return judged;
  if (!selected)
    judged.right = !rule_holds(Rule::zero_answers) || is_zero(answer->slot);
  else
    judged.right = judged.opened && judged.opened->label.block == block &&
                   judged.opened->label.version == answer->version;
  co_return judged;
}

std::uint64_t Retriever::healings_so_far() const {
  return slots_.so_far().total() + slots_.so_far().lost;
}

/// Returns the block's slot on the path, or zeros, in a tree version that can be read. Heals
/// damaged slots on the path first.
Task<Result<Retriever::PathAnswer>> Retriever::inner_product(WriteNumber write_number,
                                                             BlockId block, Leaf leaf,
                                                             Asked asked) {
  std::uint64_t before = healings_so_far();
  for (unsigned healings = 0, in_vain = 0, restarts = 0, withheld = 0;;) {
    const ReadVersions::Version tree_version = state_.versions.read;
    const PathSlots path(state_.params, tree_version.tree_version, state_.tree.written,
                         tree_version.height);
    const Position position = state_.position_read(block);
    const bool on_path = position.kind == Position::Kind::tree && position.leaf == leaf;
    const std::size_t index = on_path ? path.index(position.level, position.slot) : path.count();
    const std::uint64_t contents = state_.contents.changed;
    ++state_.versions.under_way[tree_version.tree_version];
    auto found = co_await ask(write_number, leaf, path, index, asked);
    if (--state_.versions.under_way[tree_version.tree_version] == 0) {
      state_.versions.under_way.erase(tree_version.tree_version);
      state_.changed.notify_all();
    }
    if (found && contents == state_.contents.changed && state_.contents.zeroing == 0)
      co_return PathAnswer{std::move(*found), on_path, position.version};
    if (state_.dead) co_return fail(*state_.dead);
    if (found) {  // some servers may have used old shares
      if (state_.contents.zeroing > 0) co_await turn_.await_end();
      continue;
    }
    if (found.error().code == Errc::former_view) {
      // A server that was restarted holds only the newest tree version.
      while (!state_.dead && state_.versions.read.tree_version != state_.tree.tree_version)
        co_await state_.changed.wait();
      if (state_.versions.read.tree_version == tree_version.tree_version)
        co_return fail(found.error());
    } else if (found.error().code == Errc::corrupt) {
      const std::uint64_t mended = healings_so_far();
      in_vain = std::exchange(before, mended) == mended ? in_vain + 1 : 0;
      if (in_vain > kVainHealings || ++healings > kHealings) co_return fail(found.error());
      if (auto healed = co_await healer_.heal(); !healed)
        S3O_CO_TRY(co_await wait_after(healed.error()));
    } else if (found.error().code == Errc::servers_disagree) {
      if (++withheld == kMostWithheld) co_return fail(found.error());
      spdlog::error("{}; asking again", found.error().message);
    } else if (!Troubles::may_pass(found.error().code)) {
      state_.die(found.error());
    } else if (Troubles::may_pass_at_once(found.error().code)) {
      if (++restarts == kMostRestarts) co_return fail(found.error());
      if (restarts > 1) co_await state_.environment.clock.sleep(Servers::kRetryAfter);
    } else {
      S3O_CO_TRY(co_await wait_after(found.error()));
    }
    if (state_.dead) co_return fail(*state_.dead);
  }
}

/// Makes one attempt. If each server answers for itself, names those whose answers are wrong, in
/// the log and in the status.
Task<Result<Bytes>> Retriever::ask(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                                   std::size_t index, Asked asked) {
  if (asked == Asked::together) co_return co_await query_.ask(write_number, leaf, path, index);
  const std::uint64_t contents = state_.contents.changed;
  S3O_CO_ASSIGN(auto answer, co_await query_.ask_each(write_number, leaf, path, index));
  // Servers whose shares were replaced meanwhile may differ without lying.
  if (contents != state_.contents.changed || state_.contents.zeroing > 0) answer.liars.clear();
  for (const Party liar : answer.liars) state_.servers.found_lying(liar, "its answer to a read");
  co_return std::move(answer.slot);
}

/// Reads all servers' shares of every slot of the path. Shares that contradict each other are
/// settled, so that the server with a wrong one is named and the next retrieval is right. Returns
/// the content of the block's slot, or zeros.
Task<Result<Retriever::PathAnswer>> Retriever::read_raw(BlockId block, Leaf leaf) {
  co_await turn_.await_end();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  if (auto refreshed = co_await healer_.end_all_refreshes(); !refreshed) {
    turn_.end();
    co_return fail(refreshed.error());
  }
  const PathSlots path(state_.params, state_.tree.tree_version, state_.tree.written,
                       state_.tree.height);
  const Position position = state_.position_read(block);
  PathAnswer answer{Bytes(state_.params.slot_size()),
                    position.kind == Position::Kind::tree && position.leaf == leaf,
                    position.version};
  const SlotAddress wanted{bucket_on_path(leaf, position.level), position.slot};
  const Bytes servers = state_.in_step.members();
  std::vector<SlotAddress> slots = slots_.on_path(path, leaf);
  Status read;
  std::vector<Task<Status>> readers;
  for (std::size_t i = 0; i < slots_.at_once(); ++i)
    readers.push_back(read_raw_slots(slots, wanted, servers, answer));
  auto ended = co_await all(std::move(readers));
  for (auto& status : ended)
    if (!status && read) read = std::move(status);
  turn_.end();
  if (state_.dead) co_return fail(*state_.dead);
  if (!read) co_return fail(read.error());
  co_return answer;
}

/// Takes slots from the end of `slots` until none is left.
Task<Status> Retriever::read_raw_slots(std::vector<SlotAddress>& slots, SlotAddress wanted,
                                       const Bytes& servers, PathAnswer& answer) {
  while (!slots.empty() && !state_.dead) {
    const SlotAddress at = slots.back();
    slots.pop_back();
    S3O_CO_ASSIGN(auto content, co_await settler_.settle(at, servers));
    if (content && answer.selected && at == wanted) answer.slot = std::move(*content);
  }
  co_return Status{};
}

/// Waits until the error may have passed. Returns it if it cannot pass.
Task<Status> Retriever::wait_after(Error error) {
  if (state_.dead) co_return fail(*state_.dead);
  if (!Troubles::may_pass(error.code)) co_return fail(std::move(error));
  if (told_.pass(state_.now()))
    spdlog::warn("a retrieval is tried again: {}{}", error.message, told_.more());
  co_await state_.environment.clock.sleep(Servers::kRetryAfter);
  co_return Status{};
}

}  // namespace s3oram
