// Heals damaged slots before anything is computed with them (Rule::checksums): t + 1 intact shares
// of a slot give the share of any server. Every server may know which slots these are; only the
// client sees their content.
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "oramcore/client/agreement.h"
#include "oramcore/client/engine.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr std::size_t kSlotsAtOnce = 32, kBytesAtOnce = 4 << 20;
constexpr unsigned kReadAgain = 3;
constexpr Duration kSharesAgain = std::chrono::minutes(1);

bool cannot_be_read(const Status& status) { return !status && status.error().code == Errc::failed; }

}  // namespace

/// Waits until nothing is being healed. Its callers, who decide something or have found damage, go
/// before the next healing.
Task<void> Engine::await_healed() {
  ++waiting_for_healing_;
  while (!dead_ && healing_) co_await healed_.wait();
  --waiting_for_healing_;
  healed_.notify_all();
}

Task<void> Engine::begin_healing() {
  healing_ = true;  // from here on nothing is decided
  while (!dead_ && reading_.tree_version != tree_.tree_version)
    co_await write_numbers_changed_.wait();
}

void Engine::end_healing() {
  healing_ = false;
  healed_.notify_all();
}

/// Heals the damage that servers have found so far. One round serves all who came before it.
Task<Status> Engine::heal() {
  const std::uint64_t round = healing_rounds_;
  while (!dead_ && healing_) co_await await_healed();
  if (dead_) co_return fail(*dead_);
  if (healing_rounds_ > round) co_return Status{};
  ++healing_rounds_;
  co_await begin_healing();
  const DamageRequest request{session_.epoch, tree_.tree_version, tree_.written};
  Damage damage;
  Status status =
      co_await add_damage(DamageRequest::kType, encode(request), servers_in_step(), damage);
  std::set<BucketIndex> buckets;
  for (const auto& [at, servers] : damage) buckets.insert(at.bucket);
  if (status) status = co_await heal_slots(std::move(damage), Loss::zeroed);
  const std::set<Party> holders = servers_in_step();
  if (status && copies_are_compared())
    status = co_await compare_buckets(std::move(buckets), holders);
  end_healing();
  co_return status;
}

std::set<Party> Engine::servers_in_step() const {
  const Bytes members = in_step_.members();
  return {members.begin(), members.end()};
}

bool Engine::has_slot(SlotAddress at) const {
  return at.bucket >= kRoot && at.bucket <= bucket_count(tree_.height) &&
         at.slot < (at.bucket == kRoot ? params_.root_slots() : params_.bucket_size);
}

/// Adds the damage that these servers report, of one bucket or of all.
Task<Status> Engine::add_damage(MessageType question, Bytes message, std::set<Party> servers,
                                Damage& to, BucketIndex of) {
  const Bytes asked(servers.begin(), servers.end());
  auto answers = co_await for_all(static_cast<unsigned>(asked.size()), [&](Party nth) {
    return servers_.ask(asked[nth - 1u], question, message);
  });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    const auto found = decode<DamageAnswer>(answers[i]->body());
    if (!found || !std::ranges::all_of(found->slots, [&](SlotAddress at) { return has_slot(at); }))
      co_return fail(Errc::failed, "server {} answers nonsense", asked[i]);
    for (const SlotAddress at : found->slots)
      if (of == kEveryBucket || at.bucket == of) to[at].insert(asked[i]);
  }
  co_return Status{};
}

std::size_t Engine::raw_reads_at_once() const {
  return std::clamp<std::size_t>(kBytesAtOnce / params_.slot_size(), 1, kSlotsAtOnce);
}

Task<Status> Engine::heal_slots(Damage damage, Loss loss) {
  std::vector<Task<Status>> workers;
  for (std::size_t i = 0; i < raw_reads_at_once() && i < damage.size(); ++i)
    workers.push_back(heal_some(damage, loss));
  auto ended = co_await all(std::move(workers));
  for (auto& status : ended) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Status> Engine::heal_some(Damage& damage, Loss loss) {
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

void Engine::healed(Party server, SlotAddress at) {
  ++so_far_.shares[server];
  metrics_.healed_slots.add();
  if (told_of_healing_.pass(environment_.clock.now()))
    spdlog::warn("server {}: slot {} of bucket {} was damaged and is healed{}", server, at.slot,
                 at.bucket, told_of_healing_.more());
}

std::uint64_t Engine::access_in(SlotAddress at) const {
  const bool in_root_buffer = at.bucket == kRoot && at.slot < params_.root_buffer_slots();
  return in_root_buffer ? access_records_[at.slot].access : 0;
}

// Has the servers heal the slot among themselves, if enough of them have their share and can do it.
Task<Status> Engine::heal_slot(SlotAddress at, std::set<Party> damaged, Loss loss) {
  const std::size_t enough = params_.enough();
  std::set<Party> unfit = damaged;  // to help
  for (Party server = 1; server <= servers_.count(); ++server)
    if (!in_step_.holds(server)) unfit.insert(server);
  unsigned failures = 0;
  // A server that lies as a helper spoils the new share: only whole stores are worth the risk.
  const bool trusted = params_.security != Security::malicious || loss == Loss::left;
  while (!damaged.empty() && unfit.size() + enough <= servers_.count() && trusted &&
         may_send_shares()) {
    const Party to = *damaged.begin();
    Bytes helpers;
    for (Party server = 1; helpers.size() < enough; ++server)
      if (!unfit.contains(server)) helpers.push_back(server);
    const auto answers = co_await ask_for_share(at, to, helpers);
    if (dead_) co_return fail(*dead_);
    if (answers.back()) {
      damaged.erase(to);
      healed(to, at);
      continue;
    }
    const std::size_t fit = unfit.size();
    for (std::size_t i = 0; i < helpers.size(); ++i)
      if (!answers[i] && answers[i].error().code == Errc::corrupt) {
        unfit.insert(helpers[i]);
        damaged.insert(helpers[i]);
      }
    if (unfit.size() == fit && ++failures > 1) {
      shares_again_ = environment_.clock.now() + kSharesAgain;
      for (std::size_t i = helpers.size(); i-- > 0;)
        if (!answers[i]) so_far_.hindrance = answers[i].error().message;
    }
  }
  if (damaged.empty()) co_return Status{};
  Status healed_it = co_await heal_through_client(at, damaged, loss);
  // Before a slot is left as it is, the disks are read several times.
  for (unsigned again = 0; cannot_be_read(healed_it) && loss == Loss::left; ++again) {
    if (again == kReadAgain) {
      spdlog::error("slot {} of bucket {} cannot be read at too many servers", at.slot, at.bucket);
      ++so_far_.lost;
      co_return Status{};
    }
    co_await environment_.clock.sleep(Servers::kRetryAfter);
    healed_it = co_await heal_through_client(at, damaged, loss);
  }
  co_return healed_it;
}

/// Whether servers may send shares to each other instead of through the client. After a failure
/// they may not for a while, because each attempt takes time.
bool Engine::may_send_shares() const {
  return params_.privacy == Privacy::computational && environment_.clock.now() >= shares_again_;
}

/// Returns the answers of the helpers, and then that of `to`. Each attempt has fresh seeds.
Task<std::vector<Result<Payload>>> Engine::ask_for_share(SlotAddress at, Party to, Bytes helpers) {
  const std::uint64_t request_id = next_request_id_++;
  request_ids_.insert(request_id);
  std::vector<std::vector<Seed>> masks(helpers.size());
  for (std::size_t i = 0; i < helpers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      masks[i].push_back(environment_.random.seed());
      masks[j].push_back(masks[i].back());
    }
  const MendRequest mend{.epoch = session_.epoch,
                         .tree_version = tree_.tree_version,
                         .request_id = request_id,
                         .oldest = *request_ids_.begin(),
                         .at = at,
                         .access = access_in(at),
                         .helpers = helpers};
  ContributeRequest contribute{.epoch = session_.epoch,
                               .tree_version = tree_.tree_version,
                               .request_id = request_id,
                               .oldest = *request_ids_.begin(),
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
  asked.push_back(servers_.ask_once(to, MendRequest::kType, encode(mend), attempt));
  auto answers = co_await all(std::move(asked));
  request_ids_.erase(request_id);
  co_return answers;
}

/// Asks `helper` for its part of the share of `to`. If it gives none, tells `to`, which would wait
/// for it.
Task<Result<Payload>> Engine::ask_for_part(Party helper, Bytes message, Party to,
                                           std::uint64_t request_id,
                                           std::shared_ptr<Servers::JointAttempt> attempt) {
  auto answer = co_await servers_.ask_once(helper, ContributeRequest::kType, std::move(message),
                                           std::move(attempt));
  if (answer || dead_) co_return answer;
  const WithdrawRequest withdraw{session_.epoch, request_id};
  static_cast<void>(co_await servers_.ask(to, WithdrawRequest::kType, encode(withdraw)));
  co_return answer;
}

Task<Status> Engine::write_share(Party server, SlotAddress at, ByteSpan share) {
  const HealSlotRequest request{.epoch = session_.epoch,
                                .tree_version = tree_.tree_version,
                                .at = at,
                                .access = access_in(at),
                                .share = share};
  S3O_CO_TRY(co_await servers_.ask(server, HealSlotRequest::kType, encode(request)));
  co_return Status{};
}

/// What the servers have of a slot that is to be healed.
struct Engine::SlotFound {
  Bytes intact;                        // servers
  std::optional<Agreement> agreement;  // on which their shares fit together
  std::vector<Party> to_write;         // in this order
  std::optional<Error> unread;         // perhaps it could be read another time
};

/// Shares that are intact and do not fit together are read again: a server may answer rightly then.
/// That depends on the shares alone, not on whether a block lies in the slot.
Task<Engine::SlotFound> Engine::find_shares(SlotAddress at, const std::set<Party>& damaged) {
  std::set<Party> concerned = servers_in_step();
  concerned.insert(damaged.begin(), damaged.end());
  const Bytes asked(concerned.begin(), concerned.end());
  for (unsigned again = 0;; ++again) {
    SlotFound found;
    std::vector<Bytes> shares;
    const auto answers = co_await read_slot(at, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto& answer = answers[i];
      if (answer && answer->body().size() == params_.slot_size()) {
        found.intact.push_back(asked[i]);
        shares.emplace_back(answer->body().begin(), answer->body().end());
        continue;
      }
      found.to_write.push_back(asked[i]);
      if (!answer && answer.error().code != Errc::corrupt &&
          (!found.unread || found.unread->code == Errc::failed))
        found.unread = answer.error();
    }
    found.agreement = agreement_on(at, found.intact, shares);
    if (found.agreement)
      for (const Party server : found.intact)
        if (damaged.contains(server) || !found.agreement->holds(server))
          found.to_write.push_back(server);
    if (dead_ || found.agreement || found.unread || found.intact.size() < params_.enough() ||
        again == kReadAgain)
      co_return found;
    co_await environment_.clock.sleep(Servers::kRetryAfter);
  }
}

/// What these shares of a slot say, if enough fit together. Shares that are more than enough, and
/// on one polynomial, are right; else those count that open. (Copies are compared later.)
std::optional<Agreement> Engine::agreement_on(SlotAddress at, const Bytes& servers,
                                              const std::vector<Bytes>& shares) const {
  const std::size_t enough = params_.enough();
  if (servers.size() < enough) return std::nullopt;
  if (enough == 1 ||
      (servers.size() > enough && on_one_polynomial(enough, servers, spans_of(shares))))
    return Agreement{.label = {},
                     .servers = servers,
                     .shares = {shares.begin(), shares.begin() + static_cast<long>(enough)}};
  return find_agreement(*scheme_, params_, servers, shares,
                        [&](const Label& label) { return is_resident(label, at); });
}

/// Writes the shares of `damaged` even if they can be read now, which may be from the system's
/// cache.
Task<Status> Engine::heal_through_client(SlotAddress at, std::set<Party> damaged, Loss loss) {
  SlotFound found = co_await find_shares(at, damaged);
  if (dead_) co_return fail(*dead_);
  if (found.unread && (!found.agreement || found.unread->code != Errc::failed))
    co_return fail(*found.unread);
  const bool lost = !found.agreement;
  if (lost) {
    ++so_far_.lost;
    spdlog::error("slot {} of bucket {} is damaged at too many servers: what it held is lost",
                  at.slot, at.bucket);
    if (loss == Loss::left) co_return Status{};
    mark_unreadable(at);
    if (in_step_.members().size() < in_step_.count()) note_rewritten(at.bucket);
    S3O_CO_TRY(co_await commit_until_done());
    // Zeros everywhere are a sharing again. Intact shares are overwritten first, so that this
    // starts over if it is cut short.
    found.to_write.insert(found.to_write.begin(), found.intact.begin(), found.intact.end());
  }
  zeroing_ += lost;
  Status written;
  for (const Party server : found.to_write) {
    const Bytes share = lost ? Bytes(params_.slot_size()) : found.agreement->share_of(server);
    written = co_await write_share(server, at, share);
    if (!written && written.error().code == Errc::bad_request && in_step_.may_do_without(server))
      written = fail(Errc::failed, "{}", written.error().message);
    if (!written) break;
    if (!lost) healed(server, at);
  }
  zeroing_ -= lost;
  contents_changed_ += lost;
  if (lost || !written || loss == Loss::left || params_.security != Security::malicious ||
      !rule_holds(Rule::fresh_shares))
    co_return written;
  Bytes content = found.agreement->share_of(0);
  co_return co_await share_again(at, std::move(content));
}

/// All servers have a share of the slot; each gets a fresh one. So it does not show whether the
/// slot needed it, and a wrong share that somebody planted is worth nothing. One after the other: t
/// + 1 shares fit together at any time, and if this is cut short, the next read settles the slot.
Task<Status> Engine::share_again(SlotAddress at, Bytes content) {
  const std::vector<Bytes> fresh = create_shares(params_.scheme, content, environment_.random);
  ++zeroing_;
  Status written;
  for (Party server = 1; written && server <= servers_.count(); ++server)
    written = co_await write_share(server, at, fresh[server - 1u]);
  --zeroing_;
  ++contents_changed_;
  co_return written;
}

/// Reads each server's share of a slot. Errors: corrupt (damaged), failed (its disk cannot read
/// it),
/// ...
Task<std::vector<Result<Payload>>> Engine::read_slot(SlotAddress at, const Bytes& servers) {
  const ReadSlotRequest question{session_.epoch, tree_.tree_version, at};
  return for_each_of(servers, [this, message = encode(question)](Party server) {
    return ask_again(server, ReadSlotRequest::kType, message);
  });
}

/// Asks a server, and asks again while it is restarted.
Task<Result<Payload>> Engine::ask_again(Party server, MessageType type, Bytes message) {
  for (;;) {
    auto answer = co_await servers_.ask_once(server, type, message);
    if (answer || dead_ || answer.error().code != Errc::need_open) co_return answer;
  }
}

}  // namespace s3oram
