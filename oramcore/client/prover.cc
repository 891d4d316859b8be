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
  BucketIndex bucket = 0;
  std::set<Party> asked;  // servers
  bool mended = false;
  std::optional<MarkRow> row;
  bool unknown = false;   // a server's shares cannot be compared
  std::set<Party> wrong;  // servers whose shares do not have their marks

  bool has_mark_of(Party server) const { return row && row->marks[server - 1u]; }
};

/// What all servers show of a bucket.
struct Prover::Shown {
  std::map<Party, Shares> shares;  // of servers that can read all of theirs
  Bytes fitting;                   // servers whose shares have their marks
  std::set<Party> others;          // servers whose shares have not
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

Task<Result<std::optional<MarkRow>>> Prover::marks_of(BucketIndex bucket) {
  return committer_.with_database([bucket, height = state_.tree.height](ClientState& database) {
    return database.marks_of(bucket, height);
  });
}

Task<Status> Prover::prove(BucketIndex first, BucketIndex end, const std::set<Party>& repaired,
                           const Mended& mended) {
  if (!keeps_marks() || !rule_holds(Rule::share_marks)) co_return Status{};
  std::vector<Proof> proofs;
  for (BucketIndex bucket = first; bucket < end; ++bucket) {
    const unsigned parts = bucket == kRoot ? state_.params.stash_buckets() : 1;
    for (unsigned i = 0; i < parts; ++i) {
      Proof proof;
      proof.bucket = bucket == kRoot ? kStashBucket + i : bucket;
      proof.asked = repaired;
      if (const auto found = mended.find(proof.bucket); found != mended.end()) {
        proof.mended = true;
        proof.asked.insert(found->second.begin(), found->second.end());
      }
      if (!proof.asked.empty()) proofs.push_back(std::move(proof));
    }
  }
  S3O_CO_TRY(co_await find_marks(proofs));
  auto compared = co_await for_all(static_cast<unsigned>(state_.servers.count()),
                                   [&](Party server) { return compare_at(server, proofs); });
  for (auto& status : compared) S3O_CO_TRY(status);
  for (Proof& proof : proofs) {
    if (proof.unknown && proof.mended) slots_.unproven();
    if (!proof.wrong.empty())
      S3O_CO_TRY(co_await put_right(proof.bucket, *proof.row, std::move(proof.wrong)));
  }
  co_return Status{};
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
/// and gains nothing from a lie. It says nothing of a bucket in which a share is damaged. A server
/// of an older version does not understand the question.
Task<Status> Prover::compare_some(Party server, std::span<Proof* const> proofs) {
  MarkBucketsRequest question{state_.session.epoch, state_.tree.tree_version, {}};
  for (const Proof* proof : proofs)
    question.buckets.push_back(
        {proof->bucket, state_.scheme->mark_key(proof->row->eviction, server)});
  const auto answer =
      co_await state_.ask_again(server, MarkBucketsRequest::kType, encode(question));
  if (!answer && answer.error().code != Errc::bad_request) co_return fail(answer.error());
  std::optional<BucketMarksAnswer> found;
  if (answer) found = decode<BucketMarksAnswer>(answer->body());
  if (found && found->marks.size() != proofs.size()) found.reset();
  for (std::size_t i = 0; i < proofs.size(); ++i) {
    Proof& proof = *proofs[i];
    if (!answer || (found && !found->marks[i]))
      proof.unknown = true;
    else if (!found || found->marks[i] != proof.row->marks[server - 1u])
      proof.wrong.insert(server);
  }
  co_return Status{};
}

Task<Mark> Prover::mark_of(const MarkRow& row, Party server, const Shares& shares) const {
  const Seed key = state_.scheme->mark_key(row.eviction, server);
  return offload(state_.environment.pool, [this, key, &shares] {
    std::vector<const std::uint8_t*> slots;
    for (const Bytes& share : shares) slots.push_back(share.data());
    return ShareMark(key, state_.params.slot_size()).of(slots);
  });
}

/// Reads all shares of a bucket from all servers.
Task<std::shared_ptr<const Prover::Shown>> Prover::read(BucketIndex bucket, const MarkRow& row) {
  const Bytes servers = state_.in_step.members();
  const auto shown = std::make_shared<Shown>();
  for (std::size_t slot = 0; slot < state_.params.bucket_size && !state_.dead; ++slot) {
    const auto answers = co_await slots_.read(address(bucket, slot), servers);
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (answers[i] && answers[i]->body().size() == state_.params.slot_size())
        shown->shares[servers[i]].emplace_back(answers[i]->body().begin(),
                                               answers[i]->body().end());
    }
  }
  std::erase_if(shown->shares,
                [&](const auto& each) { return each.second.size() != state_.params.bucket_size; });
  for (const auto& [server, shares] : shown->shares) {
    if (!row.marks[server - 1u]) continue;
    const Mark mark = co_await mark_of(row, server, shares);
    if (mark == row.marks[server - 1u])
      shown->fitting.push_back(server);
    else
      shown->others.insert(server);
  }
  co_return shown;
}

/// Deals with a bucket in which these servers do not have the shares of their marks. A server that
/// helped with their repair may answer correctly the next time.
Task<Status> Prover::put_right(BucketIndex bucket, const MarkRow& row, std::set<Party> wrong) {
  const std::size_t enough = state_.params.enough();
  auto shown = co_await read(bucket, row);
  for (unsigned again = 0; again < kShowAgain && shown->fitting.size() < enough && !state_.dead;
       ++again) {
    co_await state_.environment.clock.sleep(Servers::kRetryAfter);
    shown = co_await read(bucket, row);
  }
  if (state_.dead) co_return fail(*state_.dead);
  std::set<Party> named;  // they show other shares, and nothing was repaired there
  std::ranges::set_difference(shown->others, wrong, std::inserter(named, named.end()));
  if (named.size() > state_.params.scheme.threshold) {
    // At most t servers lie, so the marks are wrong. The shares may be the only ones that are left.
    spdlog::error(
        "servers {} show shares of bucket {} that do not fit their marks, and that is "
        "more than may lie: the marks are not believed",
        fmt::join(named, ", "), bucket);
    slots_.unproven();
    co_return Status{};
  }
  for (const Party server : named) name(server, bucket);
  for (const Party server : wrong) {
    if (std::ranges::find(shown->fitting, server) != shown->fitting.end()) continue;
    Status dealt;
    if (shown->fitting.size() >= enough)
      dealt = co_await give_shares(bucket, row, *shown, server);
    else
      dealt = co_await disown(bucket, server);
    if (!dealt) co_return dealt;
  }
  co_return Status{};
}

/// Gives a server the shares that follow from those of the servers that still have theirs.
Task<Status> Prover::give_shares(BucketIndex bucket, const MarkRow& row, const Shown& shown,
                                 Party server) {
  const ByteSpan sources = ByteSpan(shown.fitting).first(state_.params.enough());
  Shares right;
  for (std::size_t slot = 0; slot < state_.params.bucket_size; ++slot) {
    std::vector<ByteSpan> shares;
    for (const Party source : sources) shares.emplace_back(shown.shares.at(source)[slot]);
    right.push_back(recover_at(server, sources, shares));
  }
  const Mark mark = co_await mark_of(row, server, right);
  if (mark != row.marks[server - 1u]) {
    spdlog::error(
        "the shares of bucket {} that server {} has now, and the mark that it gave when the bucket "
        "was written, do not fit together, although the other servers' do: a server has lied",
        bucket, server);
    slots_.unproven();
    co_return Status{};
  }
  const auto has = shown.shares.find(server);
  for (std::size_t slot = 0; slot < right.size(); ++slot) {
    if (has != shown.shares.end() && has->second[slot] == right[slot]) continue;
    const SlotAddress at = address(bucket, slot);
    S3O_CO_TRY(co_await slots_.write(server, at, right[slot]));
    slots_.healed(server, at);
  }
  ++state_.contents.changed;
  co_return Status{};
}

Task<Status> Prover::disown(BucketIndex bucket, Party server) {
  const DisownRequest request{state_.session.epoch, state_.tree.tree_version, bucket};
  const auto done = co_await state_.servers.ask(server, DisownRequest::kType, encode(request));
  if (!done) co_return fail(done.error());
  spdlog::error(
      "server {} was sent wrong shares of bucket {}, and they are not used: too few other servers "
      "show the shares that they had when the bucket was written",
      server, bucket);
  for (std::size_t slot = 0; slot < state_.params.bucket_size; ++slot) slots_.lost();
  ++state_.contents.changed;
  co_return Status{};
}

Task<Status> Prover::name_liars(SlotAddress at) {
  const auto bucket = stored_bucket(at);
  if (!bucket || !keeps_marks()) co_return Status{};
  S3O_CO_ASSIGN(const auto row, co_await marks_of(*bucket));
  if (!row || row->marks.size() != state_.servers.count()) co_return Status{};
  const auto shown = co_await read(*bucket, *row);
  if (state_.dead) co_return fail(*state_.dead);
  // Other slots of the bucket may have got fresh shares meanwhile. The marks were forgotten before.
  S3O_CO_ASSIGN(const auto still, co_await marks_of(*bucket));
  if (still != row) co_return Status{};
  for (const Party server : shown->others) name(server, *bucket);
  co_return Status{};
}

/// Names a server in the log and in the status. It can be honest only if another server lied in a
/// repair that was cut short before it was proven.
void Prover::name(Party server, BucketIndex bucket) {
  const Error named{
      Errc::servers_disagree,
      fmt::format("server {} does not show the shares of bucket {} that it had when the bucket was "
                  "written: it is faulty or lies, or was repaired from one that lies",
                  server, bucket)};
  spdlog::error("{}", named.message);
  state_.servers.troubles().failed(server, MessageType::certify, named, state_.now());
}

Task<Status> Prover::forget(SlotAddress at) {
  const auto bucket = stored_bucket(at);
  if (!bucket || !keeps_marks()) co_return Status{};
  const auto row = co_await marks_of(*bucket);
  if (row && !*row) co_return Status{};
  state_.pending.unmarked.insert(*bucket);
  co_return co_await committer_.commit_until_done();
}

}  // namespace s3oram
