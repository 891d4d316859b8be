// Heals damaged slots: by the servers among themselves, or through the client.
#include "oramcore/client/healer.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <numeric>

#include "oramcore/base/rules.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr unsigned kReadAgain = 3;
constexpr Duration kSharesAgain = std::chrono::minutes(1);

bool cannot_be_read(const Status& status) { return !status && status.error().code == Errc::failed; }

}  // namespace

Task<Status> Healer::heal() {
  const std::uint64_t round = rounds_;
  co_await turn_.await_end();
  if (state_.dead) co_return fail(*state_.dead);
  if (rounds_ > round) co_return Status{};
  ++rounds_;
  co_await turn_.begin();
  Damage damage;
  Status status = co_await end_all_refreshes();
  if (status) status = co_await add_all_damage(damage);
  std::set<BucketIndex> buckets;
  for (const auto& [at, servers] : damage) buckets.insert(at.bucket);
  if (status) status = co_await heal_slots(std::move(damage), Loss::zeroed);
  if (status) status = co_await prove_restored();
  if (status) status = co_await prover_.mark_again();
  prover_.mark_none_again();
  const std::set<Party> holders = state_.servers_in_step();
  if (status && settler_.copies_are_compared())
    status = co_await settler_.compare(std::move(buckets), holders);
  turn_.end();
  co_return status;
}

/// Adds the damage that the servers in step report. A server that does not say, or that says what
/// cannot be, is named, and what the others report counts. If more servers refuse than may lie,
/// returns an error.
Task<Status> Healer::add_all_damage(Damage& to) {
  const Bytes asked = state_.in_step.members();
  const DamageRequest request{state_.session.epoch, state_.tree.tree_version, state_.tree.written};
  auto answers = co_await for_each_of(asked, [&](Party server) {
    return add_damage(DamageRequest::kType, encode(request), {server}, to);
  });
  if (state_.dead) co_return fail(*state_.dead);
  std::size_t refusing = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (answers[i]) continue;
    const Error& error = answers[i].error();
    const bool is_invalid = error.code == Errc::failed;
    if (!(is_invalid || SlotShares::is_refusal(error.code)) ||
        ++refusing > state_.params.scheme.threshold)
      co_return fail(error);
    state_.servers.found_lying(
        asked[i], fmt::format("it does not say which slots are damaged: {}", error.message));
  }
  co_return Status{};
}

Task<Status> Healer::end_refreshes() {
  if (state_.refreshes.empty()) co_return Status{};
  co_await turn_.await_turn();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  const Status status = co_await end_all_refreshes();
  turn_.end();
  co_return status;
}

Task<Status> Healer::end_all_refreshes() {
  for (auto& [at, content] : Refreshes(state_.refreshes))
    S3O_CO_TRY(co_await share_again(at, content, {}));
  co_return Status{};
}

Task<Status> Healer::prove_restored() {
  S3O_CO_TRY(co_await prover_.prove_rest());
  record_.remove_all();
  co_return Status{};
}

Task<Status> Healer::add_damage(MessageType question, Bytes message, std::set<Party> servers,
                                Damage& to, BucketIndex of) {
  const Bytes asked(servers.begin(), servers.end());
  auto answers = co_await for_all(static_cast<unsigned>(asked.size()), [&](Party nth) {
    return state_.servers.ask(asked[nth - 1u], question, message);
  });
  const std::size_t most =
      DamageAnswer::most(state_.params.root_slots(), state_.params.bucket_size);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    const auto found = decode<DamageAnswer>(answers[i]->body());
    if (!found || found->slots.size() > most ||
        !std::ranges::all_of(found->slots, [&](SlotAddress at) { return state_.has_slot(at); }))
      co_return fail(Errc::failed, "server {} sent an invalid answer", asked[i]);
    for (const SlotAddress at : found->slots) {
      if (of != kEveryBucket && at.bucket != of) continue;
      if (settler_.is_settled(at))
        to[at].insert(asked[i]);
      else
        state_.servers.found_lying(
            asked[i],
            fmt::format("it calls slot {} of the root damaged, which no write has reached",
                        at.slot));
    }
  }
  co_return Status{};
}

Task<Status> Healer::heal_slots(Damage damage, Loss loss) {
  std::vector<Task<Status>> workers;
  for (std::size_t i = 0; i < slots_.at_once() && i < damage.size(); ++i)
    workers.push_back(heal_some(damage, loss));
  auto ended = co_await all(std::move(workers));
  for (auto& status : ended) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Status> Healer::heal_some(Damage& damage, Loss loss) {
  while (!damage.empty()) {
    auto next = damage.extract(damage.begin());
    auto status = co_await heal_slot(next.key(), std::move(next.mapped()), loss);
    if (!status) {
      damage.clear();
      co_return status;
    }
  }
  co_return Status{};
}

// Makes the servers heal the slot among themselves, if enough of them have their share and can do
// it.
Task<Status> Healer::heal_slot(SlotAddress at, std::set<Party> damaged, Loss loss) {
  const std::size_t enough = state_.params.enough();
  std::set<Party> unfit = damaged;  // servers that cannot help with healing
  for (Party server = 1; server <= state_.servers.count(); ++server)
    if (!state_.in_step.holds(server)) unfit.insert(server);
  unsigned failures = 0;
  // A server that lies as a helper spoils the new share, so the risk is taken only for whole
  // stores, whose buckets are proven afterwards. What is in the root buffer has no mark, but it
  // opens.
  const bool in_root_buffer = at.bucket == kRoot && at.slot < state_.params.root_buffer_slots();
  const bool trusted =
      state_.params.security != Security::malicious || (loss == Loss::left && !in_root_buffer);
  while (!damaged.empty() && unfit.size() + enough <= state_.servers.count() && trusted &&
         may_send_shares()) {
    const Party to = *damaged.begin();
    Bytes helpers;
    for (Party server = 1; helpers.size() < enough; ++server)
      if (!unfit.contains(server)) helpers.push_back(server);
    const auto answers = co_await ask_for_share(at, to, helpers);
    if (state_.dead) co_return fail(*state_.dead);
    if (answers.back()) {
      damaged.erase(to);
      slots_.healed(to, at);
      continue;
    }
    if (state_.servers.is_left_out(to))
      co_return fail(Errc::unreachable, "server {} no longer answers", to);
    const std::size_t fit = unfit.size();
    for (std::size_t i = 0; i < helpers.size(); ++i)
      if (!answers[i] && answers[i].error().code == Errc::corrupt) {
        unfit.insert(helpers[i]);
        damaged.insert(helpers[i]);
      }
    if (unfit.size() == fit && ++failures > 1) {
      shares_again_ = state_.now() + kSharesAgain;
      for (std::size_t i = helpers.size(); i-- > 0;)
        if (!answers[i]) slots_.hindered(answers[i].error().message);
    }
  }
  if (damaged.empty()) co_return Status{};
  Status healed_it = co_await heal_through_client(at, damaged, loss);
  // The disks are read several times before a slot is left damaged.
  for (unsigned again = 0; cannot_be_read(healed_it) && loss == Loss::left; ++again) {
    if (again == kReadAgain) {
      spdlog::error("slot {} of bucket {} cannot be read at too many servers", at.slot, at.bucket);
      slots_.lost();
      co_return Status{};
    }
    co_await state_.environment.clock.sleep(Servers::kRetryAfter);
    healed_it = co_await heal_through_client(at, damaged, loss);
  }
  co_return healed_it;
}

/// Returns whether servers may send shares to each other, and not only through the client. After a
/// failure they may not for a while, because each attempt takes time.
bool Healer::may_send_shares() const {
  return state_.params.privacy == Privacy::computational && state_.now() >= shares_again_;
}

/// Returns the answers of the helpers, followed by that of `to`. Each attempt has fresh seeds.
Task<std::vector<Result<Payload>>> Healer::ask_for_share(SlotAddress at, Party to, Bytes helpers) {
  const std::uint64_t request_id = state_.request_ids.begin();
  std::vector<std::vector<Seed>> masks(helpers.size());
  for (std::size_t i = 0; i < helpers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      masks[i].push_back(state_.environment.random.seed());
      masks[j].push_back(masks[i].back());
    }
  const MendRequest mend{.epoch = state_.session.epoch,
                         .tree_version = state_.tree.tree_version,
                         .request_id = request_id,
                         .oldest = state_.request_ids.oldest(),
                         .at = at,
                         .access = slots_.access_in(at),
                         .helpers = helpers};
  ContributeRequest contribute{.epoch = state_.session.epoch,
                               .tree_version = state_.tree.tree_version,
                               .request_id = request_id,
                               .oldest = state_.request_ids.oldest(),
                               .at = at,
                               .to = to,
                               .helpers = helpers,
                               .masks = {}};
  const auto attempt = std::make_shared<Servers::JointAttempt>();
  std::vector<Task<Result<Payload>>> asked;
  for (std::size_t i = 0; i < helpers.size(); ++i) {
    contribute.masks = masks[i];
    asked.push_back(ask_for_part(helpers[i], encode(contribute), to, request_id, attempt));
  }
  asked.push_back(state_.servers.ask_once(to, MendRequest::kType, encode(mend), attempt));
  auto answers = co_await all(std::move(asked));
  state_.request_ids.end(request_id);
  co_return answers;
}

/// Asks `helper` for its part of the share of `to`. If there is no answer, tells `to`, which would
/// otherwise wait for the part.
Task<Result<Payload>> Healer::ask_for_part(Party helper, Bytes message, Party to,
                                           std::uint64_t request_id,
                                           std::shared_ptr<Servers::JointAttempt> attempt) {
  auto answer = co_await state_.servers.ask_once(helper, ContributeRequest::kType,
                                                 std::move(message), std::move(attempt));
  if (answer || state_.dead) co_return answer;
  const WithdrawRequest withdraw{state_.session.epoch, request_id};
  static_cast<void>(co_await state_.servers.ask(to, WithdrawRequest::kType, encode(withdraw)));
  co_return answer;
}

/// The shares of a slot that needs healing, at all servers.
struct Healer::SlotFound {
  Bytes intact;                        // servers whose shares are intact
  Bytes damaged;                       // servers that say that theirs are damaged
  std::optional<Agreement> agreement;  // the servers whose shares are consistent
  std::vector<Party> to_write;         // servers that get a new share, in this order
  std::optional<Error> unread;         // an error that may not recur at the next read
};

/// Collects the shares of a slot. If intact shares contradict each other, reads them again, because
/// a server may answer correctly the next time. Whether it reads again depends on the shares alone,
/// not on whether a block lies in the slot.
Task<Healer::SlotFound> Healer::find_shares(SlotAddress at, const std::set<Party>& damaged) {
  std::set<Party> concerned = state_.servers_in_step();
  concerned.insert(damaged.begin(), damaged.end());
  const Bytes asked(concerned.begin(), concerned.end());
  for (unsigned again = 0;; ++again) {
    SlotFound found;
    std::vector<Bytes> shares;
    std::size_t refusing = 0;
    const auto answers = co_await slots_.read(at, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto& answer = answers[i];
      if (answer && answer->body().size() == state_.params.slot_size()) {
        found.intact.push_back(asked[i]);
        shares.emplace_back(answer->body().begin(), answer->body().end());
        continue;
      }
      found.to_write.push_back(asked[i]);
      if (!answer && answer.error().code == Errc::corrupt) found.damaged.push_back(asked[i]);
      if (answer || answer.error().code == Errc::corrupt) continue;
      Error error = answer.error();
      if (SlotShares::is_refusal(error.code) && ++refusing <= state_.params.scheme.threshold) {
        state_.servers.found_lying(asked[i],
                                   fmt::format("it does not show its share: {}", error.message));
        error.code = Errc::failed;  // it counts as if it could not be read
      }
      if (!found.unread || found.unread->code == Errc::failed) found.unread = std::move(error);
    }
    found.agreement = agreement_on(at, found.intact, shares);
    if (found.agreement)
      for (const Party server : found.intact)
        if (damaged.contains(server) || !found.agreement->holds(server))
          found.to_write.push_back(server);
    if (state_.dead || found.agreement || found.unread ||
        found.intact.size() < state_.params.enough() || again == kReadAgain)
      co_return found;
    co_await state_.environment.clock.sleep(Servers::kRetryAfter);
  }
}

/// Returns what these shares of a slot agree on, if enough of them are consistent. If there are
/// more than enough and they lie on one polynomial, they are right; otherwise the ones that open
/// count. (Copies are compared later.)
std::optional<Agreement> Healer::agreement_on(SlotAddress at, const Bytes& servers,
                                              const std::vector<Bytes>& shares) const {
  const std::size_t enough = state_.params.enough();
  if (servers.size() < enough) return std::nullopt;
  if (enough == 1 ||
      (servers.size() > enough && on_one_polynomial(enough, servers, spans_of(shares))))
    return Agreement{.label = {},
                     .servers = servers,
                     .shares = {shares.begin(), shares.begin() + static_cast<long>(enough)}};
  return find_agreement(*state_.scheme, state_.params, servers, shares,
                        [&](const Label& label) { return state_.is_resident(label, at); });
}

/// Says who calls its share damaged. That may be true of an honest server's disk, and nothing shows
/// whether it is.
void Healer::report_lost(SlotAddress at, const SlotFound& found) {
  if (found.intact.size() >= state_.params.enough())
    spdlog::error(
        "the shares of slot {} of bucket {} at servers {} contradict each other: its content is "
        "lost",
        at.slot, at.bucket, fmt::join(found.intact, ", "));
  else
    spdlog::error(
        "slot {} of bucket {} is damaged at too many servers, as servers {} say: its content is "
        "lost",
        at.slot, at.bucket, fmt::join(found.damaged, ", "));
}

/// Writes the shares of `damaged` even if they can be read now, because they may come from the
/// system's cache.
Task<Status> Healer::heal_through_client(SlotAddress at, std::set<Party> damaged, Loss loss) {
  SlotFound found = co_await find_shares(at, damaged);
  if (state_.dead) co_return fail(*state_.dead);
  if (found.unread && (!found.agreement || found.unread->code != Errc::failed))
    co_return fail(*found.unread);
  const bool lost = !found.agreement;
  if (lost) {
    slots_.lost(found.damaged);
    report_lost(at, found);
    S3O_CO_TRY(co_await prover_.name_liars(at));
    if (loss == Loss::left) co_return Status{};
    S3O_CO_TRY(co_await prover_.forget(at));
    state_.mark_unreadable(at);
    forget_refresh(at);
    if (state_.in_step.members().size() < state_.in_step.count()) state_.note_rewritten(at.bucket);
    S3O_CO_TRY(co_await committer_.commit_until_done());
    // Zeros at all servers are a valid sharing. Intact shares are overwritten first, so that this
    // starts over if it is interrupted.
    found.to_write.insert(found.to_write.begin(), found.intact.begin(), found.intact.end());
  }
  const auto share_of = [&](Party server) {
    return lost ? Bytes(state_.params.slot_size()) : found.agreement->share_of(server);
  };
  std::set<Party> refusing;
  state_.contents.zeroing += lost;
  const Status written = co_await write_shares(at, found.to_write, share_of, refusing);
  state_.contents.zeroing -= lost;
  state_.contents.changed += lost;
  for (const Party server : found.to_write)
    if (written && !lost && !refusing.contains(server)) slots_.healed(server, at);
  for (const Party server : refusing) prover_.note_refusal(at, server);
  const bool has_shares = state_.params.enough() > 1;  // not copies
  if (lost || !written || loss == Loss::left || !has_shares ||
      state_.params.security != Security::malicious || !rule_holds(Rule::fresh_shares))
    co_return written;
  S3O_CO_TRY(co_await prover_.forget(at));
  Bytes content = found.agreement->share_of(0);
  co_return co_await refresh(at, std::move(content), damaged);
}

/// Writes to one server after the other. A server that refuses its share is named, and the others
/// get theirs: if it is not honest, its share counts for nothing. If more servers refuse than may
/// lie, returns their error. A mirror can do without a server; then it may be that this one has
/// just left or come back, and the slot is healed again.
Task<Status> Healer::write_shares(SlotAddress at, const std::vector<Party>& to,
                                  std::function<Bytes(Party)> share_of, std::set<Party>& refusing) {
  for (const Party server : to) {
    const Status written = co_await slots_.write(server, at, share_of(server));
    if (written) continue;
    const Error& error = written.error();
    if (!SlotShares::is_refusal(error.code)) co_return written;
    if (state_.in_step.may_do_without(server)) co_return fail(Errc::failed, "{}", error.message);
    refusing.insert(server);
    if (refusing.size() > state_.params.scheme.threshold) co_return written;
  }
  for (const Party server : refusing)
    state_.servers.found_lying(
        server, fmt::format("it refuses a share of slot {} of bucket {}", at.slot, at.bucket));
  co_return Status{};
}

/// Gives every server a fresh share, once all of them hold a share. Then nothing shows whether the
/// slot needed healing, and a wrong share that someone planted is worth nothing.
///
/// While the servers are written one after the other, too few shares may be consistent: those of
/// servers that lie, or that lose what they are just writing, do not count. So the content is
/// durable in vault.db before the first write, and what is interrupted is done again.
Task<Status> Healer::refresh(SlotAddress at, Bytes content, const std::set<Party>& claiming) {
  if (rule_holds(Rule::refreshes_recorded)) {
    state_.refreshes[at] = content;
    state_.pending.refreshes[at] = content;
    S3O_CO_TRY(co_await committer_.commit_until_done());
  }
  co_return co_await share_again(at, std::move(content), claiming);
}

/// Becomes durable with the next commit. If that never happens, the slot gets fresh shares again.
void Healer::forget_refresh(SlotAddress at) {
  if (state_.refreshes.erase(at) > 0) state_.pending.refreshes[at].reset();
}

/// If more servers than may lie say that there is no such slot, the servers that claimed damage in
/// it have lied: no eviction has written its bucket.
Task<Status> Healer::share_again(SlotAddress at, Bytes content, const std::set<Party>& claiming) {
  const std::vector<Bytes> fresh =
      create_shares(state_.params.scheme, content, state_.environment.random);
  std::vector<Party> all(state_.servers.count());
  std::iota(all.begin(), all.end(), Party{1});
  std::set<Party> refusing;
  ++state_.contents.zeroing;
  Status written = co_await write_shares(
      at, all, [&](Party server) { return fresh[server - 1u]; }, refusing);
  --state_.contents.zeroing;
  ++state_.contents.changed;
  for (const Party server : refusing) prover_.note_refusal(at, server);
  if (written) forget_refresh(at);
  const std::size_t most = state_.params.scheme.threshold;
  if (written || written.error().code != Errc::bad_request || refusing.size() <= most ||
      claiming.size() > most)
    co_return written;
  forget_refresh(at);
  for (const Party server : claiming)
    state_.servers.found_lying(
        server, fmt::format("it calls slot {} of bucket {} damaged, which does not exist", at.slot,
                            at.bucket));
  co_return Status{};
}

}  // namespace s3oram
