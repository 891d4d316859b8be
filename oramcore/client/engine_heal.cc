// Damaged slots are healed before anything is computed with them (3-durability.md, rule 1): t + 1
// intact shares of a slot give the share of any server. Which slots these are, every server may
// know; what they hold, the client alone sees.
#include <spdlog/spdlog.h>

#include "oramcore/client/engine.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

/// Heals what the servers have found since they were last asked. If it is being done, waits for it.
Task<Status> Engine::heal() {
  if (healing_) {
    while (healing_) co_await healed_.wait();
    co_return Status{};
  }
  healing_ = true;  // from here on nothing is decided
  while (!dead_ && reading_.view != tree_.view) co_await turns_changed_.wait();
  Status status = co_await heal_damage();
  healing_ = false;
  healed_.notify_all();
  co_return status;
}

Task<Status> Engine::heal_damage() {
  auto answers = co_await for_all(servers_.count(), [&](Party server) { return damage(server); });
  std::set<SlotAddress> slots;
  for (auto& answer : answers) {
    if (!answer) co_return fail(answer.error());
    slots.insert(answer->begin(), answer->end());
  }
  for (const SlotAddress at : slots) S3O_CO_TRY(co_await heal_slot(at));
  co_return Status{};
}

Task<Result<std::vector<SlotAddress>>> Engine::damage(Party server) {
  const DamageRequest request{session_.epoch, tree_.view, tree_.written};
  auto answer = co_await servers_.ask(server, DamageRequest::kType, encode(request));
  if (!answer) co_return fail(answer.error());
  auto found = decode<DamageAnswer>(answer->body());
  if (!found) co_return fail(Errc::corrupt, "server {} answers nonsense", server);
  co_return std::move(found->slots);
}

Task<Status> Engine::heal_slot(SlotAddress at) {
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
    if (!lost) {
      share = recover_at(server, View(intact).first(enough), std::span(shares).first(enough));
      spdlog::warn("server {}: slot {} of bucket {} was damaged and is healed", server, at.slot,
                   at.bucket);
    }
    const bool in_ring = at.bucket == kRoot && at.slot < params_.ring_slots();
    const std::uint64_t access = in_ring ? intents_[at.slot].access : 0;
    const HealSlotRequest request{
        .epoch = session_.epoch, .view = tree_.view, .at = at, .access = access, .share = share};
    auto healed = co_await servers_.ask(server, HealSlotRequest::kType, encode(request));
    if (!healed) co_return fail(healed.error());
    ++mended_;
    if (!lost) metrics_.healed_slots.add();
  }
  co_return Status{};
}

}  // namespace s3oram
