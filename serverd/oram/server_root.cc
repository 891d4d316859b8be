// One server's part in root writes.
#include <sodium.h>

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"
#include "serverd/oram/server.h"

namespace s3oram {

namespace {

/// Not a part, but the name of a server to relay the part to.
bool is_receiver(const SharePart& part) {
  return part.content.empty() && !part.seed && !part.digest;
}

}  // namespace

Status Server::check_write_number(WriteNumber write_number, std::uint64_t access) const {
  const unsigned every = params().evict_every;
  if (access == 0 || write_number < first_write_number(control_.tree_version(), every) ||
      write_number >= end_write_number(control_.tree_version(), every))
    return malformed();
  if (access < root_buffer_[root_slot(write_number, every)].stamp)
    return fail(Errc::bad_request, "the root slot of turn {} has a newer access", write_number);
  return {};
}

Task<Result<Bytes>> Server::write_root(WriteRootRequest request, Payload&) {
  S3O_CO_TRY(check_write_number(request.write_number, request.access));
  S3O_CO_ASSIGN(auto share, co_await share_of(request));
  S3O_CO_TRY(check_write_number(request.write_number, request.access));
  const std::uint16_t slot = root_slot(request.write_number, params().evict_every);
  if (share && request.access > root_buffer_[slot].stamp) {
    keep_in_root_buffer(slot, std::move(*share), request.access);
    parts_changed_.notify_all();
  }
  std::vector<Task<Status>> both;
  both.push_back(write_to_root_buffer(slot, request.access));
  both.push_back(relay_part(request));
  auto done_both = co_await all(std::move(both));
  for (auto& status : done_both) S3O_CO_TRY(status);
  co_return done();
}

Task<Status> Server::write_to_root_buffer(std::uint16_t slot, std::uint64_t access) {
  const std::shared_ptr<const Bytes> content = root_buffer_[slot].content;
  record_root_write(slot);
  S3O_CO_TRY(co_await write_durably(kRootBuffer, slot, *content, access));
  if (root_buffer_[slot].stamp == access) root_buffer_[slot].durable = access;
  parts_changed_.notify_all();
  co_return Status{};
}

Task<Status> Server::relay_part(const WriteRootRequest& request) {
  RelayRequest relayed{.epoch = request.epoch,
                       .write_number = request.write_number,
                       .access = request.access,
                       .part = {}};
  Bytes receivers;
  if (request.relay_to != kClient) receivers.push_back(request.relay_to);
  for (const SharePart& part : request.parts)
    if (!part.content.empty())
      relayed.part = part.content;
    else if (is_receiver(part))
      receivers.push_back(part.number);
  std::vector<Task<Status>> relays;
  for (const Party receiver : receivers) relays.push_back(relay_to(receiver, relayed));
  auto done_all = co_await all(std::move(relays));
  for (auto& status : done_all) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Status> Server::relay_to(Party receiver, RelayRequest relayed) {
  auto answer = co_await rpc_.call(receiver, RelayRequest::kType, encode(relayed), kPeerPatience);
  // That server itself tells the client what went wrong there.
  if (!answer) co_return fail(Errc::failed, "relaying: {}", answer.error().message);
  co_return Status{};
}

Task<Result<std::optional<Bytes>>> Server::share_of(const WriteRootRequest& request) {
  const std::size_t size = params().slot_size();
  if (!request.parts.empty() && !scheme_->takes_parts()) co_return malformed();
  if (request.parts.empty()) {
    if (request.share.size() != size) co_return malformed();
    co_return std::optional<Bytes>(Bytes(request.share.begin(), request.share.end()));
  }
  const std::uint16_t slot = root_slot(request.write_number, params().evict_every);
  const std::pair key{request.write_number, request.access};
  Bytes share(size);
  const std::size_t part_size = scheme_->part_size();
  const MutableByteSpan end = MutableByteSpan(share).last(part_size);
  bool given = false;
  for (const SharePart& part : request.parts) {
    if (is_receiver(part) && part.number >= 1 && part.number <= params().scheme.servers) continue;
    given = true;
    const auto weight = scheme_->part_weight(part.number);
    if (!weight) co_return malformed();
    if (part.seed) {
      co_await offload(pool_, part_size, [&] {
        gf::multiply_add(*weight, expand(*part.seed, "root part", request.access, part_size), end);
      });
    } else if (!part.digest) {
      if (part.content.size() != part_size) co_return malformed();
      gf::multiply_add(*weight, part.content, end);
    } else {
      while (!relayed_.contains(key)) {
        if (!goes_on(request.epoch)) co_return fail(Errc::need_open, "the session is over");
        if (root_buffer_[slot].stamp >= request.access) co_return std::nullopt;
        co_await parts_changed_.wait();
      }
      const Payload message = std::move(relayed_.extract(key).mapped());
      const ByteSpan content = decode<RelayRequest>(message.body())->part;
      Digest digest;
      crypto_generichash(digest.data(), digest.size(), content.data(), content.size(), nullptr, 0);
      if (content.size() != part_size || digest != *part.digest)
        co_return fail(Errc::failed, "a part was altered on its way to server {}", self_);
      gf::multiply_add(*weight, content, end);
    }
  }
  if (!given) co_return malformed();
  co_return std::optional<Bytes>(std::move(share));
}

Task<Result<Bytes>> Server::relay(Party from, Payload& payload) {
  const auto request = decode<RelayRequest>(payload.body());
  if (!request) co_return malformed();
  S3O_CO_TRY(check_session(request->epoch));
  if (request->part.size() != scheme_->part_size()) co_return malformed();
  S3O_CO_TRY(check_write_number(request->write_number, request->access));
  const std::uint64_t epoch = request->epoch, access = request->access;
  const WriteNumber write_number = request->write_number;
  const std::uint16_t slot = root_slot(write_number, params().evict_every);
  // A root slot is written twice at most while it is nobody's: by a write and by its repetition.
  if (relays_[from] >= 2 * params().root_buffer_slots())
    co_return fail(Errc::bad_request, "server {} relays more parts than there are root slots",
                   from);
  if (root_buffer_[slot].stamp < access) {
    relayed_.insert_or_assign({write_number, access}, std::move(payload));
    parts_changed_.notify_all();
  }
  ++accesses_;
  ++relays_[from];
  Status wanted;
  while (goes_on(epoch) && wanted && root_buffer_[slot].durable < access) {
    co_await parts_changed_.wait();
    wanted = check_write_number(write_number, access);  // not once it is evicted
  }
  relayed_.erase({write_number, access});  // it is left if the client has sent the whole share
  --relays_[from];
  --accesses_;
  handler_ended_.notify_all();
  if (!goes_on(epoch)) co_return fail(Errc::need_open, "the session is over");
  S3O_CO_TRY(wanted);
  co_return done();
}

void Server::keep_in_root_buffer(std::uint16_t slot, Bytes share, std::uint64_t stamp) {
  root_buffer_[slot] = {std::make_shared<const Bytes>(std::move(share)), stamp};
}

Task<Status> Server::write_durably(BucketVersionNumber bucket_version, std::uint16_t slot,
                                   ByteSpan share, std::uint64_t stamp) {
  auto write = [&] { return bucket_store_->write_slot(bucket_version, slot, share, stamp); };
  co_return co_await sync_->write(std::move(write));
}

Status Server::check_root_buffer_slot(std::size_t slot) const {
  if (root_buffer_[slot].stamp == 0)
    return fail(Errc::corrupt, "root slot {} of server {} is lost", slot, self_);
  return {};
}

Result<BucketRows> Server::root_buffer_rows(const PathSlots& path) const {
  BucketRows bucket;
  for (std::size_t i = 0; i < path.writes(); ++i) {
    const std::uint16_t slot = path.root_buffer_slot(i);
    S3O_TRY(check_root_buffer_slot(slot));
    bucket.rows.push_back(root_buffer_[slot].content->data());
    bucket.owners.push_back(root_buffer_[slot].content);
  }
  return bucket;
}

Status Server::check_evictions_until(std::uint64_t tree_version) const {
  if (tree_version <= control_.tree_version()) return {};
  return fail(Errc::wrong_volume,
              "server {} has lost evictions {} to {}: its store was set back to an old state",
              self_, control_.tree_version(), tree_version - 1);
}

Status Server::check_tree_version(std::uint64_t tree_version) const {
  S3O_TRY(check_evictions_until(tree_version));
  if (tree_version != control_.tree_version())
    return fail(Errc::bad_request, "view {} is not the present one, {}", tree_version,
                control_.tree_version());
  return {};
}

}  // namespace s3oram
