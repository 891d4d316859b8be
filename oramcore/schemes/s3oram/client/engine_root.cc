// Root writes (Protocol 2): a block's shares go to the root slot of its turn.
#include <sodium.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/field/gf256.h"
#include "oramcore/schemes/s3oram/client/engine.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {

Task<Status> Engine::send_share(Party server, Bytes message) {
  S3O_CO_TRY(co_await servers_.ask(server, WriteRootRequest::kType, std::move(message)));
  co_return Status{};
}

/// As in the paper: every server is sent its share.
Task<std::vector<Status>> Engine::send_shares(WriteRootRequest request, ByteSpan sealed) {
  const auto shares = create_shares(params_.scheme, sealed, environment_.random);
  auto sent = co_await for_all(servers_.count(), [&](Party server) {
    request.share = shares[server - 1u];
    return send_share(server, encode(request));
  });
  co_return sent;
}

/// One block up: of the block's three parts (sharing/seeded.h) part `lacking` is not random. Of the
/// two servers that need it, `giver` is sent it and relays it to `taker`.
struct Engine::RootParts {
  WriteRootRequest request;
  Party lacking = 0, giver = 0, taker = 0;
  Bytes part;       // number `lacking`
  Seed seeds[4];    // of the others, by number
  Bytes random[4];  // what they stand for

  Bytes message(Party server) const;
  Bytes whole_share(Party server) const;
};

Bytes Engine::RootParts::message(Party server) const {
  WriteRootRequest message = request;
  for (const Party number : {lacking, giver, taker}) {
    if (number == server) continue;
    SharePart& each = message.parts.emplace_back();
    each.number = number;
    if (number != lacking) {
      each.seed = seeds[number];
    } else if (server == giver) {
      each.content = part;
    } else {
      crypto_generichash(each.digest.emplace().data(), sizeof(Digest), part.data(), part.size(),
                         nullptr, 0);
    }
  }
  if (server == giver) message.relay_to = taker;
  return encode(message);
}

Bytes Engine::RootParts::whole_share(Party server) const {
  WriteRootRequest message = request;
  Bytes whole(part.size());
  gf::multiply_add(part_weight(lacking, server), part, whole);
  for (const Party number : {giver, taker})
    gf::multiply_add(part_weight(number, server), random[number], whole);
  message.share = whole;
  return encode(message);
}

Task<std::vector<Status>> Engine::send_parts(WriteRootRequest request, ByteSpan sealed) {
  RootParts parts;
  parts.request = std::move(request);
  parts.lacking = static_cast<Party>(1 + parts.request.write_number % 3);
  parts.giver = static_cast<Party>(1 + parts.lacking % 3);
  parts.taker = static_cast<Party>(1 + parts.giver % 3);
  parts.part.assign(sealed.begin(), sealed.end());
  for (const Party number : {parts.giver, parts.taker}) {
    parts.seeds[number] = environment_.random.seed();
    parts.random[number] =
        expand(parts.seeds[number], "root part", parts.request.access, sealed.size());
    gf::multiply_add(1, parts.random[number], parts.part);
  }
  const auto attempt = std::make_shared<Servers::JointAttempt>();
  auto sent = co_await for_all(servers_.count(),
                               [&](Party server) { return send_parts_to(server, parts, attempt); });
  co_return sent;
}

/// When something goes wrong, the servers that it concerns are sent their whole shares.
Task<Status> Engine::send_parts_to(Party server, const RootParts& parts,
                                   std::shared_ptr<Servers::JointAttempt> attempt) {
  auto answer = co_await servers_.ask_once(server, WriteRootRequest::kType, parts.message(server),
                                           std::move(attempt));
  if (answer) co_return Status{};
  if (!Servers::may_pass(answer.error().code)) co_return fail(answer.error());
  std::vector<Task<Status>> again;
  again.push_back(send_share(server, parts.whole_share(server)));
  if (server == parts.giver)
    again.push_back(send_share(parts.taker, parts.whole_share(parts.taker)));
  auto sent = co_await all(std::move(again));
  for (auto& status : sent) S3O_CO_TRY(status);
  co_return Status{};
}

// Protocol 2, steps 2 to 10: fresh shares into the next root slot, and a fresh leaf.
Task<Status> Engine::write_root(WriteNumber write_number, Label label, std::uint64_t replaces,
                                ByteSpan content, std::function<void(Status)> written) {
  const std::uint64_t access = next_access_++;
  const BlockId block = label.block;
  const Leaf leaf = random_leaf(environment_.random);
  label.version = access;
  label.leaf = leaf;
  const Bytes sealed = sealer_.seal(label, content);
  const auto acknowledged = [&] {
    root_[root_slot(write_number, params_.evict_every)] = {.acknowledged = true,
                                                           .block = block,
                                                           .replaces = replaces,
                                                           .leaf = leaf,
                                                           .version = access,
                                                           .written = std::move(written)};
  };
  if (!rule_holds(Rule::acknowledged_positions)) {
    acknowledged();
    acknowledge_in_order();
  }
  const WriteRootRequest request{.epoch = session_.epoch,
                                 .write_number = write_number,
                                 .access = access,
                                 .share = {},
                                 .parts = {},
                                 .relay_to = kClient};
  const Duration begun = environment_.clock.now();
  const std::size_t before = ++uploads_;
  const bool by_parts = params_.privacy == Privacy::computational && params_.scheme == Scheme{1, 3};
  auto sending = by_parts ? send_parts(request, sealed) : send_shares(request, sealed);
  auto answers = co_await std::move(sending);
  // Those that came later share the line with it too.
  const auto sharing = static_cast<Duration::rep>(std::max(before, uploads_--));
  upload_each_ = (environment_.clock.now() - begun) / sharing;
  write_numbers_changed_.notify_all();
  for (auto& answer : answers) {
    if (answer) continue;
    // This write stays unacknowledged for ever, and with it all that follow.
    die(answer.error());
    co_return fail(*dead_);
  }
  if (dead_) co_return fail(*dead_);
  if (rule_holds(Rule::acknowledged_positions)) acknowledged();
  acknowledge_in_order();
  while (!dead_ && tree_.written <= write_number) co_await write_numbers_changed_.wait();
  if (tree_.written <= write_number) co_return fail(*dead_);
  co_return Status{};
}

// A retrieval covers the root writes before `written`, so they count in their order.
void Engine::acknowledge_in_order() {
  for (;;) {
    const std::uint16_t slot = root_slot(tree_.written, params_.evict_every);
    if (!root_[slot].acknowledged) break;
    RootWrite write = std::exchange(root_[slot], {});
    access_records_[slot].access = write.version;
    pending_.access_records[slot] = access_records_[slot];
    if (write.block != kNoBlock && positions_.get(write.block).version == write.replaces) {
      set_position(write.block, {.kind = Position::Kind::tree,
                                 .leaf = write.leaf,
                                 .level = 0,
                                 .slot = slot,
                                 .version = write.version});
      mark_readable(write.block);
    }
    ++tree_.written;
    if (write.written) write.written({});
  }
  write_numbers_changed_.notify_all();
  if (may_evict_ && !evicting_ && eviction_due()) {
    evicting_ = true;
    start(evict());
  }
}

void Engine::set_position(BlockId block, const Position& position) {
  if (positions_.get(block).kind == Position::Kind::stash &&
      position.kind != Position::Kind::stash) {
    stash_.erase(block);
    pending_.stash[block].reset();
  }
  positions_.set(block, position);
  pending_.positions[block] =
      StateChanges::Row{PositionMap::pack(position, tree_.height), position.version};
}

}  // namespace s3oram
