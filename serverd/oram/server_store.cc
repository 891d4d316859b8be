// The server's store as a whole: opens `slots`, checks that it has what control.db lists, and
// reopens both once they have been put right (store_care.h).
#include <spdlog/spdlog.h>

#include <cerrno>

#include "oramcore/base/human.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/rules.h"
#include "oramcore/protocol/message_bounds.h"
#include "serverd/oram/store_check.h"
#include "serverd/oram/tree_server.h"

namespace s3oram {
namespace {

// Bytes besides the cache and the path of an eviction: the program, its readers, and messages.
constexpr std::uint64_t kOwnMemory = 36 << 20;

}  // namespace

Status Server::open_bucket_versions(Shares shares) {
  state_.sync = nullptr;
  state_.bucket_store = nullptr;  // it may be that of an earlier volume
  state_.scheme = nullptr;
  // (A ring that no client has used makes room for another volume.)
  if (!state_.control.volume() || state_.control.volume()->params.is_ring()) return {};
  if (state_.control.volume()->server != state_.self)
    return fail(Errc::wrong_volume,
                "store {} belongs to server {} of its volume, and this is server {}: give --store "
                "the store of server {}",
                state_.directory.string(), state_.control.volume()->server, state_.self,
                state_.self);
  const bool used = state_.control.session().epoch > 0;
  const bool may_be_lost = shares == Shares::may_be_lost || state_.control.shares_are_lost();
  // Checked first, because opening would create the file.
  if (used && !may_be_lost && !state_.disk.exists(state_.directory / "slots")) {
    lack_shares("is missing");
    return {};
  }
  state_.scheme = schemes_(*state_.control.volume());
  S3O_ASSIGN(auto file, state_.disk.open(state_.directory / "slots"));
  File& opened = *file;
  const Bytes owner =
      state_.control.has_stamps() ? owner_of(state_.control.volume()->id, state_.self) : Bytes();
  state_.bucket_store = std::make_unique<BucketStore>(
      std::move(file), owner, state_.params().root_buffer_slots(), state_.params().bucket_size,
      state_.params().slot_size(), state_.cache_bytes);
  S3O_ASSIGN(const auto missing,
             used ? missing_slots(state_.control, *state_.bucket_store, opened) : std::string());
  if (!missing.empty() && !may_be_lost) {
    state_.bucket_store = nullptr;
    lack_shares(missing);
    return {};
  }
  // Shares that are being repaired come one by one. Until most of them are there, another start
  // would find them missing.
  S3O_TRY(state_.control.note_shares(!missing.empty()));
  S3O_TRY(make_slots_whole(state_.params(), *state_.bucket_store, opened));
  state_.transport.limit_messages(largest_message(state_.params()));
  state_.sync = std::make_unique<GroupSync>(state_.executor, state_.pool, *state_.bucket_store,
                                            &state_.metrics.sync_seconds);
  S3O_TRY(check_file_size());
  warn_of_little_memory();
  eviction_.forget_reserved();
  if (auto room = eviction_.reserve_bucket_versions(state_.control.height()); !room)
    spdlog::error("cannot reserve disk space for evictions: {}", room.error().message);
  if (Status root =
          state_.root_buffer.open(*state_.bucket_store, state_.params().root_buffer_slots());
      !root) {
    // No session may begin before the size of the file is durable.
    state_.sync = nullptr;
    state_.bucket_store = nullptr;
    return root;
  }
  care_.get_well();
  lacks_shares_ = false;
  return {};
}

/// Checked now because the operator can correct a limit of the process before the server is used.
/// (Whether the disk is full is checked later.)
Status Server::check_file_size() const {
  const std::uint64_t needed =
      state_.bucket_store->bytes_of(state_.control.bucket_versions_needed(state_.control.height()));
  if (needed <= file_size_limit()) return {};
  return fail(Errc::disk_full, "store {}: its shares take a file of {}: {}",
              state_.directory.string(), human_size(needed), reason_of(EFBIG));
}

void Server::warn_of_little_memory() const {
  const std::uint64_t slots = path_buckets(state_.params(), 0, state_.control.height()).size() *
                                  state_.params().bucket_size +
                              state_.params().root_buffer_slots();
  const std::uint64_t needed =
      kOwnMemory + state_.cache_bytes + slots * state_.params().slot_size();
  if (state_.memory < needed)
    spdlog::warn(
        "this server may use {} of memory, and takes about {} during an eviction, of which {} are "
        "its cache: it may be killed; let it use more (MemoryMax of its unit)",
        human_size(state_.memory), human_size(needed), human_size(state_.cache_bytes));
}

// ---- ill ---------------------------------------------------------------------------------------

void Server::lack_shares(const std::string& what) {
  care_.fall_ill(
      {Errc::wrong_volume,
       fmt::format("server {} lacks its shares: {} {}; bring the newest file back, or have the "
                   "client run s3oramfs repair --server {}",
                   state_.self, (state_.directory / "slots").string(), what, state_.self)});
  lacks_shares_ = true;
}

/// Ends everything when the server falls ill.
void Server::end_all(const Error& ailment) {
  lacks_shares_ = false;
  state_.open = false;
  state_.changed.notify_all();
  eviction_.cancel({Errc::failed, ailment.message});
}

Status Server::still_there() {
  S3O_TRY(state_.control.still_there());
  return state_.bucket_store ? state_.bucket_store->still_there() : Status();
}

Task<void> Server::quiet() {
  while (running_ > 0) co_await idle_.wait();
  if (state_.sync) co_await state_.sync->ended();
}

/// Opens the store as if the program had been restarted.
Status Server::reopen() {
  state_.sync = nullptr;
  state_.bucket_store = nullptr;
  state_.control.abandon();
  S3O_ASSIGN(auto control, open_control(state_.directory, state_.disk));
  if (!control.volume())
    return fail(
        Errc::wrong_volume,
        "server {}: its store no longer holds a volume; put the newest copy of the store back",
        state_.self);
  state_.control = std::move(control);
  state_.damaged.clear();
  eviction_.forget_early();
  return open_bucket_versions(Shares::must_be_there);
}

}  // namespace s3oram
