// One server's part in root writes.
#include <sodium.h>

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"
#include "serverd/s3oram/server.h"

namespace s3oram {

Status Server::check_turn(Turn turn, std::uint64_t access) const {
  const unsigned every = params().evict_every;
  if (access == 0 || turn < first_turn(control_.view(), every) ||
      turn >= end_turn(control_.view(), every))
    return malformed();
  if (access < ring_[root_slot(turn, every)].stamp)
    return fail(Errc::bad_request, "the root slot of turn {} has a newer access", turn);
  return {};
}

Task<Result<Bytes>> Server::write_root(WriteRootRequest request, Payload&) {
  S3O_CO_TRY(check_turn(request.turn, request.access));
  S3O_CO_ASSIGN(auto share, co_await share_of(request));
  S3O_CO_TRY(check_turn(request.turn, request.access));
  const std::uint16_t slot = root_slot(request.turn, params().evict_every);
  if (share && request.access > ring_[slot].stamp) {
    keep_in_ring(slot, std::move(*share), request.access);
    parts_changed_.notify_all();
  }
  std::vector<Task<Status>> both;
  both.push_back(write_to_ring(slot, request.access));
  if (request.relay_to != kClient) both.push_back(relay_part(request));
  auto done_both = co_await all(std::move(both));
  for (auto& status : done_both) S3O_CO_TRY(status);
  co_return done();
}

Task<Status> Server::write_to_ring(std::uint16_t slot, std::uint64_t access) {
  const std::shared_ptr<const Bytes> content = ring_[slot].content;
  S3O_CO_TRY(co_await write_durably(kRing, slot, *content, access));
  if (ring_[slot].stamp == access) ring_[slot].durable = access;
  parts_changed_.notify_all();
  co_return Status{};
}

Task<Status> Server::relay_part(const WriteRootRequest& request) {
  RelayRequest relayed{
      .epoch = request.epoch, .turn = request.turn, .access = request.access, .part = {}};
  for (const SharePart& part : request.parts)
    if (!part.content.empty()) relayed.part = part.content;
  auto answer =
      co_await rpc_.call(request.relay_to, RelayRequest::kType, encode(relayed), kPeerPatience);
  // The client hears from that server itself what has gone wrong there.
  if (!answer) co_return fail(Errc::failed, "relaying: {}", answer.error().message);
  co_return Status{};
}

Task<Result<std::optional<Bytes>>> Server::share_of(const WriteRootRequest& request) {
  const std::size_t size = params().slot_size();
  if (!request.parts.empty() && params().scheme != Scheme{1, 3}) co_return malformed();
  if (request.parts.empty()) {
    if (request.share.size() != size) co_return malformed();
    co_return std::optional<Bytes>(Bytes(request.share.begin(), request.share.end()));
  }
  const std::uint16_t slot = root_slot(request.turn, params().evict_every);
  const std::pair key{request.turn, request.access};
  Bytes share(size);
  for (const SharePart& part : request.parts) {
    if (part.number < 1 || part.number > 3) co_return malformed();
    const std::uint8_t weight = part_weight(part.number, self_);
    if (part.seed) {
      co_await offload(pool_, size, [&] {
        gf::multiply_add(weight, expand(*part.seed, "root part", request.access, size), share);
      });
    } else if (!part.digest) {
      if (part.content.size() != size) co_return malformed();
      gf::multiply_add(weight, part.content, share);
    } else {
      while (!relayed_.contains(key)) {
        if (!goes_on(request.epoch)) co_return fail(Errc::need_open, "the session is over");
        if (ring_[slot].stamp >= request.access) co_return std::nullopt;
        co_await parts_changed_.wait();
      }
      const Payload message = std::move(relayed_.extract(key).mapped());
      const View content = decode<RelayRequest>(message.body())->part;
      Digest digest;
      crypto_generichash(digest.data(), digest.size(), content.data(), content.size(), nullptr, 0);
      if (content.size() != size || digest != *part.digest)
        co_return fail(Errc::failed, "a part was altered on its way to server {}", self_);
      gf::multiply_add(weight, content, share);
    }
  }
  co_return std::optional<Bytes>(std::move(share));
}

Task<Result<Bytes>> Server::relay(Party, Payload& payload) {
  const auto request = decode<RelayRequest>(payload.body());
  if (!request) co_return malformed();
  S3O_CO_TRY(check_session(request->epoch));
  if (request->part.size() != params().slot_size()) co_return malformed();
  S3O_CO_TRY(check_turn(request->turn, request->access));
  const std::uint64_t epoch = request->epoch, access = request->access;
  const Turn turn = request->turn;
  const std::uint16_t slot = root_slot(turn, params().evict_every);
  if (ring_[slot].stamp < access) {
    if (relayed_.size() >= most_under_way())
      co_return fail(Errc::bad_request, "too many relayed parts of unknown accesses");
    relayed_.insert_or_assign({turn, access}, std::move(payload));
    parts_changed_.notify_all();
  }
  ++accesses_;
  while (goes_on(epoch) && ring_[slot].durable < access) co_await parts_changed_.wait();
  relayed_.erase({turn, access});  // not taken if the client has sent the whole share
  --accesses_;
  handler_ended_.notify_all();
  if (!goes_on(epoch)) co_return fail(Errc::need_open, "the session is over");
  co_return done();
}

void Server::keep_in_ring(std::uint16_t slot, Bytes share, std::uint64_t stamp) {
  ring_[slot] = {std::make_shared<const Bytes>(std::move(share)), stamp};
}

Task<Status> Server::write_durably(FrameNumber frame, std::uint16_t slot, View share,
                                   std::uint64_t stamp) {
  auto write = [&] { return frames_->write_slot(frame, slot, share, stamp); };
  co_return co_await sync_->write(std::move(write));
}

Status Server::check_ring_slot(std::size_t slot) const {
  if (ring_[slot].stamp == 0)
    return fail(Errc::corrupt, "root slot {} of server {} is lost", slot, self_);
  return {};
}

Result<BucketRows> Server::ring_rows(const PathSlots& path) const {
  BucketRows bucket;
  for (std::size_t i = 0; i < path.writes(); ++i) {
    const std::uint16_t slot = path.ring_slot(i);
    S3O_TRY(check_ring_slot(slot));
    bucket.rows.push_back(ring_[slot].content->data());
    bucket.owners.push_back(ring_[slot].content);
  }
  return bucket;
}

Status Server::check_evictions_until(std::uint64_t view) const {
  if (view <= control_.view()) return {};
  return fail(Errc::wrong_volume,
              "server {} has lost evictions {} to {}: its store was set back to an old state",
              self_, control_.view(), view - 1);
}

Status Server::check_view(std::uint64_t view) const {
  S3O_TRY(check_evictions_until(view));
  if (view != control_.view())
    return fail(Errc::bad_request, "view {} is not the present one, {}", view, control_.view());
  return {};
}

}  // namespace s3oram
