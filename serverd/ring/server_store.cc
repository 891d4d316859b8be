// The server's store as a whole: opens its files, checks that `slots` has what control.db lists,
// and opens them again once they have been put right (serverd/oram/store_care.h).
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "serverd/ring/server.h"

namespace s3oram::ring {
namespace {

constexpr auto kAsked = "asked";

}  // namespace

Status Server::open_store() {
  Status opened = try_open_store();
  if (!opened) close_store();
  return opened;
}

void Server::close_store() {
  sync_ = nullptr;
  rows_ = nullptr;
  asked_ = nullptr;
  bucket_store_ = nullptr;
  params_.reset();
  logged_.clear();
  stored_.clear();
  reserved_height_ = 0;
}

Status Server::try_open_store() {
  close_store();
  const VolumeDescription& volume = *control_.volume();
  const bool used = is_used();
  const auto lacks = [this](std::string_view what) {
    return fail(Errc::wrong_volume,
                "server {} lacks its buckets: {} {}; there is no other copy: bring the newest file "
                "back",
                self_, (directory_ / kSlots).string(), what);
  };
  // Opening would create the file.
  if (used && !disk_.exists(directory_ / kSlots)) return lacks("is missing");
  params_.emplace(volume.params);
  S3O_ASSIGN(auto file, disk_.open(directory_ / kSlots));
  File& slots = *file;
  bucket_store_ =
      std::make_unique<BucketStore>(std::move(file), owner_of(volume.id, self_), params_->log_slots,
                                    params_->bucket_size + 1, params_->row_size, cache_bytes_);
  if (used) {
    S3O_ASSIGN(const std::string missing, missing_slots(control_, *bucket_store_, slots));
    if (!missing.empty()) return lacks(missing);
  }
  S3O_TRY(make_slots_whole(volume.params, *bucket_store_, slots));
  S3O_TRY(open_asked());
  rows_ = std::make_unique<VersionRows>(*bucket_store_, clock_, params_->bucket_size,
                                        params_->row_size);
  // So that no turn is in the log that `asked` does not know: it would count as never asked.
  sync_ = std::make_unique<GroupSync>(executor_, pool_, *bucket_store_, &metrics_.sync_seconds,
                                      [this] { return asked_->sync(); });
  transport_.limit_messages(largest_message(*params_));
  if (Status room = reserve_bucket_versions(control_.height()); !room)
    spdlog::error("no room is kept for evictions: {}", room.error().message);
  // An earlier process may have ended before it synced what it wrote.
  S3O_TRY(asked_->sync());
  S3O_TRY(bucket_store_->sync());
  care_.get_well();
  return {};
}

Status Server::open_asked() {
  if (!is_used()) {
    // Another volume may have left records there.
    S3O_ASSIGN(const auto old, disk_.open(directory_ / kAsked));
    S3O_TRY(old->truncate(0));
  }
  S3O_ASSIGN(auto file, disk_.open(directory_ / kAsked));
  asked_ = std::make_unique<AskedFile>(std::move(file));
  if (asked_->knows_turns()) return {};
  return is_used() ? remake_asked() : asked_->set_turns(0);
}

/// Turns that were acknowledged are in the log. Which points they asked for nobody knows any more.
Status Server::remake_asked() {
  spdlog::error(
      "server {}: {} is missing or damaged, and is rebuilt; if the vault is restored from this "
      "server, the client first writes every bucket again",
      self_, (directory_ / kAsked).string());
  for (const auto& [bucket, ref] : control_.layout())
    S3O_TRY(asked_->add_all(ref.bucket_version, *ref.stamp));
  for (const auto& [bucket, ref] : control_.prepared_versions())
    S3O_TRY(asked_->add_all(ref.bucket_version, *ref.stamp));
  S3O_TRY(asked_->sync());
  Turn turns = 0;
  for (std::uint32_t slot = 0; slot < params_->log_slots; ++slot) {
    const auto found = bucket_store_->read_slot(kRootBuffer, slot);
    if (found && *found) turns = std::max(turns, turn_in(**found) + 1);
  }
  return asked_->set_turns(turns);
}

Status Server::reserve_bucket_versions(unsigned height) {
  if (!rule_holds(Rule::reserve_space)) return {};
  const std::uint64_t versions = control_.bucket_versions_needed(height);
  S3O_TRY(bucket_store_->reserve(versions));
  S3O_TRY(asked_->reserve(versions));
  reserved_height_ = height;
  return {};
}

// ---- ill

Status Server::still_there() {
  S3O_TRY(control_.still_there());
  if (!bucket_store_) return {};
  S3O_TRY(bucket_store_->still_there());
  return asked_->still_there();
}

Task<void> Server::quiet() {
  while (running_ > 0) co_await idle_.wait();
  if (sync_) co_await sync_->ended();
}

/// Opens the store as if the program had been restarted.
Status Server::reopen() {
  close_store();
  control_.abandon();
  S3O_ASSIGN(auto control, open_control(directory_, disk_));
  const auto& volume = control.volume();
  if (!volume || !volume->params.is_ring() || volume->server != self_)
    return fail(Errc::wrong_volume,
                "server {}: its store does not hold its volume any more: put the newest copy of it "
                "back",
                self_);
  control_ = std::move(control);
  return open_store();
}

}  // namespace s3oram::ring
