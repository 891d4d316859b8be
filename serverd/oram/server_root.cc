// One server's part in root writes.
#include "serverd/oram/server_root.h"

#include <sodium.h>

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {

namespace {

/// Returns whether this is not a part, but only names the server to which the part is relayed.
bool is_receiver(const SharePart& part) {
  return part.content.empty() && !part.seed && !part.digest;
}

}  // namespace

Status ServerRoot::check_write_number(WriteNumber write_number, std::uint64_t access) const {
  const unsigned every = state_.params().evict_every;
  if (access == 0 || write_number < first_write_number(state_.control.tree_version(), every) ||
      write_number >= end_write_number(state_.control.tree_version(), every))
    return malformed();
  if (access < state_.root_buffer[root_slot(write_number, every)].stamp)
    return fail(Errc::bad_request, "the slot of root write {} has a newer access", write_number);
  return {};
}

Task<Result<Bytes>> ServerRoot::write_root(WriteRootRequest request, Payload&) {
  S3O_CO_TRY(check_write_number(request.write_number, request.access));
  S3O_CO_ASSIGN(auto share, co_await share_of(request));
  S3O_CO_TRY(check_write_number(request.write_number, request.access));
  const std::uint16_t slot = root_slot(request.write_number, state_.params().evict_every);
  if (share && request.access > state_.root_buffer[slot].stamp) {
    state_.root_buffer.keep(slot, std::move(*share), request.access);
    state_.changed.notify_all();
  }
  std::vector<Task<Status>> both;
  both.push_back(write_to_buffer(slot, request.access));
  both.push_back(relay_part(request));
  auto done_both = co_await all(std::move(both));
  for (auto& status : done_both) S3O_CO_TRY(status);
  co_return done();
}

Task<Status> ServerRoot::write_to_buffer(std::uint16_t slot, std::uint64_t access) {
  const std::shared_ptr<const Bytes> content = state_.root_buffer[slot].content;
  state_.record.root_write(slot);
  S3O_CO_TRY(co_await write_durably(kRootBuffer, slot, *content, access));
  if (state_.root_buffer[slot].stamp == access) state_.root_buffer[slot].durable = access;
  state_.changed.notify_all();
  co_return Status{};
}

Task<Status> ServerRoot::relay_part(const WriteRootRequest& request) {
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

Task<Status> ServerRoot::relay_to(Party receiver, RelayRequest relayed) {
  auto answer =
      co_await state_.rpc.call(receiver, RelayRequest::kType, encode(relayed), kPeerPatience);
  // That server itself tells the client what went wrong.
  if (!answer) co_return fail(Errc::failed, "relaying: {}", answer.error().message);
  co_return Status{};
}

Task<Result<std::optional<Bytes>>> ServerRoot::share_of(const WriteRootRequest& request) {
  const std::size_t size = state_.params().slot_size();
  if (!request.parts.empty() && !state_.scheme->takes_parts()) co_return malformed();
  if (request.parts.empty()) {
    if (request.share.size() != size) co_return malformed();
    co_return std::optional<Bytes>(Bytes(request.share.begin(), request.share.end()));
  }
  const std::uint16_t slot = root_slot(request.write_number, state_.params().evict_every);
  const std::pair key{request.write_number, request.access};
  Bytes share(size);
  const std::size_t part_size = state_.scheme->part_size();
  const MutableByteSpan end = MutableByteSpan(share).last(part_size);
  bool given = false;
  for (const SharePart& part : request.parts) {
    if (is_receiver(part) && part.number >= 1 && part.number <= state_.params().scheme.servers)
      continue;
    given = true;
    const auto weight = state_.scheme->part_weight(part.number);
    if (!weight) co_return malformed();
    if (part.seed) {
      co_await offload(state_.pool, part_size, [&] {
        gf::multiply_add(*weight, expand(*part.seed, "root part", request.access, part_size), end);
      });
    } else if (!part.digest) {
      if (part.content.size() != part_size) co_return malformed();
      gf::multiply_add(*weight, part.content, end);
    } else {
      while (!relayed_.contains(key)) {
        if (!state_.goes_on(request.epoch)) co_return fail(Errc::need_open, "the session is over");
        if (state_.root_buffer[slot].stamp >= request.access) co_return std::nullopt;
        co_await state_.changed.wait();
      }
      const Payload message = std::move(relayed_.extract(key).mapped());
      const ByteSpan content = decode<RelayRequest>(message.body())->part;
      Digest digest;
      crypto_generichash(digest.data(), digest.size(), content.data(), content.size(), nullptr, 0);
      if (content.size() != part_size || digest != *part.digest)
        co_return fail(Errc::failed, "a part was altered on its way to server {}", state_.self);
      gf::multiply_add(*weight, content, end);
    }
  }
  if (!given) co_return malformed();
  co_return std::optional<Bytes>(std::move(share));
}

Task<Result<Bytes>> ServerRoot::receive(Party from, Payload& payload) {
  const auto request = decode<RelayRequest>(payload.body());
  if (!request) co_return malformed();
  S3O_CO_TRY(state_.check_session(request->epoch));
  if (request->part.size() != state_.scheme->part_size()) co_return malformed();
  S3O_CO_TRY(check_write_number(request->write_number, request->access));
  const std::uint64_t epoch = request->epoch, access = request->access;
  const WriteNumber write_number = request->write_number;
  const std::uint16_t slot = root_slot(write_number, state_.params().evict_every);
  // Before a root slot is filled, at most two parts may wait for it: that of the write, and that of
  // its repetition.
  if (relays_[from] >= 2 * state_.params().root_buffer_slots())
    co_return fail(Errc::bad_request, "server {} relays more parts than there are root slots",
                   from);
  if (state_.root_buffer[slot].stamp < access) {
    relayed_.insert_or_assign({write_number, access}, std::move(payload));
    state_.changed.notify_all();
  }
  ++state_.accesses;
  ++relays_[from];
  Status wanted;
  while (state_.goes_on(epoch) && wanted && state_.root_buffer[slot].durable < access) {
    co_await state_.changed.wait();
    wanted = check_write_number(write_number, access);  // fails once the write is evicted
  }
  relayed_.erase({write_number, access});  // left over if the client sent the whole share
  --relays_[from];
  --state_.accesses;
  state_.handler_ended.notify_all();
  if (!state_.goes_on(epoch)) co_return fail(Errc::need_open, "the session is over");
  S3O_CO_TRY(wanted);
  co_return done();
}

Task<Status> ServerRoot::write_durably(BucketVersionNumber bucket_version, std::uint16_t slot,
                                       ByteSpan share, std::uint64_t stamp) {
  auto write = [&] { return state_.bucket_store->write_slot(bucket_version, slot, share, stamp); };
  co_return co_await state_.sync->write(std::move(write));
}

}  // namespace s3oram
