// Decides when a backup is due, and writes it over the older of the two.
#include "fused/backup/backups.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

constexpr unsigned kInFlight = 8;          // writes
constexpr int kShare = 50;                 // backups take at most a fiftieth of the time,
constexpr int kUrgentShare = 5;            // or a fifth while many blocks are held, that is,
constexpr std::uint64_t kFewHeld = 64;     // more than this many,
constexpr std::uint64_t kHeldShare = 16;   // and more than one in this many of all blocks in use
constexpr std::chrono::seconds kPause{1};  // pause after a failure
constexpr std::chrono::hours kNever{24 * 365};

}  // namespace

Backups::Backups(std::mutex& mutex, BlockDevice& device, DataCache& cache, TableDamage& damage,
                 Timing& timing)
    : mutex_(mutex),
      device_(device),
      cache_(cache),
      damage_(damage),
      timing_(timing),
      ended_(timing.now()) {}

Status Backups::open(const std::string& database, Disk& disk, const std::vector<BlockId>& mapped) {
  database_ = database;
  disk_ = &disk;
  S3O_ASSIGN(auto reader, Database::open(database, Database::Mode::read_only, disk));
  S3O_ASSIGN(auto lists, read_lists(reader));
  for (BackupList& list : lists) {
    std::erase_if(list.blocks, [&](BlockId block) {
      return !std::binary_search(mapped.begin(), mapped.end(), block);
    });
    if (list.blocks.empty()) continue;
    if (list.used == 0)  // a list that give_up() left
      older_ = std::move(list);
    else
      older_ = std::exchange(last_, std::move(list));
  }
  S3O_ASSIGN(const auto current, read_current(reader));
  noted_ = noting_ = current.has_value();
  outdated_ =
      !any() || current != std::optional(last_.generation) || last_.blocks.size() < last_.used;
  return {};
}

std::vector<BlockId> Backups::blocks() const {
  std::vector<BlockId> all = last_.blocks;
  all.insert(all.end(), older_.blocks.begin(), older_.blocks.end());
  std::sort(all.begin(), all.end());
  return all;
}

Timing::Time Backups::due(std::chrono::milliseconds every) const {
  const std::uint64_t held = cache_.numbers.uncovered();
  const bool room_to_free = held > 0 || older_.blocks.size() > last_.blocks.size();
  if (!outdated_ && !room_to_free) return timing_.now() + kNever;
  const bool urgent = held > kFewHeld && held > cache_.numbers.used() / kHeldShare;
  if (urgent) return ended_ + kUrgentShare * took_ + (failing_ ? kPause : kPause * 0);
  return ended_ + std::max<Timing::Time::duration>(every, kShare * took_);
}

PosixStatus Backups::make(Lock& lock, const Commit& commit, const std::function<bool()>& stop) {
  if (!cache_.waits.until(lock, [this] { return !making_ && writing_ == 0; }))
    return posix_error(EIO);
  making_ = true;
  const auto begun = timing_.now();
  auto outcome = make_now(lock, commit, stop);
  ended_ = timing_.now();
  took_ = ended_ - begun;
  making_ = false;
  failing_ = !outcome;
  outdated_ |= failing_;
  cache_.waits.wake(false);
  return outcome;
}

PosixStatus Backups::make_now(Lock& lock, const Commit& commit, const std::function<bool()>& stop) {
  BlockNumbers& numbers = cache_.numbers;
  if (damage_.any()) return posix_error(EUCLEAN);
  failed_.reset();
  numbers.prepare_backup();
  const auto covered = [&](bool succeeded) { forget(numbers.end_backup(succeeded)); };
  if (auto committed = commit(lock); !committed) {
    covered(false);
    return committed;
  }
  outdated_ = changes_committing_;  // the dump may be opened before these changes commit
  auto dump = TablesDump::open(database_, *disk_, TablesDump::Damaged::refused);
  numbers.begin_backup();
  if (!dump) {
    covered(false);
    return posix_error(failed_reading(dump.error()));
  }
  // Larger than the generation of any backup that may still be found, even of one that was given
  // up.
  const std::int64_t now = timing_.wall_clock();
  BackupList next{.blocks = older_.blocks,
                  .generation = std::max({last_.generation + 1, older_.generation + 1,
                                          static_cast<std::uint64_t>(now)}),
                  .time = now};
  auto written = write_all(lock, *dump, next, stop);
  if (!written) {
    for (std::size_t i = older_.blocks.size(); i < next.blocks.size(); ++i) free(next.blocks[i]);
    covered(false);
    const bool in_the_way = written.error() == ENOSPC && numbers.uncovered() > 0;
    return in_the_way ? give_up(lock, commit) : written;
  }
  // Frees blocks that only larger tables needed.
  for (; next.blocks.size() > next.used; next.blocks.pop_back()) free(next.blocks.back());
  older_ = std::exchange(last_, std::move(next));
  list_changed_ = true;
  auto committed = commit(lock);
  covered(committed.has_value());
  return committed ? commit(lock) : committed;  // the second commit frees the covered blocks
}

/// Returns the errno for a backup that cannot read vault.db. The blocks that it wrote replaced
/// blocks of the older backup, so the last one is still whole.
int Backups::failed_reading(const Error& error) {
  spdlog::error("vault.db could not be read for a backup: {}", error.message);
  if (error.code != Errc::damaged_vault) return to_errno(error);
  damage_.note(error.message);
  return EUCLEAN;
}

PosixStatus Backups::write_all(Lock& lock, TablesDump& dump, BackupList& next,
                               const std::function<bool()>& stop) {
  if (stop()) return posix_error(ECANCELED);
  reading_ = &dump;
  lock.unlock();
  const auto checked = dump.check_file();
  lock.lock();
  reading_ = nullptr;
  if (stop()) return posix_error(ECANCELED);  // an interrupted check says nothing about the file
  if (!checked) return posix_error(failed_reading(checked.error()));
  BackupPart part;
  part.generation = next.generation;
  part.time = next.time;
  random_.fill(part.identity);
  const std::size_t room = device_.block_size() - BackupPart::kHeader;
  for (; part.count == 0; ++part.index) {
    lock.unlock();
    auto content = dump.next(room);
    lock.lock();
    if (stop()) {
      S3O_POSIX_TRY(await_writes(lock, 0));
      return posix_error(ECANCELED);
    }
    if (!content) {
      S3O_POSIX_TRY(await_writes(lock, 0));
      return posix_error(failed_reading(content.error()));
    }
    if (content->size() < room) part.count = part.index + 1;
    part.content = std::move(*content);
    if (part.index == next.blocks.size()) next.blocks.push_back(cache_.numbers.take());
    write(next.blocks[part.index], encode(part, device_.block_size()));
    S3O_POSIX_TRY(await_writes(lock, kInFlight));
  }
  next.used = part.count;
  return await_writes(lock, 0);
}

/// Gives up all backups, because the device is full, the tables have grown, and blocks held for the
/// last backup take up the room. A backup without its first block is not used, so no blocks have to
/// be held for it. (That block is overwritten instead of discarded, because a rebuild might find
/// older content of a discarded block.)
PosixStatus Backups::give_up(Lock& lock, const Commit& commit) {
  if (told_.pass(timing_.now().time_since_epoch()))
    spdlog::warn("there is no room for a new backup of the names: gave up the old ones{}",
                 told_.more());
  BackupList rest;
  for (const BackupList* backup : {&last_, &older_}) {
    if (backup->blocks.empty()) continue;
    write(backup->blocks.front(), Bytes(device_.block_size()));
    rest.blocks.push_back(backup->blocks.front());
  }
  S3O_POSIX_TRY(await_writes(lock, 0));
  for (const BlockId block : blocks())
    if (std::find(rest.blocks.begin(), rest.blocks.end(), block) == rest.blocks.end()) free(block);
  last_ = BackupList();
  older_ = std::move(rest);
  list_changed_ = true;
  S3O_POSIX_TRY(commit(lock));
  cache_.numbers.begin_backup();
  forget(cache_.numbers.end_backup(true));
  S3O_POSIX_TRY(commit(lock));
  return posix_error(ENOSPC);
}

void Backups::free(BlockId block) {
  if (cache_.numbers.release(block)) device_.discard(block);
}

void Backups::forget(const std::vector<BlockId>& blocks) {
  for (const BlockId block : blocks) device_.discard(block);
}

void Backups::write(BlockId block, Bytes content) {
  ++writing_;
  device_.write_backup(block, std::move(content), [this](Status outcome) {
    const Lock lock(mutex_);
    --writing_;
    if (!outcome) failed_ = outcome.error();
    cache_.waits.wake(outcome.has_value());
  });
}

/// Waits until fewer than `most` writes are in flight (or none, if `most` is 0).
PosixStatus Backups::await_writes(Lock& lock, unsigned most) {
  const bool in_time =
      cache_.waits.until(lock, [&] { return writing_ <= (most > 0 ? most - 1 : 0); });
  if (!in_time) return posix_error(EIO);
  if (!failed_) return {};
  if (!cache_.waits.until(lock, [&] { return writing_ == 0; })) return posix_error(EIO);
  return posix_error(to_errno(*std::exchange(failed_, std::nullopt)));
}

std::function<Status(Database&)> Backups::snapshot(bool changes) {
  changes_committing_ = changes;
  outdated_ |= changes;
  noting_ = list_changed_ ? any() && !outdated_ : noted_ && !changes;
  list_committing_ = std::exchange(list_changed_, false);
  if (!list_committing_ && noting_ == noted_) return {};
  std::optional<std::vector<BackupList>> lists;
  if (list_committing_) lists = {last_, older_};
  std::optional<std::uint64_t> current;
  if (noting_) current = last_.generation;
  return [lists = std::move(lists), current](Database& database) -> Status {
    if (lists) S3O_TRY(write_lists(database, *lists));
    return note_current(database, current);
  };
}

void Backups::committed(bool succeeded) {
  changes_committing_ = false;
  if (succeeded) noted_ = noting_;
  if (std::exchange(list_committing_, false) && !succeeded) list_changed_ = true;
}

BackupStatus Backups::status() const {
  return {.exists = any(),
          .time = last_.time,
          .current = any() && !outdated_ && !making_,
          .blocks = last_.blocks.size() + older_.blocks.size(),
          .held = cache_.numbers.uncovered()};
}

}  // namespace s3oram
