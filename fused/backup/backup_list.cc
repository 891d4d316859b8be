// The rows of vault.db that list backups.
#include "fused/backup/backup_list.h"

namespace s3oram {
namespace {

constexpr auto kCreate =
    "CREATE TABLE IF NOT EXISTS backups (block INTEGER PRIMARY KEY, generation INTEGER NOT NULL,"
    " place INTEGER NOT NULL, used INTEGER NOT NULL, time INTEGER NOT NULL)";

}  // namespace

Status write_lists(Database& database, const std::vector<BackupList>& lists) {
  S3O_TRY(database.execute(std::string(kCreate) + "; DELETE FROM backups"));
  S3O_ASSIGN(auto put, database.prepare("INSERT INTO backups VALUES (?, ?, ?, ?, ?)"));
  for (const BackupList& list : lists)
    for (std::size_t place = 0; place < list.blocks.size(); ++place)
      S3O_TRY(put.bind(0, static_cast<std::int64_t>(list.blocks[place]))
                  .bind(1, static_cast<std::int64_t>(list.generation))
                  .bind(2, static_cast<std::int64_t>(place))
                  .bind(3, static_cast<std::int64_t>(list.used))
                  .bind(4, list.time)
                  .run());
  return {};
}

Result<std::vector<BackupList>> read_lists(Database& database) {
  std::vector<BackupList> lists;
  S3O_ASSIGN(auto there, database.has_table("backups"));
  if (!there) return lists;
  S3O_ASSIGN(auto rows,
             database.prepare(
                 "SELECT block, generation, used, time FROM backups ORDER BY generation, place"));
  for (;;) {
    S3O_ASSIGN(auto more, rows.step());
    if (!more) return lists;
    const auto generation = static_cast<std::uint64_t>(rows.integer(1));
    if (lists.empty() || lists.back().generation != generation)
      lists.push_back({{}, static_cast<std::size_t>(rows.integer(2)), generation, rows.integer(3)});
    lists.back().blocks.push_back(static_cast<BlockId>(rows.integer(0)));
  }
}

Status note_current(Database& database, std::optional<std::uint64_t> generation) {
  S3O_TRY(database.execute("DELETE FROM fs_state WHERE name = 'backed_up'"));
  if (!generation) return {};
  S3O_ASSIGN(auto put,
             database.prepare("INSERT INTO fs_state (name, value) VALUES ('backed_up', ?)"));
  return put.bind(0, static_cast<std::int64_t>(*generation)).run();
}

Result<std::optional<std::uint64_t>> read_current(Database& database) {
  S3O_ASSIGN(auto row, database.prepare("SELECT value FROM fs_state WHERE name = 'backed_up'"));
  S3O_ASSIGN(const auto found, row.step());
  if (!found) return std::optional<std::uint64_t>();
  return std::optional(static_cast<std::uint64_t>(row.integer(0)));
}

}  // namespace s3oram
