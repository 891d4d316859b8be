// One server's part in the healing of damaged slots.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "serverd/server.h"

namespace s3oram {

Result<Server::Place> Server::place_of(SlotAddress at) const {
  const std::uint32_t ring = params().ring_slots();
  const bool root = at.bucket == kRoot;
  if (at.slot >= (root ? params().root_slots() : params().bucket_size)) return malformed();
  if (root && at.slot < ring) return Place{{}, at.slot, true};
  const std::size_t z = params().bucket_size;
  const std::size_t in_stash = at.slot - ring;
  auto ref = control_.bucket(root ? kStashBucket + in_stash / z : at.bucket, control_.view());
  if (!ref) return fail(ref.error());
  return Place{*ref, static_cast<std::uint16_t>(root ? in_stash % z : at.slot), false};
}

SlotAddress Server::address_of(BucketIndex bucket, std::uint16_t slot) const {
  if (bucket < kStashBucket) return {bucket, slot};
  const std::size_t in_stash = (bucket - kStashBucket) * params().bucket_size + slot;
  return {kRoot, static_cast<std::uint16_t>(params().ring_slots() + in_stash)};
}

Task<Result<Bytes>> Server::damage(DamageRequest request, Payload&) {
  S3O_CO_TRY(check_view(request.view));
  const unsigned every = params().evict_every;
  if (request.written > end_turn(request.view, every)) co_return malformed();
  DamageAnswer answer;
  for (Turn turn = first_turn(request.view, every); turn < request.written; ++turn)
    if (const std::uint16_t slot = root_slot(turn, every); ring_[slot].stamp == 0)
      answer.slots.push_back({kRoot, slot});
  const auto buckets = std::exchange(damaged_, {});
  for (const BucketIndex bucket : buckets) {
    auto ref = control_.bucket(bucket, request.view);
    if (!ref || ref->frame == 0) continue;
    auto slots = co_await offload(pool_, [&] { return frames_->damaged(*ref); });
    if (!slots) co_return fail(slots.error());
    for (const std::uint16_t slot : *slots) answer.slots.push_back(address_of(bucket, slot));
  }
  co_return encode(answer);
}

Task<Result<Bytes>> Server::read_slot(ReadSlotRequest request, Payload&) {
  S3O_CO_TRY(check_view(request.view));
  const auto place = place_of(request.at);
  if (!place) co_return fail(place.error());
  if (place->in_ring) S3O_CO_TRY(check_ring_slot(place->slot));
  Bytes answer(Rpc::kHeaderSize + params().slot_size());
  if (!place->in_ring && place->slot >= place->ref.slots) co_return answer;
  auto found = co_await offload(
      pool_, [&] { return frames_->read_slot(place->ref.frame, place->slot, place->ref.stamp); });
  if (!found) co_return fail(found.error());
  if (!*found)
    co_return fail(Errc::corrupt, "slot {} of bucket {} is damaged at server {}", request.at.slot,
                   request.at.bucket, self_);
  std::copy((*found)->content.begin(), (*found)->content.end(), answer.begin() + Rpc::kHeaderSize);
  co_return answer;
}

// In place: what is there cannot be read anyway, and no view holds anything else there.
Task<Result<Bytes>> Server::heal_slot(HealSlotRequest request, Payload&) {
  S3O_CO_TRY(check_view(request.view));
  const auto place = place_of(request.at);
  if (!place) co_return fail(place.error());
  if (request.share.size() != params().slot_size() ||
      (place->in_ring ? request.access == 0 : place->slot >= place->ref.slots))
    co_return malformed();
  const std::uint64_t stamp =
      place->in_ring ? request.access : place->ref.stamp.value_or(request.view);
  if (place->in_ring)
    keep_in_ring(place->slot, Bytes(request.share.begin(), request.share.end()), stamp);
  auto written = place->in_ring
                     ? write_to_ring(place->slot, stamp)
                     : write_durably(place->ref.frame, place->slot, request.share, stamp);
  S3O_CO_TRY(co_await std::move(written));
  metrics_.healed_slots.add();
  spdlog::warn("slot {} of bucket {} was damaged and is healed", request.at.slot,
               request.at.bucket);
  co_return done();
}

}  // namespace s3oram
