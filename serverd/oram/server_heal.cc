// One server's part in the healing of damaged slots.
#include "serverd/oram/server_heal.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {
namespace {

/// The most bytes of missing slots in one answer, because no eviction is decided while they are
/// healed.
constexpr std::size_t kMissingAtOnce = 4 << 20;

/// Returns whether these are just enough servers, in ascending order, without the one that they
/// help.
bool are_helpers(ByteSpan helpers, Party helped, const VolumeParams& params) {
  Party last = 0;
  for (const Party each : helpers) {
    if (each <= last || each > params.scheme.servers || each == helped) return false;
    last = each;
  }
  return helpers.size() == params.enough();
}

}  // namespace

Result<ServerHeal::Place> ServerHeal::place_of(SlotAddress at) const {
  const std::uint32_t root_buffer = state_.params().root_buffer_slots();
  const bool root = at.bucket == kRoot;
  if (at.slot >= (root ? state_.params().root_slots() : state_.params().bucket_size))
    return malformed();
  if (root && at.slot < root_buffer) return Place{kRoot, {}, at.slot, true};
  const std::size_t z = state_.params().bucket_size;
  const std::size_t in_stash = at.slot - root_buffer;
  const BucketIndex bucket = root ? kStashBucket + in_stash / z : at.bucket;
  S3O_ASSIGN(auto ref, state_.control.bucket(bucket, state_.control.tree_version()));
  return Place{bucket, ref, static_cast<std::uint16_t>(root ? in_stash % z : at.slot), false};
}

Result<std::vector<SlotAddress>> ServerHeal::damaged_root(std::uint64_t tree_version,
                                                          WriteNumber written) const {
  S3O_TRY(state_.check_tree_version(tree_version));
  const unsigned every = state_.params().evict_every;
  if (written > end_write_number(tree_version, every)) return malformed();
  std::vector<SlotAddress> found;
  for (WriteNumber write_number = first_write_number(tree_version, every); write_number < written;
       ++write_number)
    if (const std::uint16_t slot = root_slot(write_number, every);
        state_.root_buffer[slot].stamp == 0)
      found.push_back({kRoot, slot});
  return found;
}

Task<Status> ServerHeal::add_damaged(BucketIndex bucket, std::vector<SlotAddress>& to) {
  const auto ref = state_.control.bucket(bucket, state_.control.tree_version());
  if (!ref || ref->bucket_version == 0) co_return Status{};
  state_.record.upkeep(AccessLog::Operation::read, state_.record.slots(bucket, 0, ref->slots));
  const auto slots =
      co_await offload(state_.readers, [&] { return state_.bucket_store->damaged(*ref); });
  if (!slots) co_return fail(slots.error());
  for (const std::uint16_t slot : *slots) to.push_back(address_of(state_.params(), bucket, slot));
  co_return Status{};
}

// The answer may be lost, so a bucket is forgotten only when it is being healed, or is found sound.
Task<Result<Bytes>> ServerHeal::damage(DamageRequest request, Payload&) {
  S3O_CO_ASSIGN(auto slots, damaged_root(request.tree_version, request.written));
  const auto buckets = state_.damaged;
  for (const BucketIndex bucket : buckets) {
    const std::size_t before = slots.size();
    S3O_CO_TRY(co_await add_damaged(bucket, slots));
    if (slots.size() == before) state_.damaged.erase(bucket);
    if (slots.size() >= DamageAnswer::kMost) break;  // the rest is reported when these are healed
  }
  S3O_CO_TRY(co_await add_missing(slots));
  co_return encode(DamageAnswer{std::move(slots)});
}

/// Adds slots of buckets that have been missing since this server rejoined, as many as can be
/// healed soon. Buckets that are whole by now count as found once they are on the disk.
Task<Status> ServerHeal::add_missing(std::vector<SlotAddress>& to) {
  const std::set<BucketIndex> missing = state_.control.missing();
  if (missing.empty()) co_return Status{};
  std::set<BucketIndex> found;
  const std::size_t known = to.size();
  for (const BucketIndex bucket : missing) {
    const std::size_t before = to.size();
    S3O_CO_TRY(co_await add_damaged(bucket, to));
    if (to.size() == before) found.insert(bucket);
    if ((to.size() - known) * state_.params().slot_size() >= kMissingAtOnce ||
        to.size() >= DamageAnswer::kMost)
      break;
  }
  S3O_CO_TRY(co_await state_.sync->sync(state_.sync->begin()));
  co_return state_.control.found(found);
}

// Syncs before it answers, because slots may have been read only from the system's cache if an
// earlier process ended before it synced them.
Task<Result<Bytes>> ServerHeal::check(CheckRequest request, Payload&) {
  S3O_CO_ASSIGN(auto root, damaged_root(request.tree_version, request.written));
  if (request.bucket < kRoot || request.bucket > bucket_count(state_.control.height()))
    co_return malformed();
  DamageAnswer answer;
  if (request.bucket == kRoot) {
    S3O_CO_TRY(co_await rewrite_root_buffer());
    answer.slots = std::move(root);
    for (unsigned i = 0; i < state_.params().stash_buckets(); ++i)
      S3O_CO_TRY(co_await add_damaged(kStashBucket + i, answer.slots));
  } else {
    S3O_CO_TRY(co_await add_damaged(request.bucket, answer.slots));
  }
  S3O_CO_TRY(co_await state_.sync->sync(state_.sync->begin()));
  co_return encode(answer);
}

/// Rewrites slots of the root buffer that are in memory but no longer on the disk.
Task<Status> ServerHeal::rewrite_root_buffer() {
  for (std::uint16_t slot = 0; slot < state_.root_buffer.size(); ++slot) {
    const std::uint64_t stamp = state_.root_buffer[slot].durable;
    if (stamp == 0 || state_.root_buffer[slot].stamp != stamp) continue;
    state_.record.upkeep(AccessLog::Operation::read, state_.record.slots(kRoot, slot, 1));
    const auto found = co_await offload(
        state_.readers, [&] { return state_.bucket_store->read_slot(kRootBuffer, slot, stamp); });
    if ((found && *found) || state_.root_buffer[slot].stamp != stamp) continue;
    spdlog::warn("slot {} of bucket {} was damaged and is rewritten", slot, kRoot);
    S3O_CO_TRY(co_await root_.write_to_buffer(slot, stamp));
  }
  co_return Status{};
}

/// Returns the share in a slot, after a blank header. Errors: corrupt.
Task<Result<Bytes>> ServerHeal::share_in(SlotAddress at) {
  S3O_CO_ASSIGN(const auto place, place_of(at));
  state_.record.upkeep(AccessLog::Operation::read, {at.bucket, at.slot, 1});
  Bytes answer(Rpc::kHeaderSize + state_.params().slot_size());
  if (place.in_root_buffer) {
    // The share in memory is authoritative: the one on disk may be older, or lost.
    S3O_CO_TRY(state_.root_buffer.check(place.slot));
    std::ranges::copy(*state_.root_buffer[place.slot].content, answer.begin() + Rpc::kHeaderSize);
    co_return answer;
  }
  if (place.slot >= place.ref.slots) co_return answer;
  auto found = co_await offload(state_.pool, [&] {
    return state_.bucket_store->read_slot(place.ref.bucket_version, place.slot, place.ref.stamp);
  });
  if (!found) co_return fail(found.error());
  if (!*found)
    co_return fail(Errc::corrupt, "slot {} of bucket {} is damaged at server {}", at.slot,
                   at.bucket, state_.self);
  std::copy((*found)->content.begin(), (*found)->content.end(), answer.begin() + Rpc::kHeaderSize);
  co_return answer;
}

Task<Result<Bytes>> ServerHeal::read_slot(ReadSlotRequest request, Payload&) {
  S3O_CO_TRY(state_.check_tree_version(request.tree_version));
  co_return co_await share_in(request.at);
}

// Writes in place, because the old content is unreadable, and no tree version holds anything else
// there.
Task<Status> ServerHeal::write_healed(SlotAddress at, std::uint64_t access, ByteSpan share) {
  S3O_CO_ASSIGN(const auto place, place_of(at));
  if (share.size() != state_.params().slot_size() ||
      (place.in_root_buffer ? access == 0 : place.slot >= place.ref.slots))
    co_return malformed();
  if (!place.in_root_buffer) state_.damaged.erase(place.bucket);
  const std::uint64_t stamp =
      place.in_root_buffer ? access : place.ref.stamp.value_or(state_.control.tree_version());
  if (place.in_root_buffer)
    state_.root_buffer.keep(place.slot, Bytes(share.begin(), share.end()), stamp);
  if (!place.in_root_buffer)
    state_.record.upkeep(AccessLog::Operation::write, {at.bucket, at.slot, 1});
  auto written = place.in_root_buffer
                     ? root_.write_to_buffer(place.slot, stamp)
                     : root_.write_durably(place.ref.bucket_version, place.slot, share, stamp);
  S3O_CO_TRY(co_await std::move(written));
  state_.metrics.healed_slots.add();
  if (told_of_healing_.pass(state_.clock.now()))
    spdlog::warn("slot {} of bucket {} was damaged and is healed{}", at.slot, at.bucket,
                 told_of_healing_.more());
  co_return Status{};
}

Task<Result<Bytes>> ServerHeal::heal_slot(HealSlotRequest request, Payload&) {
  S3O_CO_TRY(state_.check_tree_version(request.tree_version));
  S3O_CO_TRY(co_await write_healed(request.at, request.access, request.share));
  co_return done();
}

// ---- from server to server

Task<Result<Bytes>> ServerHeal::contribute(ContributeRequest request, Payload&) {
  S3O_CO_TRY(state_.check_tree_version(request.tree_version));
  const auto own = std::find(request.helpers.begin(), request.helpers.end(), state_.self);
  if (request.to < 1 || request.to > state_.params().scheme.servers ||
      !are_helpers(request.helpers, request.to, state_.params()) || own == request.helpers.end() ||
      request.masks.size() != state_.params().enough() - 1)
    co_return malformed();
  sums_.forget_before(request.oldest);
  if (auto answer = sums_.begin(request.request_id)) co_return std::move(*answer);
  S3O_CO_ASSIGN(const auto share, co_await share_in(request.at));
  const std::uint8_t weight = lagrange_at(
      request.to, request.helpers)[static_cast<std::size_t>(own - request.helpers.begin())];
  const std::size_t size = state_.params().slot_size();
  Bytes masked_share = co_await offload(state_.pool, size, [&] {
    Bytes sum(size);
    gf::multiply_add(weight, ByteSpan(share).subspan(Rpc::kHeaderSize), sum);
    for (const Seed& mask : request.masks)
      gf::multiply_add(1, expand(mask, "mend", request.request_id, size), sum);
    return sum;
  });
  S3O_CO_TRY(
      co_await sums_.send(request.to, request.epoch, request.request_id, std::move(masked_share)));
  co_return sums_.end(request.request_id);
}

Task<Result<Bytes>> ServerHeal::mend(MendRequest request, Payload&) {
  S3O_CO_TRY(state_.check_tree_version(request.tree_version));
  if (!are_helpers(request.helpers, state_.self, state_.params())) co_return malformed();
  sums_.forget_before(request.oldest);
  if (sums_.has_mended(request.request_id)) co_return done();
  Bytes share(state_.params().slot_size());
  S3O_CO_TRY(co_await sums_.add_up(request.epoch, request.request_id, request.helpers,
                                   request.helpers.size(), share));
  sums_.spend(request.request_id);  // the request may come again
  S3O_CO_TRY(state_.check_tree_version(request.tree_version));
  S3O_CO_TRY(co_await write_healed(request.at, request.access, share));
  sums_.mended(request.request_id);
  co_return done();
}

}  // namespace s3oram
