// Renames, copies and removes the files of a migration.
#include "oramcore/volume/migration.h"

#include <spdlog/spdlog.h>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"
#include "oramcore/client/owner.h"
#include "oramcore/client/state_check.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/exchange_tables.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/private_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr auto kTopCache = "top.cache";

std::vector<std::string> tables_of(const VaultConfig& volume) {
  return volume_kind(volume.params).tables();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Removes a directory and everything in it. Succeeds if there is nothing to remove.
Status remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? system_failure(error.value(), "{}: cannot be removed", path.string()) : Status{};
}

Status move_to(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return {};
  return system_failure(error.value(), "{}: cannot be renamed to {}", from.string(), to.string());
}

Status link_or_copy(const fs::path& from, const fs::path& to) {
  S3O_TRY(remove_tree(to));
  std::error_code error;
  fs::create_hard_link(from, to, error);
  return error ? copy_durably(from, to) : Status{};
}

Owner owner_of(const VaultConfig& volume, const VaultKeys& keys) {
  return {volume.volume, volume.params, keys.of(volume).sealing};
}

/// Returns whether the file exists, can be read, and has the tables of this volume.
Result<bool> is_of(const fs::path& path, const VaultConfig& volume, const VaultKeys& keys,
                   Disk& disk) {
  if (!is_there(path)) return false;
  S3O_ASSIGN(auto database, Database::open(path.string(), Database::Mode::read_only, disk));
  return is_owned_by(database, owner_of(volume, keys));
}

/// Removes everything except the stores of local servers.
Status remove_source(const fs::path& directory) {
  if (!is_there(directory)) return {};
  for (const char* name : {"vault.db-ballast", kTopCache, "run"})
    S3O_TRY(remove_tree(directory / name));
  S3O_TRY(remove_database(directory / "vault.db"));  // last: it says whose directory this is
  std::error_code not_empty;
  fs::remove(directory, not_empty);
  return sync_directory(directory.parent_path());
}

/// Makes source/vault.db, with the tables of `volume` from vault.db.
Status copy_tables(const Vault& vault, const VaultConfig& volume, Disk& disk) {
  const fs::path copy = vault.source_directory() / "vault.db";
  S3O_TRY(make_private_directory(vault.source_directory()));
  S3O_TRY(make_private_directory(vault.source_directory() / "run"));
  S3O_TRY(remove_database(copy));
  {
    S3O_ASSIGN(auto database, Database::open(copy.string(), Database::Mode::create, disk));
    const TableExchange all{{}, vault.database(), tables_of(volume)};
    S3O_TRY(exchange_tables(database, all, "source"));
    S3O_TRY(database.fold_log());
  }
  S3O_ASSIGN(const auto file, disk.open(copy));
  S3O_TRY(file->sync());
  return sync_directory(vault.source_directory());
}

/// Copies what the source will need. Changes nothing that the current volume uses.
Status prepare_source(const Vault& vault, const VaultKeys& keys, Disk& disk) {
  {
    S3O_ASSIGN(auto database,
               Database::open(vault.database().string(), Database::Mode::read_write, disk));
    const Owner owner = owner_of(vault.config(), keys);
    S3O_TRY(database.transact("owner", [&] { return keep_owner(database, owner); }));
    S3O_ASSIGN(const auto other, other_owner(database, owner));
    if (!other.empty()) return fail(Errc::damaged_vault, "{}", other);
  }
  const fs::path directory = vault.source_directory();
  S3O_TRY(remove_source(directory));  // may remain from an interrupted attempt
  S3O_TRY(copy_tables(vault, vault.config(), disk));
  if (is_there(vault.directory() / kTopCache))
    S3O_TRY(link_or_copy(vault.directory() / kTopCache, directory / kTopCache));
  S3O_TRY(sync_directory(directory));
  return sync_directory(vault.directory());
}

/// Puts the tables of the new volume into vault.db, if it still has those of the source.
Status exchange_in_database(const Vault& vault, const VaultKeys& keys, Disk& disk) {
  const VaultConfig& here = vault.config();
  const VaultConfig& source = here.source->volume;
  S3O_ASSIGN(const bool done, is_of(vault.database(), here, keys, disk));
  if (done) return {};
  S3O_ASSIGN(const bool waits, is_of(vault.database(), source, keys, disk));
  if (!waits)
    return fail(Errc::damaged_vault,
                "{} belongs neither to the volume that vault.json names nor to the one from which "
                "blocks move; bring back a vault.json and a vault.db that belong together",
                vault.database().string());
  const fs::path made = vault.next_directory() / "vault.db";
  S3O_ASSIGN(const bool is_made, is_of(made, here, keys, disk));
  if (!is_made)
    return fail(Errc::damaged_vault, "{} does not belong to the volume that vault.json names",
                made.string());
  const auto is_kept = is_of(vault.source_directory() / "vault.db", source, keys, disk);
  if (!is_kept || !*is_kept) S3O_TRY(copy_tables(vault, source, disk));
  S3O_ASSIGN(auto database,
             Database::open(vault.database().string(), Database::Mode::read_write, disk));
  return exchange_tables(database, {tables_of(source), made, tables_of(here)}, "migrate");
}

/// Returns whether both are names of the same file.
bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error);
}

/// Renames the files of both volumes, each unless that is already done.
Status exchange_files(const Vault& vault) {
  const fs::path& here = vault.directory();
  const fs::path next = vault.next_directory(), source = vault.source_directory();
  if (is_there(next / kTopCache))
    S3O_TRY(move_to(next / kTopCache, here / kTopCache));
  else if (!vault.config().params.is_ring() || is_same_file(here / kTopCache, source / kTopCache))
    S3O_TRY(remove_tree(here / kTopCache));  // it belongs to the source
  if (vault.config().source->volume.local && !is_there(source / "servers"))
    S3O_TRY(move_to(here / "servers", source / "servers"));
  if (is_there(next / "servers")) S3O_TRY(move_to(next / "servers", here / "servers"));
  S3O_TRY(sync_directory(source));
  return sync_directory(here);
}

/// Completes the beginning of a migration. next/ may also hold a volume to which no migration has
/// begun.
Status settle_beginning(const Vault& vault, const VaultKeys& keys, Disk& disk) {
  const fs::path directory = vault.next_directory();
  if (!is_there(directory)) return {};
  S3O_ASSIGN(const auto next, vault.next());
  if (next && next->config().volume != vault.config().volume) return {};
  if (next) {
    // If an error hid whether vault.json was replaced, its replacement is made durable before it
    // counts.
    S3O_TRY(sync_directory(vault.directory()));
    if (is_there(vault.database())) S3O_TRY(exchange_in_database(vault, keys, disk));
    S3O_TRY(exchange_files(vault));
    S3O_TRY(remove_tree(directory / "vault.json"));  // first: it says that work is left
    S3O_TRY(sync_directory(directory));
  }
  S3O_TRY(remove_tree(directory));
  return sync_directory(vault.directory());
}

/// Returns whether a migration has made this directory: its vault.db has no files, unlike that of a
/// vault. A user may have put something with that name beside vault.db.
bool is_from_migration(const fs::path& directory, Disk& disk) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(directory, error)) || is_there(directory / "vault.json"))
    return false;
  const fs::path path = directory / "vault.db";
  if (!is_there(path)) return false;
  auto database = Database::open(path.string(), Database::Mode::read_only, disk);
  if (!database) return false;
  const auto has_files = database->has_table("fs_state");
  return has_files && !*has_files;
}

/// Removes the remains of a migration that has ended, or that was interrupted before it was
/// decided. Nothing needs these files, so an error does not keep the vault from being opened.
void settle_end(const Vault& vault, const VaultKeys& keys, Disk& disk) {
  const fs::path source = vault.source_directory();
  if (!is_from_migration(source, disk)) return;
  const auto is_ours = is_of(vault.database(), vault.config(), keys, disk);
  if (!is_ours || !*is_ours) return;  // the next one to open it reports what is wrong
  if (const Status removed = remove_source(source); !removed)
    spdlog::warn("{}", removed.error().message);
}

/// Renames the source, so that nothing finds it any more.
Status set_aside(const Vault& vault, const fs::path& aside) {
  S3O_TRY(move_to(vault.source_directory(), aside));
  return copy_durably(vault.directory() / "vault.json", aside / "vault.json");
}

/// Undoes a set_aside() that may have failed at any step.
void put_back(const Vault& vault, const fs::path& aside) {
  Status back = remove_tree(aside / "vault.json");
  if (back && is_there(aside)) back = move_to(aside, vault.source_directory());
  if (!back) spdlog::error("{}", back.error().message);
}

std::uint64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

}  // namespace

Status check_source_place(const Vault& vault) {
  const fs::path source = vault.source_directory();
  if (is_there(source / "servers"))
    return fail(Errc::exists,
                "{} holds the stores of servers that the vault has left; remove that directory "
                "first: rm -r {}",
                source.string(), shell_word(source));
  if (is_there(source) && (!fs::is_directory(source) || is_there(source / "vault.json")))
    return fail(Errc::exists, "{} is in the way; rename or remove it", source.string());
  return {};
}

Status check_block_numbers(std::uint64_t blocks, unsigned height, const VolumeParams& params) {
  const auto most = static_cast<std::uint64_t>(most_blocks(height, params));
  if (blocks <= most / 2) return {};
  return fail(
      Errc::unsupported,
      "the tree of the new volume is too small: it can hold {} blocks while it grows, but {} must "
      "be moved",
      most / 2, blocks);
}

Status check_migration(const Vault& vault) {
  const std::string directory = vault.directory().string();
  if (vault.config().source)
    return fail(Errc::vault_in_use, "{}: a migration is under way", directory);
  S3O_ASSIGN(const auto next, vault.next());
  if (!next || !next->config().ready)
    return fail(Errc::usage, "{}: there is no new volume to which the vault could move", directory);
  S3O_TRY(check_source_place(vault));
  // The copy in source/, the log of the exchange, and top.cache if it could not get a second name.
  const std::uint64_t needed = 3 * (size_of(vault.database()) + size_of(log_of(vault.database())) +
                                    size_of(next->database())) +
                               size_of(vault.directory() / kTopCache);
  std::error_code unknown;
  const auto room = fs::space(vault.directory(), unknown);
  if (!unknown && room.available < needed)
    return fail(Errc::disk_full, "{}: {} are free, but moving needs {} for copies of vault.db",
                directory, human_size(room.available), human_size(needed));
  return {};
}

Status begin_migration(Vault& vault, const VaultKeys& keys, std::uint64_t rate) {
  S3O_TRY(check_migration(vault));
  // A database without seals can be healed although rows are missing, and then the source would
  // stand in for them.
  if (read_header(vault.database()).kind != DatabaseHeader::Kind::sealed)
    return fail(Errc::unsupported,
                "{} is not sealed yet; mount the vault again, with more room on its disk",
                vault.database().string());
  S3O_ASSIGN(const auto next, vault.next());
  SealedDisk disk(keys.pages);
  S3O_ASSIGN(const bool made, is_of(next->database(), next->config(), keys, disk));
  if (!made)
    return fail(Errc::damaged_vault, "{} does not belong to the volume beside it",
                next->database().string());
  S3O_TRY(prepare_source(vault, keys, disk));
  const Status decided = vault.begin_migration(next->config(), rate);
  const Status settled = settle_migration(vault, keys);
  return vault.config().source || decided ? settled : decided;
}

Status settle_migration(Vault& vault, const VaultKeys& keys) {
  if (vault.is_source()) return {};
  S3O_TRY(vault.reread());
  SealedDisk disk(keys.pages);
  if (vault.config().source) return settle_beginning(vault, keys, disk);
  settle_end(vault, keys, disk);
  return {};
}

// After a crash before vault.json says that the vault has moved, the migration lacks its source. No
// volume is opened then, and the next call continues.
Result<fs::path> leave_source(Vault& vault) {
  const fs::path source = vault.source_directory();
  if (!is_there(source)) {
    S3O_TRY(vault.end_migration());
    return fs::path();
  }
  const fs::path aside = free_path(source.string() + ".before-restore");
  Status left = set_aside(vault, aside);
  if (left) left = sync_directory(vault.directory());
  if (left) left = vault.end_migration();
  if (left) return aside;
  // A step that could not be made durable may still have happened.
  if (!vault.reread() || vault.config().source) put_back(vault, aside);
  return fail(std::move(left).error());
}

}  // namespace s3oram
