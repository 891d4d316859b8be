// Finds the newest whole backup among labelled blocks, and loads its rows.
#include "fused/backup/restore_files.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <tuple>

#include "fused/backup/backup_format.h"
#include "fused/tables/inode_numbers.h"
#include "fused/tables/rows.h"
#include "oramcore/db/known_format.h"

namespace s3oram {
namespace {

/// The parts of a backup, by index.
struct Found {
  std::map<std::uint32_t, std::pair<BlockId, BackupPart>> parts;

  bool has_last() const { return !parts.empty() && parts.rbegin()->second.second.count > 0; }
  bool whole() const { return has_last() && parts.size() == parts.rbegin()->second.second.count; }
};
/// By generation.
using FoundBackups = std::map<std::pair<std::uint64_t, std::array<std::uint8_t, 16>>, Found>;

Result<Bytes> read_now(BlockDevice& device, BlockId block) {
  std::promise<Result<Bytes>> content;
  device.read(block, [&](Result<Bytes> read) { content.set_value(std::move(read)); });
  return content.get_future().get();
}

Result<Ino> largest_new_ino(Database& database) {
  S3O_ASSIGN(auto row, database.prepare(fmt::format("SELECT MAX(ino) FROM inodes WHERE ino <= {}",
                                                    kLargestNewIno)));
  if (const auto found = row.step(); !found) return fail(found.error());
  return static_cast<Ino>(row.integer(0));
}

/// Replaces the tables, in the caller's transaction. Returns the number of rows. `reserved` is what
/// read_reserved() returns now; 0 if it is not known, because the rows come from a backup.
Result<std::uint64_t> put_files(Database& database, ByteSpan dump, Ino reserved,
                                const std::vector<BackupList>& backups) {
  S3O_TRY(make_tables(database));
  S3O_TRY(database.execute(
      "DELETE FROM fs_state; DELETE FROM inodes; DELETE FROM dentries; DELETE FROM extents;"
      "DELETE FROM xattrs;"));
  S3O_TRY(database.execute(
      fmt::format("INSERT INTO fs_state (name, value) VALUES ('format', {})", kFormat)));
  S3O_ASSIGN(const auto loaded, load_tables(database, dump));
  if (reserved == 0) {
    S3O_ASSIGN(const auto largest, largest_new_ino(database));
    reserved = std::min(std::max(largest, loaded.reserved) + kSkippedByRestore, kLargestNewIno);
  }
  S3O_TRY(note_reserved(database, reserved));
  S3O_TRY(write_lists(database, backups));
  return loaded.rows;
}

/// Returns whether a backup that is newer than `chosen` may once have been whole. Without losses, a
/// newer one is only unfinished, unless its last part is there. With losses, `chosen` must be the
/// newest of two, because there are two as a rule.
bool may_be_older(const FoundBackups& backups, FoundBackups::const_reverse_iterator chosen,
                  bool blocks_lost) {
  const bool is_newest = chosen == backups.rbegin();
  const auto ended = [](const auto& backup) { return backup.second.has_last(); };
  return std::any_of(backups.rbegin(), chosen, ended) ||
         (blocks_lost && (!is_newest || backups.size() == 1));
}

/// Returns the newest whole backup; std::nullopt if there is none.
Result<std::optional<Found>> find_backup(BlockDevice& device, const BackupSearch& search) {
  FoundBackups backups;
  bool blocks_lost = search.blocks_lost;
  for (const BlockId block : search.candidates) {
    const auto content = read_now(device, block);
    if (!content && content.error().code != Errc::corrupt) return fail(content.error());
    blocks_lost |= !content;
    auto part = content ? decode_backup_part(*content) : std::nullopt;
    if (!part) continue;
    const auto index = part->index;
    backups[{part->generation, part->identity}].parts[index] = {block, std::move(*part)};
  }
  const auto chosen = std::find_if(backups.crbegin(), backups.crend(),
                                   [](const auto& at) { return at.second.whole(); });
  if (chosen == backups.crend()) return std::nullopt;
  if (!search.accept_older && may_be_older(backups, chosen, blocks_lost))
    return fail(Errc::corrupt,
                "blocks are lost at the servers, perhaps of the last backup of the names. In an "
                "older one, files that were deleted later have the content of other files");
  return chosen->second;
}

}  // namespace

Result<FilesDump> dump_files(const std::filesystem::path& database, Disk& disk) {
  constexpr std::size_t kStep = 1 << 20;
  S3O_ASSIGN(auto opened, Database::open(database.string(), Database::Mode::read_only, disk));
  S3O_TRY(require_format(opened, kSelectFormat, kFormat));
  S3O_ASSIGN(auto backups, read_lists(opened));
  S3O_ASSIGN(const auto reserved, read_reserved(opened));
  S3O_ASSIGN(const auto current, read_current(opened));
  FilesDump files{.tables = {},
                  .backups = std::move(backups),
                  .reserved_inodes = reserved,
                  .rows_lost = current == kRowsLost};
  S3O_ASSIGN(auto dump, TablesDump::open(database.string(), disk, TablesDump::Damaged::marked));
  for (;;) {
    S3O_ASSIGN(auto more, dump.next(kStep));
    if (more.empty()) return files;
    files.tables.insert(files.tables.end(), more.begin(), more.end());
  }
}

Status store_files(const std::filesystem::path& database, const FilesDump& files, Disk& disk) {
  S3O_ASSIGN(auto opened, Database::open(database.string(), Database::Mode::read_write, disk));
  return opened.transact("files", [&]() -> Status {
    S3O_TRY(put_files(opened, files.tables, files.reserved_inodes, files.backups));
    return files.rows_lost ? note_current(opened, kRowsLost) : Status();
  });
}

std::function<Status(Database&)> FilesRestore::snapshot() {
  if (done_) return {};
  return [this](Database& database) { return fill(database); };
}

void FilesRestore::committed(const Status& outcome) { done_ |= outcome.has_value(); }

Status FilesRestore::fill(Database& database) {
  S3O_ASSIGN(auto rows, put_files(database, dump_, 0, {list_}));
  rows_ = rows;
  return {};
}

Result<RestoredFiles> FilesRestore::run(BlockDevice& device, const BackupSearch& search) {
  S3O_ASSIGN(const auto found, find_backup(device, search));
  const std::optional<Found>& backup = found;
  if (!backup)
    return fail(Errc::damaged_vault, "the servers hold no whole backup of the names ({} parts)",
                search.candidates.size());
  for (const auto& [index, at] : backup->parts) {
    const auto& [block, part] = at;
    dump_.insert(dump_.end(), part.content.begin(), part.content.end());
    list_.generation = part.generation;
    list_.time = part.time;
    list_.blocks.push_back(block);
  }
  list_.used = list_.blocks.size();
  std::promise<Status> committed;
  device.set_participant(this);
  device.commit([&](Status status) { committed.set_value(std::move(status)); });
  if (Status status = committed.get_future().get(); !status) return fail(std::move(status).error());
  return RestoredFiles{list_.time, rows_, list_.blocks.size()};
}

}  // namespace s3oram
