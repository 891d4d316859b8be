// One server's part in accesses, and in the healing of damaged slots.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "serverd/server.h"

namespace s3oram {

Task<Result<Bytes>> Server::retrieve(RetrieveRequest request, Payload&) {
  const std::size_t z = params().bucket_size;
  if (request.height > kMaxHeight || request.written > z ||
      request.query.size() != request.written + request.height * z)
    co_return malformed();
  struct Part {
    BucketIndex bucket;
    FrameRef ref;
    View query;
  };
  std::vector<Part> parts;
  std::shared_ptr<const Frame> root;
  if (request.view == control_.view()) {
    S3O_CO_TRY(check_root(request.written));
    root = root_;
  } else {
    auto ref = control_.bucket(kRoot, request.view);
    if (!ref) co_return fail(ref.error());
    parts.push_back({kRoot, {ref->frame, request.written}, request.query.first(request.written)});
  }
  View left = request.query.subspan(request.written);
  for (unsigned level = 1; level <= request.height; ++level, left = left.subspan(z)) {
    const BucketIndex bucket = bucket_on_path(request.leaf, level);
    auto ref = control_.bucket(bucket, request.view);
    if (!ref) co_return fail(ref.error());
    if (ref->frame != 0) parts.push_back({bucket, *ref, left.first(ref->slots)});
  }
  std::vector<BucketIndex> damaged;
  auto result = co_await offload(pool_, [&]() -> Result<Bytes> {
    Bytes answer(Rpc::kHeaderSize + params().slot_size());
    const MutView out = MutView(answer).subspan(Rpc::kHeaderSize);
    std::vector<const std::uint8_t*> rows;
    const auto add = [&](const Frame& frame, View query) {
      rows.resize(query.size());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = frame.slot(i);
      gf::inner_product(query, rows, out);
    };
    if (root) add(*root, request.query.first(request.written));
    Status all;
    for (const Part& part : parts) {
      auto frame = frames_->read(part.ref.frame, part.ref.slots);
      if (frame) {
        add(**frame, part.query);
      } else {
        damaged.push_back(part.bucket);
        all = fail(frame.error());
      }
    }
    if (!all) return fail(all.error());
    return answer;
  });
  damaged_.insert(damaged.begin(), damaged.end());
  co_return result;
}

Task<Result<Bytes>> Server::write_root(WriteRootRequest request, Payload&) {
  if (request.slot >= params().bucket_size || request.share.size() != params().slot_size())
    co_return malformed();
  S3O_CO_TRY(check_view(request.view));
  std::uint64_t& stamp = stamps_[request.slot];
  if (request.access == 0 || request.access < stamp)
    co_return fail(Errc::bad_request, "root slot {} has a newer access", request.slot);
  if (request.access > stamp) {
    stamp = request.access;
    std::copy(request.share.begin(), request.share.end(), root_->slot(request.slot));
  }
  S3O_CO_TRY(co_await write_durably(root_frame_, request.slot, request.share, request.access));
  co_return done();
}

Task<Status> Server::write_durably(FrameNumber frame, std::uint16_t slot, View share,
                                   std::uint64_t stamp) {
  const auto begun = sync_->begin();
  S3O_CO_TRY(
      co_await offload(pool_, [&] { return frames_->write_slot(frame, slot, share, stamp); }));
  co_return co_await sync_->sync(begun);
}

Status Server::check_root(std::size_t written) const {
  for (std::size_t slot = 0; slot < written; ++slot) S3O_TRY(check_root_slot(slot));
  return {};
}

Status Server::check_root_slot(std::size_t slot) const {
  if (stamps_[slot] == 0)
    return fail(Errc::corrupt, "root slot {} of server {} is lost", slot, self_);
  return {};
}

Status Server::check_view(std::uint64_t view) const {
  if (view != control_.view())
    return fail(Errc::bad_request, "view {} is not the present one, {}", view, control_.view());
  return {};
}

Task<Result<Bytes>> Server::damage(DamageRequest request, Payload&) {
  S3O_CO_TRY(check_view(request.view));
  DamageAnswer answer;
  for (std::uint16_t slot = 0; slot < std::min<std::size_t>(request.written, stamps_.size());
       ++slot)
    if (stamps_[slot] == 0) answer.slots.push_back({kRoot, slot});
  const auto buckets = std::exchange(damaged_, {});
  for (const BucketIndex bucket : buckets) {
    auto ref = control_.bucket(bucket, request.view);
    if (!ref || ref->frame == 0) continue;
    auto slots = co_await offload(pool_, [&] { return frames_->damaged(ref->frame, ref->slots); });
    if (!slots) co_return fail(slots.error());
    for (const std::uint16_t slot : *slots) answer.slots.push_back({bucket, slot});
  }
  co_return encode(answer);
}

Task<Result<Bytes>> Server::read_slot(ReadSlotRequest request, Payload&) {
  S3O_CO_TRY(check_view(request.view));
  if (request.at.slot >= params().bucket_size) co_return malformed();
  auto ref = control_.bucket(request.at.bucket, request.view);
  if (!ref) co_return fail(ref.error());
  const bool root = request.at.bucket == kRoot;
  if (root) S3O_CO_TRY(check_root_slot(request.at.slot));
  Bytes answer(Rpc::kHeaderSize + params().slot_size());
  if (!root && request.at.slot >= ref->slots) co_return answer;
  auto found =
      co_await offload(pool_, [&] { return frames_->read_slot(ref->frame, request.at.slot); });
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
  auto ref = control_.bucket(request.at.bucket, request.view);
  if (!ref) co_return fail(ref.error());
  const bool root = request.at.bucket == kRoot;
  if (request.share.size() != params().slot_size() ||
      request.at.slot >= (root ? params().bucket_size : ref->slots) ||
      (root && request.access == 0))
    co_return malformed();
  const std::uint64_t stamp = root ? request.access : request.view;
  if (root) {
    stamps_[request.at.slot] = stamp;
    std::copy(request.share.begin(), request.share.end(), root_->slot(request.at.slot));
  }
  S3O_CO_TRY(co_await write_durably(ref->frame, request.at.slot, request.share, stamp));
  spdlog::warn("slot {} of bucket {} was damaged and is healed", request.at.slot,
               request.at.bucket);
  co_return done();
}

}  // namespace s3oram
