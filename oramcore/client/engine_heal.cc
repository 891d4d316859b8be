// Damaged slots are healed before anything is computed with them (3-durability.md, rule 1): t + 1
// intact shares of a slot give the share of any server. Which slots these are, every server may
// know; what they hold, the client alone sees.
#include <spdlog/spdlog.h>

#include "oramcore/client/engine.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr unsigned kSlotsAtOnce = 32;

}  // namespace

std::uint64_t Healed::total() const {
  std::uint64_t all = 0;
  for (const auto& each : shares) all += each.second;
  return all;
}

Healed Healed::since(const Healed& before) const {
  Healed more{shares, lost - before.lost};
  for (const auto& [server, count] : before.shares) more.shares[server] -= count;
  std::erase_if(more.shares, [](const auto& each) { return each.second == 0; });
  return more;
}

Task<void> Engine::begin_healing() {
  while (healing_) co_await healed_.wait();
  healing_ = true;  // from here on nothing is decided
  while (!dead_ && reading_.view != tree_.view) co_await turns_changed_.wait();
}

void Engine::end_healing() {
  healing_ = false;
  healed_.notify_all();
}

/// Heals what the servers have found since they were last asked. If it is being done, waits for it.
Task<Status> Engine::heal() {
  if (healing_) {
    while (healing_) co_await healed_.wait();
    co_return Status{};
  }
  co_await begin_healing();
  const DamageRequest request{session_.epoch, tree_.view, tree_.written};
  Damage damage;
  Status status = co_await add_damage(DamageRequest::kType, encode(request), all_servers(), damage);
  if (status) status = co_await heal_slots(std::move(damage));
  end_healing();
  co_return status;
}

std::set<Party> Engine::all_servers() const {
  std::set<Party> all;
  for (Party server = 1; server <= servers_.count(); ++server) all.insert(server);
  return all;
}

Task<Status> Engine::add_damage(MessageType question, Bytes message, std::set<Party> servers,
                                Damage& to) {
  const Bytes asked(servers.begin(), servers.end());
  auto answers = co_await for_all(static_cast<unsigned>(asked.size()), [&](Party nth) {
    return servers_.ask(asked[nth - 1u], question, message);
  });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    const auto found = decode<DamageAnswer>(answers[i]->body());
    if (!found) co_return fail(Errc::corrupt, "server {} answers nonsense", asked[i]);
    for (const SlotAddress at : found->slots) to[at].insert(asked[i]);
  }
  co_return Status{};
}

Task<Status> Engine::heal_slots(Damage damage) {
  std::vector<Task<Status>> workers;
  for (unsigned i = 0; i < kSlotsAtOnce && i < damage.size(); ++i)
    workers.push_back(heal_some(damage));
  auto ended = co_await all(std::move(workers));
  for (auto& status : ended) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Status> Engine::heal_some(Damage& damage) {
  while (!damage.empty()) {
    auto next = damage.extract(damage.begin());
    auto status = co_await heal_slot(next.key(), std::move(next.mapped()));
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
  const bool in_ring = at.bucket == kRoot && at.slot < params_.ring_slots();
  return in_ring ? intents_[at.slot].access : 0;
}

// The servers do it among themselves, if enough of them have their share, and can.
Task<Status> Engine::heal_slot(SlotAddress at, std::set<Party> damaged) {
  const std::size_t enough = params_.scheme.privacy + std::size_t{1};
  while (params_.privacy == Privacy::computational && !damaged.empty() &&
         damaged.size() + enough <= servers_.count()) {
    const Party to = *damaged.begin();
    Bytes helpers;
    for (Party server = 1; helpers.size() < enough; ++server)
      if (!damaged.contains(server)) helpers.push_back(server);
    auto answers = co_await ask_for_share(at, to, helpers);
    if (dead_) co_return fail(*dead_);
    bool given = true, known = false;
    for (std::size_t i = 0; i < helpers.size(); ++i)
      if (!answers[i] && answers[i].error().code == Errc::corrupt)
        known |= damaged.insert(helpers[i]).second;
    for (const auto& answer : answers) given &= answer.has_value();
    if (given) {
      damaged.erase(to);
      healed(to, at);
    } else if (!known) {
      break;
    }
  }
  if (damaged.empty()) co_return Status{};
  co_return co_await heal_through_client(at);
}

/// What the helpers have answered, and then `to`. Each attempt is made of fresh seeds.
Task<std::vector<Result<Payload>>> Engine::ask_for_share(SlotAddress at, Party to, Bytes helpers) {
  const std::uint64_t ticket = next_ticket_++;
  tickets_.insert(ticket);
  std::vector<std::vector<Seed>> masks(helpers.size());
  for (std::size_t i = 0; i < helpers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      masks[i].push_back(environment_.random.seed());
      masks[j].push_back(masks[i].back());
    }
  const MendRequest mend{.epoch = session_.epoch,
                         .view = tree_.view,
                         .ticket = ticket,
                         .oldest = *tickets_.begin(),
                         .at = at,
                         .access = access_in(at),
                         .helpers = helpers};
  ContributeRequest contribute{.epoch = session_.epoch,
                               .view = tree_.view,
                               .ticket = ticket,
                               .at = at,
                               .to = to,
                               .helpers = helpers,
                               .masks = {}};
  std::vector<Task<Result<Payload>>> asked;
  for (std::size_t i = 0; i < helpers.size(); ++i) {
    contribute.masks = masks[i];
    asked.push_back(ask_for_part(helpers[i], encode(contribute), to, ticket));
  }
  asked.push_back(servers_.ask_once(to, MendRequest::kType, encode(mend)));
  auto answers = co_await all(std::move(asked));
  tickets_.erase(ticket);
  co_return answers;
}

/// For `to`, who would wait for it if it does not come.
Task<Result<Payload>> Engine::ask_for_part(Party helper, Bytes message, Party to,
                                           std::uint64_t ticket) {
  auto answer = co_await servers_.ask_once(helper, ContributeRequest::kType, std::move(message));
  if (answer || dead_) co_return answer;
  const WithdrawRequest withdraw{session_.epoch, ticket};
  static_cast<void>(co_await servers_.ask(to, WithdrawRequest::kType, encode(withdraw)));
  co_return answer;
}

Task<Status> Engine::write_share(Party server, SlotAddress at, View share) {
  const HealSlotRequest request{.epoch = session_.epoch,
                                .view = tree_.view,
                                .at = at,
                                .access = access_in(at),
                                .share = share};
  auto written = co_await servers_.ask(server, HealSlotRequest::kType, encode(request));
  if (!written) co_return fail(written.error());
  co_return Status{};
}

Task<Status> Engine::heal_through_client(SlotAddress at) {
  const ReadSlotRequest question{session_.epoch, tree_.view, at};
  auto answers = co_await for_all(servers_.count(), [&](Party server) {
    return servers_.ask(server, ReadSlotRequest::kType, encode(question));
  });
  Bytes intact;                 // servers
  std::vector<View> shares;     // theirs
  std::vector<Party> to_write;  // in this order
  for (Party server = 1; server <= servers_.count(); ++server) {
    auto& answer = answers[server - 1];
    if (answer && answer->body().size() == params_.slot_size()) {
      intact.push_back(server);
      shares.push_back(answer->body());
    } else if (answer || answer.error().code == Errc::corrupt) {
      to_write.push_back(server);
    } else {
      co_return fail(answer.error());
    }
  }
  const std::size_t enough = params_.scheme.privacy + std::size_t{1};
  const bool lost = intact.size() < enough;
  if (lost) {
    // Zeros everywhere are a sharing again. The intact ones first: cut short, this begins anew.
    spdlog::error("slot {} of bucket {} is damaged at too many servers: what it held is lost",
                  at.slot, at.bucket);
    to_write.insert(to_write.begin(), intact.begin(), intact.end());
  }
  for (const Party server : to_write) {
    Bytes share(params_.slot_size());
    if (!lost)
      share = recover_at(server, View(intact).first(enough), std::span(shares).first(enough));
    S3O_CO_TRY(co_await write_share(server, at, share));
    if (!lost) healed(server, at);
  }
  so_far_.lost += lost;
  co_return Status{};
}

}  // namespace s3oram
