// One server's part in accesses, and in the healing of damaged slots.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "serverd/server.h"

namespace s3oram {

Task<Result<Bytes>> Server::retrieve(RetrieveRequest request, Payload&) {
  const unsigned every = params().evict_every;
  if (request.height > kMaxHeight || request.written < first_turn(request.view, every) ||
      request.written > end_turn(request.view, every))
    co_return malformed();
  const PathSlots path(params(), request.view, request.written, request.height);
  if (request.query.size() != path.count()) co_return malformed();
  View left = request.query;
  const auto next = [&left](std::size_t size) {
    const View first = left.first(size);
    left = left.subspan(size);
    return first;
  };
  const View of_ring = next(path.writes());
  struct Part {
    BucketIndex bucket;
    FrameRef ref;
    View query;
  };
  std::vector<Part> parts;
  for (const BucketIndex bucket : path_buckets(params(), request.leaf, request.height)) {
    auto ref = control_.bucket(bucket, request.view);
    if (!ref) co_return fail(ref.error());
    const View query = next(params().bucket_size);
    if (ref->frame != 0) parts.push_back({bucket, *ref, query.first(ref->slots)});
  }
  auto ring = ring_rows(path);
  if (!ring) co_return fail(ring.error());

  ++retrievals_[request.view];
  std::vector<BucketIndex> damaged;
  auto result = co_await offload(pool_, [&]() -> Result<Bytes> {
    Bytes answer(Rpc::kHeaderSize + params().slot_size());
    const MutView out = MutView(answer).subspan(Rpc::kHeaderSize);
    gf::inner_product(of_ring, ring->rows, out);
    Status all;
    for (const Part& part : parts) {
      auto frame = frames_->read(part.ref.frame, part.ref.slots);
      if (frame) {
        gf::inner_product(part.query, rows_of(*frame, part.ref.slots).rows, out);
      } else {
        damaged.push_back(part.bucket);
        all = fail(frame.error());
      }
    }
    if (!all) return fail(all.error());
    return answer;
  });
  if (--retrievals_[request.view] == 0) retrievals_.erase(request.view);
  if (request.view == control_.view()) damaged_.insert(damaged.begin(), damaged.end());
  co_return result;
}

Task<Result<Bytes>> Server::write_root(WriteRootRequest request, Payload&) {
  const unsigned every = params().evict_every;
  if (request.share.size() != params().slot_size() || request.access == 0 ||
      request.turn < first_turn(control_.view(), every) ||
      request.turn >= end_turn(control_.view(), every))
    co_return malformed();
  const std::uint16_t slot = root_slot(request.turn, every);
  if (request.access < ring_[slot].stamp)
    co_return fail(Errc::bad_request, "root slot {} has a newer access", slot);
  if (request.access > ring_[slot].stamp) keep_in_ring(slot, request.share, request.access);
  S3O_CO_TRY(co_await write_durably(kRing, slot, request.share, request.access));
  co_return done();
}

void Server::keep_in_ring(std::uint16_t slot, View share, std::uint64_t stamp) {
  ring_[slot] = {std::make_shared<const Bytes>(share.begin(), share.end()), stamp};
}

Task<Status> Server::write_durably(FrameNumber frame, std::uint16_t slot, View share,
                                   std::uint64_t stamp) {
  const auto begun = sync_->begin();
  S3O_CO_TRY(
      co_await offload(pool_, [&] { return frames_->write_slot(frame, slot, share, stamp); }));
  co_return co_await sync_->sync(begun);
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

Status Server::check_view(std::uint64_t view) const {
  if (view != control_.view())
    return fail(Errc::bad_request, "view {} is not the present one, {}", view, control_.view());
  return {};
}

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
    auto slots = co_await offload(pool_, [&] { return frames_->damaged(ref->frame, ref->slots); });
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
  auto found =
      co_await offload(pool_, [&] { return frames_->read_slot(place->ref.frame, place->slot); });
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
  const std::uint64_t stamp = place->in_ring ? request.access : request.view;
  if (place->in_ring) keep_in_ring(place->slot, request.share, stamp);
  S3O_CO_TRY(co_await write_durably(place->ref.frame, place->slot, request.share, stamp));
  spdlog::warn("slot {} of bucket {} was damaged and is healed", request.at.slot,
               request.at.bucket);
  co_return done();
}

}  // namespace s3oram
