// Moves an open volume to the one in next/, and ends the migration.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>

#include "oramcore/protocol/sizing.h"
#include "oramcore/volume/migration.h"
#include "oramcore/volume/open_volume.h"
#include "oramcore/volume/vault_volume.h"

namespace s3oram {
namespace {

/// The pause between two checks of what servers report about their room.
constexpr Duration kLookAgain = std::chrono::milliseconds(100);

}  // namespace

Status OpenVolume::begin_migration(std::uint64_t rate) {
  const std::lock_guard lock(changing_);
  S3O_TRY(check_migration(vault_));
  S3O_TRY(begin_exchange());
  Status begun = try_next();
  if (begun) begun = give_up_engine();
  if (begun) {
    begun = s3oram::begin_migration(vault_, keys_, rate);
    const Status opened = open_again();
    if (begun) begun = opened;
  }
  thread_->on_thread([this] { exchanging_ = false; });
  return begun;
}

Status OpenVolume::set_migration_rate(std::uint64_t rate) {
  const std::lock_guard lock(changing_);
  if (!vault_.config().source)
    return fail(Errc::usage, "{}: no migration is under way", vault_.directory().string());
  S3O_TRY(vault_.set_migration_rate(rate));
  thread_->on_thread([&] {
    from_ = vault_.config().source;
    device_.set_rate(rate);
  });
  return {};
}

void OpenVolume::begin_copying() {
  thread_->on_thread([this] { device_.begin_copying(); });
}

Status OpenVolume::end_migration() {
  const std::lock_guard lock(changing_);
  const bool moved = thread_->on_thread([this] {
    const auto progress = device_.progress();
    return progress && progress->left == 0;
  });
  if (!moved) return fail(Errc::failed, "not all blocks have moved");
  static_cast<void>(thread_->run([&]() -> Task<Status> {
    co_await device_.await_source_unused();
    co_return Status{};
  }));
  // A block is here for good once its place is committed.
  std::promise<Status> committed;
  device_.commit([&](Status status) { committed.set_value(std::move(status)); });
  S3O_TRY(committed.get_future().get());
  S3O_TRY(vault_.end_migration());
  thread_->on_thread([this] {
    device_.forget_source();
    from_ = nullptr;
  });
  // The source is no longer needed; the next opening removes files that are left of it.
  for (const Status& done : {close(source_, true), settle_migration(vault_, keys_)})
    if (!done) spdlog::warn("{}", done.error().message);
  return {};
}

Status OpenVolume::reopen() {
  const std::lock_guard lock(changing_);
  return thread_->on_thread([this] { return here_.engine != nullptr; }) ? Status{} : open_again();
}

Status OpenVolume::begin_exchange() {
  return thread_->on_thread([this]() -> Status {
    if (is_scrubbing())
      return fail(Errc::vault_in_use, "a scrub is under way: wait until it has ended");
    if (!here_.engine) return fail(Errc::unreachable, "the volume is not open: {}", failure_);
    exchanging_ = true;
    return {};
  });
}

Status OpenVolume::try_next() {
  S3O_ASSIGN(const auto next, vault_.next());
  S3O_TRY(check_owner(*next, keys_));
  OpenPart part;
  S3O_TRY(open(*next, part, unread_metrics(), VolumeEngine::Evictions::as_due));
  Status fits = thread_->run([&] { return check_room(part, next->config()); });
  Status closed = close(part, true);
  return fits ? closed : fits;
}

Task<Status> OpenVolume::check_room(const OpenPart& next, const VaultConfig& config) {
  const VolumeEngine& engine = *next.engine;
  const std::uint64_t needed = here_.engine->status().blocks;
  S3O_CO_TRY(check_block_numbers(needed, engine.status().height, config.params));
  next.engine->refresh_room();
  const Duration until = thread_->clock().now() + options_.deadline;
  std::uint64_t found = 0;
  do {
    const Room room = next.engine->room();
    std::uint64_t more = room.more;
    // Servers of this machine share one disk, and each reports all its room as free.
    if (std::error_code unknown; config.local) {
      const auto space = std::filesystem::space(vault_.directory(), unknown);
      const std::uint64_t bytes = growth_that_fits(config.params, config.params.scheme.servers,
                                                   engine.status().height, space.available);
      if (!unknown) more = std::min(more, bytes / config.params.block_size);
    }
    found = room.blocks + more;
    if (found >= needed) co_return Status{};
    co_await thread_->clock().sleep(kLookAgain);
  } while (thread_->clock().now() < until);
  co_return fail(Errc::disk_full,
                 "the new servers have room for {} blocks, but {} have to be moved: make room on "
                 "their disks",
                 found, needed);
}

Status OpenVolume::give_up_engine() {
  const Status committed = thread_->run([this]() -> Task<Status> {
    S3O_CO_TRY(co_await device_.pause(options_.deadline / 2));
    Status status = co_await device_.commit_paused();
    if (!status)
      device_.resume();
    else
      device_.let_go();
    co_return status;
  });
  if (!committed) return here_.connection->explain(committed);
  if (const Status closed = close(here_, true); !closed)
    spdlog::warn("{}", closed.error().message);  // everything acknowledged is committed
  return {};
}

Status OpenVolume::open_again() {
  Status opened = settle_migration(vault_, keys_);
  thread_->on_thread([this] { from_ = vault_.config().source; });
  if (opened) opened = check_owner(vault_, keys_);
  if (opened) opened = start();
  if (!opened) {
    thread_->on_thread([&] { failure_ = opened.error().message; });
    spdlog::error("the volume cannot be opened again: {}; trying again", opened.error().message);
  }
  return opened;
}

}  // namespace s3oram
