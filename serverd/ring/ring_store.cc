// Opens the files of a ring's store, and checks that `slots` has what control.db lists.
#include "serverd/ring/ring_store.h"

#include <spdlog/spdlog.h>

#include <cstring>

#include "oramcore/base/rules.h"
#include "serverd/oram/store_check.h"

namespace s3oram::ring {
namespace {

constexpr auto kAsked = "asked";

}  // namespace

Status RingStore::open() {
  Status opened = try_open();
  if (!opened) close();
  return opened;
}

void RingStore::close() {
  state_.sync = nullptr;
  rows_ = nullptr;
  asked_ = nullptr;
  state_.bucket_store = nullptr;
  params_.reset();
  reserved_height_ = 0;
}

Status RingStore::try_open() {
  close();
  const VolumeDescription& volume = *state_.control.volume();
  const bool used = is_used();
  const auto lacks = [this](std::string_view what) {
    return fail(
        Errc::wrong_volume,
        "server {} lacks its buckets: {} {}; there is no other copy; bring the newest file back",
        state_.self, (state_.directory / kSlots).string(), what);
  };
  // Checked first, because opening would create the file.
  if (used && !state_.disk.exists(state_.directory / kSlots)) return lacks("is missing");
  params_.emplace(volume.params);
  S3O_ASSIGN(auto file, state_.disk.open(state_.directory / kSlots));
  File& slots = *file;
  state_.bucket_store = std::make_unique<BucketStore>(
      std::move(file), owner_of(volume.id, state_.self), params_->log_slots,
      params_->bucket_size + 1, params_->row_size, state_.cache_bytes);
  if (used) {
    S3O_ASSIGN(const std::string missing,
               missing_slots(state_.control, *state_.bucket_store, slots));
    if (!missing.empty()) return lacks(missing);
  }
  S3O_TRY(make_slots_whole(volume.params, *state_.bucket_store, slots));
  S3O_TRY(open_asked());
  rows_ = std::make_unique<VersionRows>(*state_.bucket_store, state_.clock, params_->bucket_size,
                                        params_->row_size);
  // `asked` is synced first, so that it knows every turn in the log: the requests of an unknown
  // turn would count as never made.
  state_.sync =
      std::make_unique<GroupSync>(state_.executor, state_.pool, *state_.bucket_store,
                                  &state_.metrics.sync_seconds, [this] { return asked_->sync(); });
  state_.transport.limit_messages(largest_message(*params_));
  if (Status room = reserve(state_.control.height()); !room)
    spdlog::error("cannot reserve disk space for evictions: {}", room.error().message);
  // An earlier process may have ended before it synced its writes.
  S3O_TRY(asked_->sync());
  S3O_TRY(state_.bucket_store->sync());
  return {};
}

Status RingStore::open_asked() {
  if (!is_used()) {
    // Another volume may have left records in the file.
    S3O_ASSIGN(const auto old, state_.disk.open(state_.directory / kAsked));
    S3O_TRY(old->truncate(0));
  }
  S3O_ASSIGN(auto file, state_.disk.open(state_.directory / kAsked));
  asked_ = std::make_unique<AskedFile>(std::move(file));
  if (asked_->knows_turns()) return {};
  return is_used() ? remake_asked() : asked_->set_turns(0);
}

/// The log contains the acknowledged turns. The points that they requested are lost, so all points
/// count as requested.
Status RingStore::remake_asked() {
  spdlog::error(
      "server {}: {} is missing or damaged, and is rebuilt; if the vault is restored from this "
      "server, the client first writes every bucket again",
      state_.self, (state_.directory / kAsked).string());
  for (const auto& [bucket, ref] : state_.control.layout())
    S3O_TRY(asked_->add_all(ref.bucket_version, *ref.stamp));
  for (const auto& [bucket, ref] : state_.control.prepared_versions())
    S3O_TRY(asked_->add_all(ref.bucket_version, *ref.stamp));
  S3O_TRY(asked_->sync());
  Turn turns = 0;
  for (std::uint32_t slot = 0; slot < params_->log_slots; ++slot) {
    const auto found = state_.bucket_store->read_slot(kRootBuffer, slot);
    if (found && *found) turns = std::max(turns, turn_in(**found) + 1);
  }
  return asked_->set_turns(turns);
}

Status RingStore::reserve(unsigned height) {
  if (!rule_holds(Rule::reserve_space)) return {};
  const std::uint64_t versions = state_.control.bucket_versions_needed(height);
  S3O_TRY(state_.bucket_store->reserve(versions));
  S3O_TRY(asked_->reserve(versions));
  reserved_height_ = height;
  return {};
}

Status RingStore::still_there() const {
  S3O_TRY(state_.control.still_there());
  if (!is_open()) return {};
  S3O_TRY(state_.bucket_store->still_there());
  return asked_->still_there();
}

Status RingStore::read_control_again() {
  close();
  state_.control.abandon();
  S3O_ASSIGN(auto control, open_control(state_.directory, state_.disk));
  const auto& volume = control.volume();
  if (!volume || !volume->params.is_ring() || volume->server != state_.self)
    return fail(
        Errc::wrong_volume,
        "server {}: its store no longer holds its volume; put the newest copy of the store back",
        state_.self);
  state_.control = std::move(control);
  return {};
}

Turn RingStore::turn_in(const BucketStore::StampedSlot& slot) const {
  Turn turn = 0;
  std::memcpy(&turn, slot.content.data() + params_->slot_size, sizeof turn);
  return turn;
}

Result<BucketVersionRef> RingStore::pin(BucketIndex bucket, VersionStamp stamp) {
  for (const std::uint64_t back : {0, 1}) {
    if (back > state_.control.tree_version()) break;
    const auto ref = state_.control.bucket(bucket, state_.control.tree_version() - back);
    if (!ref || ref->bucket_version == 0 || ref->stamp != stamp) continue;
    state_.control.numbers().use(ref->bucket_version);
    return *ref;
  }
  return fail(Errc::former_view, "bucket {} has no such version here", bucket);
}

void RingStore::unpin(const BucketVersionRef& ref) {
  give_back(ref.bucket_version);
  forget_freed();
}

void RingStore::give_back(BucketVersionNumber number) {
  state_.control.numbers().give_back(number);
}

void RingStore::forget_freed() {
  for (const BucketVersionNumber number : state_.control.numbers().take_freed())
    state_.bucket_store->forget(number);
}

}  // namespace s3oram::ring
