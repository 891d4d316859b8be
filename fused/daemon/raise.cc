// Seals a plain vault.db: checks it, copies its rows into a sealed database beside it, and replaces
// it with that database.
#include "fused/daemon/raise.h"

#include <spdlog/spdlog.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "fused/tables/rows.h"
#include "fused/tables/table.h"
#include "oramcore/base/human.h"
#include "oramcore/client/state_check.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/integrity.h"
#include "oramcore/db/salvage.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

/// Returns what SQLite, the check of the client's state, or a row's checksum finds wrong; empty if
/// nothing is.
Result<std::string> why_not_sound(Database& database, const VolumeParams& params) {
  if (auto damage = find_damage(database); !damage || !damage->empty()) return damage;
  // Missing tables are created so that they can be read; the transaction is then rolled back.
  S3O_TRY(database.begin());
  S3O_TRY(ClientState::make_missing_tables(database));
  const StateCheck state = read_state(database, params);
  database.rollback();
  for (const Finding& finding : state.findings)
    if (!finding.harmless) return finding.what;
  const auto checksums = has_checksums(database);
  if (!checksums) return checksums.error().message;
  if (!*checksums) return std::string();
  for (const TableSql& table : kTables) {
    S3O_ASSIGN(auto changed, database.prepare(fmt::format("SELECT COUNT(*) FROM {} WHERE NOT ({})",
                                                          table.name, table.intact(true))));
    auto row = changed.step();
    if (!row) return row.error().message;
    if (changed.integer(0) > 0)
      return fmt::format("{} rows of table {} have changed by themselves", changed.integer(0),
                         table.name);
  }
  return std::string();
}

/// Returns the most bytes that the copy can take: all of it is in the log before it is in the file.
std::uint64_t room_needed(const fs::path& path) {
  constexpr std::uint64_t kBeside = 16 << 20;
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  return error ? kBeside : 3 * size + kBeside;
}

bool has_room(const fs::path& path, std::uint64_t needed) {
  struct statvfs disk {};
  return ::statvfs(path.parent_path().c_str(), &disk) != 0 ||
         std::uint64_t{disk.f_bavail} * disk.f_frsize >= needed;
}

/// Overwrites the plain file, which nothing else has open and which no longer has a name.
Status wipe(File& plain, std::uint64_t size) {
  const Bytes zeros(1 << 20);
  for (std::uint64_t at = 0; at < size; at += zeros.size())
    S3O_TRY(
        plain.write(at, ByteSpan(zeros).first(std::min<std::uint64_t>(zeros.size(), size - at))));
  return plain.sync();
}

/// Creates `made`, sealed. Returns the reason if it does not hold everything that `path` holds;
/// empty if it does.
Result<std::string> copy_rows(const fs::path& path, const fs::path& made, SealedDisk& disk) {
  S3O_TRY(remove_database(made));  // left by an attempt that was cut short
  const auto tables = salvage(path.string(), made.string(), disk);
  if (!tables && tables.error().code == Errc::damaged_vault) return tables.error().message;
  if (!tables) return fail(tables.error());
  const auto lost = std::ranges::find(*tables, false, &SalvagedTable::whole);
  if (lost == tables->end()) return std::string();
  return fmt::format("table {} cannot be read to its end", lost->name);
}

Status put_in_place(Vault& vault, const fs::path& made, SealedDisk& disk) {
  const fs::path path = vault.database();
  disk.step("seal-marked", false);
  S3O_TRY(vault.mark_sealed());
  disk.step("seal-marked", true);
  S3O_TRY(fold_log(path, disk));  // so that the file is whole without the log
  S3O_ASSIGN(auto plain, system_disk().open(path));
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  disk.step("seal-replaced", false);
  S3O_TRY(replace_database(made, path, disk));
  disk.step("seal-replaced", true);
  disk.step("seal-wiped", false);
  if (const Status wiped = wipe(*plain, error ? 0 : size); !wiped)
    spdlog::warn("the plain content of vault.db may still be on the disk: {}",
                 wiped.error().message);
  disk.step("seal-wiped", true);
  return {};
}

/// Seals vault.db. Returns why it stays as it is; empty if it is sealed.
Result<std::string> seal(Vault& vault, SealedDisk& disk) {
  const fs::path path = vault.database(), made = path.string() + ".sealing";
  {
    auto plain = Database::open(path.string(), Database::Mode::read_write, disk);
    if (!plain && plain.error().code == Errc::damaged_vault) return plain.error().message;
    if (!plain) return fail(plain.error());
    auto damage = why_not_sound(*plain, vault.config().params);
    if (!damage || !damage->empty()) return damage;
  }
  if (const std::uint64_t needed = room_needed(path); !has_room(path, needed))
    return fmt::format("sealing needs {} of temporary room on its disk: make room there",
                       human_size(needed));
  disk.step("seal-made", false);
  auto lost = copy_rows(path, made, disk);
  if (!lost || !lost->empty()) {
    static_cast<void>(remove_database(made));
    return lost;
  }
  disk.step("seal-made", true);
  S3O_TRY(put_in_place(vault, made, disk));
  return std::string();
}

}  // namespace

Result<std::string> raise_database(Vault& vault, SealedDisk& disk) {
  const DatabaseHeader header = read_header(vault.database());
  if (header.kind == DatabaseHeader::Kind::sealed) {
    S3O_TRY(vault.mark_sealed());
    return std::string();
  }
  if (header.kind != DatabaseHeader::Kind::plain) return std::string();  // opening it will fail
  const auto sealed = seal(vault, disk);
  const std::string why = sealed ? *sealed : sealed.error().message;
  if (why.empty())
    spdlog::info("vault.db was made by an older version, and is sealed now");
  else
    spdlog::warn("vault.db was made by an older version, and is not sealed yet: {}", why);
  return why;
}

}  // namespace s3oram
