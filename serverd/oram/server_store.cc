// The server's store as a whole: checks that `slots` has what control.db lists, and that the files
// are still the ones that this server opened, and goes on once they have been put right.
//
// A server whose store is not what it should be is ill: it says why in its log and in every answer.
// It computes nothing, so that no client counts as damaged, and gives up, what was only mislaid.
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "oramcore/protocol/message_bounds.h"
#include "serverd/oram/server.h"
#include "serverd/oram/store_check.h"

namespace s3oram {

Result<Control> open_control(const std::filesystem::path& store, Disk& disk) {
  constexpr auto kAdvice =
      "put the newest copy of the whole store back, or an empty store in its place, and have the "
      "client run s3oramfs repair";
  auto control = Control::open(store / "control.db", disk);
  if (!control && control.error().code == Errc::damaged_vault)
    return fail(Errc::damaged_vault, "store {}: {}; {}", store.string(), control.error().message,
                kAdvice);
  if (!control) return control;
  std::error_code error;
  const auto slots = std::filesystem::file_size(store / "slots", error);
  if (!control->volume() && !error && slots > 0)
    return fail(Errc::damaged_vault,
                "store {}: has shares (slots), but control.db does not say of which volume: {}",
                store.string(), kAdvice);
  return control;
}

Status Server::open_bucket_versions(Shares shares) {
  sync_ = nullptr;
  bucket_store_ = nullptr;  // that of an earlier volume
  scheme_ = nullptr;
  // (A ring that nobody has used makes room for another volume.)
  if (!control_.volume() || control_.volume()->params.is_ring()) return {};
  if (control_.volume()->server != self_)
    return fail(Errc::wrong_volume,
                "store {} belongs to server {} of its volume, and this is server {}: give --store "
                "the store of server {}",
                directory_.string(), control_.volume()->server, self_, self_);
  const bool used = control_.session().epoch > 0;
  const bool may_be_lost = shares == Shares::may_be_lost || control_.shares_are_lost();
  // Opening would create the file.
  if (used && !may_be_lost && !disk_.exists(directory_ / "slots")) {
    lack_shares("is missing");
    return {};
  }
  scheme_ = schemes_(*control_.volume());
  S3O_ASSIGN(auto file, disk_.open(directory_ / "slots"));
  File& opened = *file;
  const Bytes owner = control_.has_stamps() ? owner_of(control_.volume()->id, self_) : Bytes();
  bucket_store_ =
      std::make_unique<BucketStore>(std::move(file), owner, params().root_buffer_slots(),
                                    params().bucket_size, params().slot_size(), cache_bytes_);
  S3O_ASSIGN(const auto missing,
             used ? missing_slots(control_, *bucket_store_, opened) : std::string());
  if (!missing.empty() && !may_be_lost) {
    bucket_store_ = nullptr;
    lack_shares(missing);
    return {};
  }
  // Shares that are being repaired come one by one: until most are there, another start finds them
  // missing.
  S3O_TRY(control_.note_shares(!missing.empty()));
  S3O_TRY(make_slots_whole(params(), *bucket_store_, opened));
  transport_.limit_messages(largest_message(params()));
  sync_ = std::make_unique<GroupSync>(executor_, pool_, *bucket_store_, &metrics_.sync_seconds);
  S3O_TRY(check_file_size());
  warn_of_little_memory();
  reserved_height_ = 0;
  if (auto room = reserve_bucket_versions(control_.height()); !room)
    spdlog::error("no room is kept for evictions: {}", room.error().message);
  if (Status root_buffer = open_root_buffer(); !root_buffer) {
    // No session may begin before the size of the file is durable.
    sync_ = nullptr;
    bucket_store_ = nullptr;
    return root_buffer;
  }
  ailment_.reset();
  lacks_shares_ = false;
  return {};
}

// ---- ill ---------------------------------------------------------------------------------------

void Server::lack_shares(const std::string& what) {
  fall_ill(
      {Errc::wrong_volume,
       fmt::format("server {} lacks its shares: {} {}; bring the newest file back, or have the "
                   "client run s3oramfs repair --server {}",
                   self_, (directory_ / "slots").string(), what, self_)});
  lacks_shares_ = true;
}

void Server::fall_ill(const Error& ailment) {
  if (!ailment_ || ailment_->message != ailment.message)
    spdlog::error("{}; until that is put right, everything is refused", ailment.message);
  ailment_ = ailment;
  lacks_shares_ = false;
  open_ = false;
  parts_changed_.notify_all();
  if (eviction_) eviction_->cancel({Errc::failed, ailment.message});
}

void Server::look_after_store() {
  if (recovering_) return;
  if (!ailment_) {
    Status there = control_.still_there();
    if (there && bucket_store_) there = bucket_store_->still_there();
    if (!there)
      fall_ill({there.error().code, fmt::format("server {}: {}{}", self_, there.error().message,
                                                there.error().code == Errc::damaged_vault
                                                    ? "; put the newest copy of its store back"
                                                    : "")});
    store_changes_.forget();
    return;
  }
  if (!store_changes_.have_ended()) return;
  recovering_ = true;
  spawn(executor_, recover());
}

Task<void> Server::recover() {
  while (running_ > 0) co_await idle_.wait();
  if (sync_) co_await sync_->ended();
  if (Status again = reopen(); !again) fall_ill(again.error());
  if (!ailment_) spdlog::info("server {}: its store is whole again: it carries on", self_);
  recovering_ = false;
  idle_.notify_all();
}

/// Opens the store as if the program had been restarted.
Status Server::reopen() {
  sync_ = nullptr;
  bucket_store_ = nullptr;
  control_.abandon();
  S3O_ASSIGN(auto control, open_control(directory_, disk_));
  if (!control.volume())
    return fail(Errc::wrong_volume,
                "server {}: its store holds no volume any more: put the newest copy of it back",
                self_);
  control_ = std::move(control);
  damaged_.clear();
  early_.clear();
  return open_bucket_versions(Shares::must_be_there);
}

}  // namespace s3oram
