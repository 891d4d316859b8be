// Compares buckets with their marks, and puts right what does not fit.
#include "oramcore/client/prover.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "oramcore/base/rules.h"
#include "oramcore/client/agreement.h"

namespace s3oram {
namespace {

constexpr unsigned kShowAgain = 3;

}  // namespace

/// A bucket whose shares are compared with their marks.
struct Prover::Proof {
  using Slots = std::set<std::uint16_t>;  // slots of the stored bucket

  BucketIndex bucket = 0;
  std::set<Party> asked;            // servers
  std::map<Party, Slots> restored;  // by server: shares that others have sent it
  std::optional<MarkRow> row;
  bool unknown = false;   // a server's shares cannot be compared
  std::set<Party> wrong;  // servers whose shares do not have their marks, or are still damaged

  bool has_mark_of(Party server) const { return row && row->marks[server - 1u]; }
  bool was_restored(Party server, std::uint16_t slot) const {
    const auto found = restored.find(server);
    return found != restored.end() && found->second.contains(slot);
  }
};

/// What all servers show of a bucket.
struct Prover::Shown {
  using Shares = std::vector<std::optional<Bytes>>;  // by slot; std::nullopt if it cannot be read

  std::map<Party, Shares> shares;
  Bytes fitting;           // servers whose shares have their marks
  std::set<Party> others;  // servers whose shares are all there and have not
  std::set<Party> named;   // those of them that have not got their shares from others

  bool fits(Party server) const { return std::ranges::find(fitting, server) != fitting.end(); }
  bool shows(Party server, std::uint16_t slot) const {
    const auto found = shares.find(server);
    return found != shares.end() && found->second[slot];
  }
};

std::optional<BucketIndex> Prover::stored_bucket(SlotAddress at) const {
  if (at.bucket != kRoot) return at.bucket;
  const unsigned buffer = state_.params.root_buffer_slots();
  if (at.slot < buffer) return std::nullopt;
  return kStashBucket + (at.slot - buffer) / state_.params.bucket_size;
}

SlotAddress Prover::address(BucketIndex bucket, std::size_t slot) const {
  if (bucket < kStashBucket) return {bucket, static_cast<std::uint16_t>(slot)};
  const std::size_t in_stash = (bucket - kStashBucket) * state_.params.bucket_size + slot;
  return {kRoot, static_cast<std::uint16_t>(state_.params.root_buffer_slots() + in_stash)};
}

/// Returns the slot's number in its stored bucket.
std::uint16_t Prover::slot_in_stored(SlotAddress at) const {
  if (at.bucket != kRoot) return at.slot;
  const unsigned in_stash = at.slot - state_.params.root_buffer_slots();
  return static_cast<std::uint16_t>(in_stash % state_.params.bucket_size);
}

Task<Result<std::optional<MarkRow>>> Prover::marks_of(BucketIndex bucket) {
  return committer_.with_database([bucket, height = state_.tree.height](ClientState& database) {
    return database.marks_of(bucket, height);
  });
}

std::vector<Prover::Proof> Prover::proofs_for(BucketIndex first, BucketIndex end,
                                              const std::set<Party>& repaired) const {
  std::map<BucketIndex, Proof> proofs;
  for (BucketIndex bucket = first; bucket < end && !repaired.empty(); ++bucket) {
    const unsigned parts = bucket == kRoot ? state_.params.stash_buckets() : 1;
    for (unsigned i = 0; i < parts; ++i)
      proofs[bucket == kRoot ? kStashBucket + i : bucket].asked = repaired;
  }
  for (const auto& [at, servers] : record_.unproven(first, end)) {
    const auto stored = stored_bucket(at);
    if (!stored) continue;
    Proof& proof = proofs[*stored];
    for (const Party server : servers) proof.restored[server].insert(slot_in_stored(at));
    proof.asked.insert(servers.begin(), servers.end());
  }
  std::vector<Proof> list;
  for (auto& [bucket, proof] : proofs) {
    proof.bucket = bucket;
    list.push_back(std::move(proof));
  }
  return list;
}

Task<Result<std::size_t>> Prover::prove(BucketIndex first, BucketIndex end,
                                        const std::set<Party>& repaired) {
  std::size_t left = 0;
  if (!keeps_marks() || !rule_holds(Rule::share_marks)) co_return left;
  std::vector<Proof> proofs = proofs_for(first, end, repaired);
  S3O_CO_TRY(co_await find_marks(proofs));
  auto compared = co_await for_all(static_cast<unsigned>(state_.servers.count()),
                                   [&](Party server) { return compare_at(server, proofs); });
  for (auto& status : compared) S3O_CO_TRY(status);
  for (const Proof& proof : proofs) {
    if (proof.unknown && !proof.restored.empty()) slots_.unproven();
    if (proof.wrong.empty()) continue;
    S3O_CO_ASSIGN(const std::size_t of_bucket, co_await put_right(proof));
    left += of_bucket;
  }
  co_return left;
}

Task<Result<std::size_t>> Prover::prove_rest() {
  std::set<BucketIndex> buckets;
  for (const auto& [at, servers] : state_.repairs.unproven) buckets.insert(at.bucket);
  std::size_t left = 0;
  for (const BucketIndex bucket : buckets) {
    S3O_CO_ASSIGN(const std::size_t of_bucket, co_await prove(bucket, bucket + 1, {}));
    left += of_bucket;
  }
  co_return left;
}

Task<Status> Prover::find_marks(std::vector<Proof>& proofs) {
  co_return co_await committer_.with_database(
      [&, height = state_.tree.height,
       servers = state_.servers.count()](ClientState& database) -> Status {
        for (Proof& proof : proofs) {
          S3O_ASSIGN(proof.row, database.marks_of(proof.bucket, height));
          if (proof.row && proof.row->marks.size() != servers) proof.row.reset();
        }
        return {};
      });
}

/// Asks a server for the marks of its shares, and compares them with those that it gave when the
/// buckets were written.
Task<Status> Prover::compare_at(Party server, std::vector<Proof>& proofs) {
  std::vector<Proof*> at_it;
  for (Proof& proof : proofs) {
    if (!proof.asked.contains(server)) continue;
    proof.unknown |= !proof.has_mark_of(server);
    if (proof.has_mark_of(server)) at_it.push_back(&proof);
  }
  for (std::span<Proof* const> left = at_it; !left.empty();) {
    const auto some = left.first(std::min(left.size(), MarkBucketsRequest::kMost));
    S3O_CO_TRY(co_await compare_some(server, some));
    left = left.subspan(some.size());
  }
  co_return Status{};
}

/// Believes what the server says of its shares, because it says so about what others have sent it,
/// and gains nothing from a lie. It cannot say anything of a bucket in which a share is damaged, so
/// what it has got there from others is not proven. A server of an older version does not
/// understand the question.
Task<Status> Prover::compare_some(Party server, std::span<Proof* const> proofs) {
  MarkBucketsRequest question{state_.session.epoch, state_.tree.tree_version, {}};
  for (const Proof* proof : proofs)
    question.buckets.push_back(
        {proof->bucket, state_.scheme->mark_key(proof->row->eviction, server)});
  const auto answer =
      co_await state_.ask_again(server, MarkBucketsRequest::kType, encode(question));
  if (state_.dead) co_return fail(*state_.dead);
  if (!answer && answer.error().code != Errc::bad_request)
    co_return fail(Errc::failed, "{}", answer.error().message);
  std::optional<BucketMarksAnswer> found;
  if (answer) found = decode<BucketMarksAnswer>(answer->body());
  if (found && found->marks.size() != proofs.size()) found.reset();
  for (std::size_t i = 0; i < proofs.size(); ++i) {
    Proof& proof = *proofs[i];
    const bool damaged = found && !found->marks[i];
    if (!answer || (damaged && !proof.restored.contains(server))) {
      proof.unknown = true;
    } else if (!found || found->marks[i] != proof.row->marks[server - 1u]) {
      proof.wrong.insert(server);
      if (!proof.restored.contains(server)) restored_all(proof, server);
    }
  }
  co_return Status{};
}

/// Nothing says which of these shares are the server's own, so all of them may have come from
/// others, in a repair by a program that keeps no record.
void Prover::restored_all(Proof& proof, Party server) const {
  for (std::uint16_t slot = 0; slot < state_.params.bucket_size; ++slot)
    proof.restored[server].insert(slot);
}

Task<Mark> Prover::mark_of(const MarkRow& row, Party server,
                           std::vector<const std::uint8_t*> shares) const {
  const Seed key = state_.scheme->mark_key(row.eviction, server);
  return offload(state_.environment.pool, [this, key, shares = std::move(shares)] {
    return ShareMark(key, state_.params.slot_size()).of(shares);
  });
}

/// Reads all shares of a bucket from all servers.
Task<std::shared_ptr<const Prover::Shown>> Prover::read(BucketIndex bucket, const MarkRow& row,
                                                        const std::set<Party>& wrong) {
  const Bytes servers = state_.in_step.members();
  const auto shown = std::make_shared<Shown>();
  for (std::size_t slot = 0; slot < state_.params.bucket_size && !state_.dead; ++slot) {
    const auto answers = co_await slots_.read(address(bucket, slot), servers);
    for (std::size_t i = 0; i < servers.size(); ++i) {
      auto& share = shown->shares[servers[i]].emplace_back();
      if (answers[i] && answers[i]->body().size() == state_.params.slot_size())
        share.emplace(answers[i]->body().begin(), answers[i]->body().end());
    }
  }
  if (state_.dead) shown->shares.clear();
  for (const auto& [server, shares] : shown->shares) {
    if (!row.marks[server - 1u] || std::ranges::count(shares, std::optional<Bytes>()) > 0) continue;
    std::vector<const std::uint8_t*> all;
    for (const auto& share : shares) all.push_back(share->data());
    const Mark mark = co_await mark_of(row, server, std::move(all));
    if (mark == row.marks[server - 1u])
      shown->fitting.push_back(server);
    else
      shown->others.insert(server);
  }
  std::ranges::set_difference(shown->others, wrong,
                              std::inserter(shown->named, shown->named.end()));
  co_return shown;
}

/// Deals with a bucket in which servers do not have the shares of their marks. A server that helped
/// with their repair may answer correctly the next time. Returns how many restored shares remain
/// without a proof.
Task<Result<std::size_t>> Prover::put_right(const Proof& proof) {
  const std::size_t enough = state_.params.enough();
  auto shown = co_await read(proof.bucket, *proof.row, proof.wrong);
  for (unsigned again = 0; again < kShowAgain && shown->fitting.size() < enough &&
                           shows_restored(proof, *shown) && !state_.dead;
       ++again) {
    co_await state_.environment.clock.sleep(Servers::kRetryAfter);
    shown = co_await read(proof.bucket, *proof.row, proof.wrong);
  }
  if (state_.dead) co_return fail(*state_.dead);
  if (shown->named.size() > state_.params.scheme.threshold) {
    // At most t servers lie, so the marks are wrong. The shares may be the only ones that are left.
    spdlog::error(
        "servers {} show shares of bucket {} that do not fit their marks, and that is "
        "more than may lie: the marks are not believed",
        fmt::join(shown->named, ", "), proof.bucket);
    slots_.unproven();
    co_return std::size_t{0};
  }
  for (const Party server : shown->named) name(server, proof.bucket);
  std::size_t left = 0;
  for (const Party server : proof.wrong) {
    if (shown->fits(server)) continue;
    S3O_CO_ASSIGN(const std::size_t at_server, co_await put_right_at(server, proof, *shown));
    left += at_server;
  }
  for (const Party server : shown->named) {
    const auto healed = co_await put_right_at(server, proof, *shown);
    if (state_.dead) co_return fail(*state_.dead);
    if (!healed)
      spdlog::warn("server {} does not take its right shares of bucket {}: {}", server,
                   proof.bucket, healed.error().message);
  }
  co_return left;
}

/// Returns whether a server shows shares that others have sent it and that are not proven.
bool Prover::shows_restored(const Proof& proof, const Shown& shown) const {
  for (const Party server : proof.wrong)
    for (std::uint16_t slot = 0; slot < state_.params.bucket_size; ++slot)
      if (proof.was_restored(server, slot) && shown.shows(server, slot)) return true;
  return false;
}

/// Returns the right share of a server in a slot, as far as it follows from what servers show: from
/// the shares of buckets that have their marks, or from shares that open. (The right content of any
/// slot opens or is zeros, whether a block lies there or not, so this depends on the lie alone.)
std::optional<Bytes> Prover::right_share(Party server, SlotAddress at, std::uint16_t slot,
                                         const Shown& shown) const {
  const std::size_t enough = state_.params.enough();
  Bytes servers;
  std::vector<Bytes> shares;
  for (const auto& [each, all] : shown.shares) {
    if (!all[slot] || (shown.fitting.size() >= enough && !shown.fits(each))) continue;
    servers.push_back(each);
    shares.push_back(*all[slot]);
  }
  if (shown.fitting.size() >= enough) {
    shares.resize(enough);
    return recover_at(server, ByteSpan(servers).first(enough), spans_of(shares));
  }
  const auto agreement =
      find_agreement(*state_.scheme, state_.params, servers, shares,
                     [&](const Label& label) { return state_.is_resident(label, at); });
  if (!agreement) return std::nullopt;
  return agreement->share_of(server);
}

/// Gives a server its right shares. Where they are not known, has it disown what others have sent
/// it. Returns how many such slots there are.
Task<Result<std::size_t>> Prover::put_right_at(Party server, const Proof& proof,
                                               const Shown& shown) {
  std::vector<std::optional<Bytes>> right(state_.params.bucket_size);
  std::vector<const std::uint8_t*> known;
  for (std::uint16_t slot = 0; slot < right.size(); ++slot) {
    right[slot] = right_share(server, address(proof.bucket, slot), slot, shown);
    if (right[slot]) known.push_back(right[slot]->data());
  }
  if (proof.has_mark_of(server) && known.size() == right.size()) {
    const Mark mark = co_await mark_of(*proof.row, server, std::move(known));
    if (mark != proof.row->marks[server - 1u]) {
      spdlog::error(
          "the shares of bucket {} that server {} has now, and the mark that it gave when the "
          "bucket was written, do not fit together, although the other servers' do: a server has "
          "lied",
          proof.bucket, server);
      slots_.unproven();
      co_return std::size_t{0};
    }
  }
  std::size_t left = 0;
  std::vector<std::uint16_t> unproven;
  for (std::uint16_t slot = 0; slot < right.size(); ++slot) {
    if (right[slot] &&
        (!shown.shows(server, slot) || shown.shares.at(server)[slot] != right[slot])) {
      const SlotAddress at = address(proof.bucket, slot);
      const Status written = co_await slots_.write(server, at, *right[slot]);
      if (!written && !SlotShares::is_refusal(written.error().code))
        co_return fail(written.error());
      if (written)
        slots_.healed(server, at);
      else
        state_.servers.found_lying(
            server, fmt::format("it refuses its right share of bucket {}", proof.bucket));
    } else if (!right[slot] && proof.was_restored(server, slot)) {
      ++left;
      if (shown.shows(server, slot)) unproven.push_back(slot);
    }
  }
  ++state_.contents.changed;
  if (!unproven.empty()) S3O_CO_TRY(co_await disown(server, proof.bucket, std::move(unproven)));
  co_return left;
}

Task<Status> Prover::disown(Party server, BucketIndex bucket, std::vector<std::uint16_t> slots) {
  const DisownRequest request{state_.session.epoch, state_.tree.tree_version, bucket,
                              std::move(slots)};
  const auto done = co_await state_.servers.ask(server, DisownRequest::kType, encode(request));
  if (state_.dead) co_return fail(*state_.dead);
  // More servers than may lie say that another client has the volume.
  const bool is_taken =
      !done && (done.error().code == Errc::fenced || done.error().code == Errc::stale_vault);
  if (!done)
    co_return fail(is_taken ? done.error().code : Errc::failed,
                   "server {} does not disown shares that cannot be proven: {}", server,
                   done.error().message);
  spdlog::error(
      "server {} was sent {} shares of bucket {} that cannot be proven, and they are not used: too "
      "few other servers show the shares that they had when the bucket was written",
      server, request.slots.size(), bucket);
  for (std::size_t i = 0; i < request.slots.size(); ++i) slots_.lost();
  ++state_.contents.changed;
  co_return Status{};
}

Task<Status> Prover::name_liars(SlotAddress at) {
  const auto bucket = stored_bucket(at);
  if (!bucket || !keeps_marks()) co_return Status{};
  S3O_CO_ASSIGN(const auto row, co_await marks_of(*bucket));
  if (!row || row->marks.size() != state_.servers.count()) co_return Status{};
  const auto shown = co_await read(*bucket, *row, {});
  if (state_.dead) co_return fail(*state_.dead);
  // Other slots of the bucket may have got fresh shares meanwhile. The marks were forgotten before.
  S3O_CO_ASSIGN(const auto still, co_await marks_of(*bucket));
  if (still != row) co_return Status{};
  for (const Party server : shown->named) name(server, *bucket);
  co_return Status{};
}

/// Names a server in the log and in the status. It can be honest only if another server lied in a
/// repair that was cut short before it was proven.
void Prover::name(Party server, BucketIndex bucket) {
  state_.servers.accuse(
      server,
      {Errc::servers_disagree,
       fmt::format(
           "server {} does not show the shares of bucket {} that it had when the bucket was "
           "written: it is faulty or lies, or was repaired from one that lies",
           server, bucket)});
}

Task<Status> Prover::forget(SlotAddress at) {
  const auto bucket = stored_bucket(at);
  if (!bucket || !keeps_marks()) co_return Status{};
  const auto row = co_await marks_of(*bucket);
  if (row && !*row) co_return Status{};
  // A new mark of shares that nobody has proven would hide a lie in the repair.
  const bool is_unproven = !record_.unproven(at.bucket, at.bucket + 1).empty();
  if (row && !is_unproven && (*row)->marks.size() == state_.servers.count() &&
      !is_shared(*bucket, **row))
    forgotten_.try_emplace(*bucket, **row);
  state_.pending.unmarked.insert(*bucket);
  co_return co_await committer_.commit_until_done();
}

/// Returns whether other buckets may have the same stored content, because the tree has grown since
/// it was written. Its marks are not made again, because nothing would forget them when the content
/// changes on behalf of another of these buckets.
bool Prover::is_shared(BucketIndex bucket, const MarkRow& row) const {
  return bucket < kStashBucket && row.was_leaf(bucket) && row.height < state_.tree.height;
}

Task<Status> Prover::mark_again() {
  std::vector<BucketIndex> some;
  for (auto next = forgotten_.begin(); next != forgotten_.end();) {
    some.push_back(next->first);
    if (++next != forgotten_.end() && some.size() < MarkBucketsRequest::kMost) continue;
    auto marked = co_await mark_some_again(some);
    if (!marked) {
      mark_none_again();
      co_return marked;
    }
    some.clear();
  }
  const bool any = !forgotten_.empty();
  mark_none_again();
  if (any) co_return co_await committer_.commit_until_done();
  co_return Status{};
}

/// The new mark must be durable before the healing ends, because what is forgotten later must be in
/// the database. A server that gives no mark, or has refused a share, has none in the new row. Its
/// own shares cannot be proven later; those of the others can. Neither has a server that had none
/// before, because a new mark of shares that could not be proven would hide a lie in a repair.
Task<Status> Prover::mark_some_again(const std::vector<BucketIndex>& buckets) {
  const auto answers = co_await for_all(state_.servers.count(), [&](Party server) {
    MarkBucketsRequest question{state_.session.epoch, state_.tree.tree_version, {}};
    for (const BucketIndex bucket : buckets)
      question.buckets.push_back(
          {bucket, state_.scheme->mark_key(forgotten_.at(bucket).eviction, server)});
    return state_.ask_again(server, MarkBucketsRequest::kType, encode(question));
  });
  if (state_.dead) co_return fail(*state_.dead);
  for (Party server = 1; server <= answers.size(); ++server) {
    const auto& answer = answers[server - 1u];
    std::optional<BucketMarksAnswer> given;
    if (answer) given = decode<BucketMarksAnswer>(answer->body());
    if (given && given->marks.size() != buckets.size()) given.reset();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      auto& mark = forgotten_.at(buckets[i]).marks[server - 1u];
      const BucketIndex in_tree = buckets[i] < kStashBucket ? buckets[i] : kRoot;
      const auto refused = refused_.find(in_tree);
      const bool had_one = mark.has_value();
      mark.reset();
      if (had_one && given && (refused == refused_.end() || !refused->second.contains(server)))
        mark = given->marks[i];
    }
  }
  for (const BucketIndex bucket : buckets) state_.pending.marks[bucket] = forgotten_.at(bucket);
  co_return Status{};
}

}  // namespace s3oram
