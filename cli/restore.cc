// s3oramfs restore: recovers a vault whose vault.db, or whole directory, is lost. The places of
// blocks come from the servers' labels. The names come from vault.db if it can be trusted, and
// otherwise from the servers' last backup.
#include <algorithm>
#include <ctime>
#include <iostream>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_table.h"
#include "cli/vault_argument.h"
#include "cli/vault_check.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "cli/volume_options.h"
#include "fused/backup/backup_list.h"
#include "fused/backup/restore_files.h"
#include "fused/tables/heal.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/client/owner.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/vault/recovery_sheet.h"
#include "oramcore/vault/vault_config.h"
#include "oramcore/vault/vault_place.h"
#include "oramcore/volume/migration.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestRecovery = 1 << 20;

struct RestoreOptions {
  fs::path vault, from;
  bool force = false, rewrite_first = false, accept_older = false, moved = false;
  int timeout = 20;  // s
  CredentialOptions credential;
};

Result<bool> parse_options(const Args& args, RestoreOptions& options) {
  CLI::App app("Recovers a vault whose vault.db, or whole directory, is lost.", "s3oramfs restore");
  add_vault(app, "VAULT", options.vault, "The vault; with --from, possibly a new directory",
            &options.credential);
  app.add_option("--from", options.from, "File or typed sheet that s3oramfs backup made")
      ->type_name("FILE");
  app.add_flag("--force", options.force, "Even if vault.db exists; a copy of it is kept");
  app.add_flag("--rewrite-first", options.rewrite_first,
               "One server: do not trust its records; slower");
  app.add_flag("--accept-older", options.accept_older, "Even if what is lost has older contents");
  app.add_flag("--moved", options.moved, "The migration has ended, or its old servers are gone");
  add_timeout(app, options.timeout);
  options.credential.add_to(app);
  return parse(app, args);
}

/// Checks that vault.db, if it can be read, is this vault's. (A sealed one cannot be read on a disk
/// without its key.)
Status check_database(const fs::path& path, const VaultConfig& config,
                      const std::optional<Seed>& sealing = {}, Disk& disk = system_disk()) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  if (disk.page_key()) S3O_TRY(check_page_key(path, *disk.page_key()));
  auto database = Database::open(path.string(), Database::Mode::read_only, disk);
  if (!database) return {};
  const auto other = other_owner(*database, {config.volume, config.params, sealing});
  if (!other || other->empty()) return {};
  return fail(Errc::damaged_vault, "{} (to restore anyway, move it away)", *other);
}

/// Says which servers differ between vault.json and the recovery file. Either they have moved since
/// that file was written, or vault.json is damaged. In both cases vault.json stays as it is.
void compare_servers(const Vault& vault, const VaultConfig& recovery, const fs::path& file) {
  const auto& here = vault.config().servers;
  const auto text_of = [](const ServerAddress& server) {
    return fmt::format("{},{}", server.host_port, to_text(server.key));
  };
  for (std::size_t i = 0; i < std::min(here.size(), recovery.servers.size()); ++i) {
    const ServerAddress& there = recovery.servers[i];
    if (here[i] == there) continue;
    std::cerr << fmt::format(
        "s3oramfs: server {} is {} in vault.json, and {} in {}: if it has not moved since then, "
        "run s3oramfs server {} {} {}\n",
        i + 1, text_of(here[i]), text_of(there), file.string(), shell_word(vault.directory()),
        i + 1, text_of(there));
  }
}

/// Reads the files that the options name before root becomes the owner of the vault, who may not be
/// allowed to read them. With --from, checks that no other user can exchange the directory of a
/// vault that does not exist yet. Returns the text of --from.
Result<std::string> prepare(RestoreOptions& options) {
  std::string text;
  if (!options.from.empty()) {
    S3O_ASSIGN(const auto content, read_small_file(options.from, kLargestRecovery));
    text.assign(content.begin(), content.end());
  }
  if (is_sheet(text)) {
    S3O_ASSIGN(text, read_sheet(text, options.from));
  }
  S3O_TRY(become_owner(options.vault, [&] { return options.credential.read_early(); }));
  if (std::error_code error; !options.from.empty() && !fs::exists(options.vault, error))
    S3O_TRY(VaultPlace::check_new(options.vault));
  return text;
}

Result<Vault::Recovered> vault_to_restore(const RestoreOptions& options, const std::string& text) {
  if (options.from.empty()) {
    S3O_ASSIGN(auto vault, find_vault(options.vault));
    return Vault::Recovered{std::move(vault)};
  }
  S3O_ASSIGN(const auto recovery, parse_recovery(text, options.from));
  if (!recovery.as_written)
    std::cerr << fmt::format(
        "s3oramfs: warning: {}: its checksum does not match: it was changed by hand, or is "
        "damaged; if the restore fails, use another copy of it\n",
        options.from.string());
  S3O_TRY(check_database(options.vault / "vault.db", recovery.file.config));
  auto found = Vault::recover(options.vault, text, options.from);
  if (found) compare_servers(found->vault, recovery.file.config, options.from);
  return found;
}

/// Returns whether vault.db holds files. An interrupted restore leaves one without files.
Result<bool> has_files(const fs::path& path, Disk& disk) {
  S3O_ASSIGN(auto database, Database::open(path.string(), Database::Mode::read_only, disk));
  return database.has_table("fs_state");
}

Status refuse_files(const fs::path& path, Disk& disk) {
  if (const auto files = has_files(path, disk); fs::exists(path) && (!files || *files))
    return fail(Errc::exists,
                "{} exists; check it with s3oramfs fsck, or go back to the last backup with "
                "--force",
                path.string());
  return {};
}

/// Returns the path where the new vault.db is made completely before it replaces an existing one.
fs::path place_to_make(const Vault& vault) { return vault.database().string() + ".restoring"; }

/// Gives the file a second name or, if the file system has no hard links, copies it.
Status keep(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  return error ? copy_durably(from, to) : Status{};
}

/// Keeps the remains of vault.db under a second name.
Status keep_former(const Vault& vault, Disk& disk) {
  const fs::path path = vault.database(), log = log_of(path);
  if (!fs::exists(path)) return {};
  // The log of a damaged file cannot be folded into it, so the log is kept too.
  if (Status folded = fold_log(path, disk); !folded && folded.error().code != Errc::damaged_vault)
    return folded;
  const fs::path aside = free_path(path.string() + ".before-restore");
  S3O_TRY(keep(path, aside));
  if (fs::exists(log) && fs::file_size(log) > 0) S3O_TRY(keep(log, log_of(aside)));
  S3O_TRY(sync_directory(vault.directory()));
  std::cout << "vault.db as it was before: " << aside.string() << "\n";
  return {};
}

/// Heals a damaged vault.db, because it may be newer than what the servers have.
Status heal_former(const fs::path& path, Disk& disk) {
  if (!fs::exists(path)) return {};
  const auto healed = heal_database(path, HealFor::rows, disk);
  if (!healed && healed.error().code == Errc::disk_full) return fail(healed.error());
  if (healed && *healed)
    std::cout << fmt::format("vault.db was damaged; the damaged file is kept as {}\n",
                             (*healed)->copy.string());
  return {};  // a file that cannot be read is not used at all
}

std::string date_of(std::int64_t time) {
  const std::time_t second = time / 1'000'000'000;
  char text[64] = "?";
  std::tm local{};
  if (::localtime_r(&second, &local)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

/// Returns whether fsck has lost rows of vault.db since the last backup, and nothing else has
/// changed.
bool has_lost_rows(const fs::path& path, Disk& disk) {
  auto database = Database::open(path.string(), Database::Mode::read_only, disk);
  if (!database) return false;
  const auto current = read_current(*database);
  return current && *current == kRowsLost;
}

/// Returns whether nothing is wrong with vault.db, and nothing was lost.
bool is_sound(const Vault& vault, Disk& disk, const VolumeOptions& how) {
  if (has_lost_rows(vault.database(), disk)) return false;
  const auto report = check_vault(vault, disk, false, how.progress);
  return report && std::ranges::all_of(report->findings, [](const Finding& finding) {
           return finding.harmless || finding.at_servers;
         });
}

/// Leaves the old servers of a migration. They are not asked, so blocks that only they hold are
/// given up.
Status leave_old_servers(Vault& vault) {
  S3O_ASSIGN(const auto aside, leave_source(vault));
  if (!aside.empty())
    std::cout << fmt::format(
        "{} is no longer moving. {} now holds what the vault kept of the old servers, and the "
        "vault.json that names them: delete that directory when you need neither\n",
        vault.directory().string(), aside.string());
  return {};
}

/// Returns the rows of files in vault.db; std::nullopt if they are damaged.
Result<std::optional<FilesDump>> former_files(const Vault& vault, Disk& disk) {
  auto files = dump_files(vault.database(), disk);
  if (files) return std::optional(std::move(*files));
  if (files.error().code != Errc::damaged_vault) return fail(std::move(files).error());
  std::cerr << fmt::format("s3oramfs: the names in vault.db cannot be used: {}\n",
                           files.error().message);
  return std::nullopt;
}

void report_absences(const RebuiltVolume& rebuilt) {
  for (const Party server : rebuilt.left_out)
    std::cerr << fmt::format(
        "s3oramfs: server {} took no part in the restore: it is sent what it lacks once the vault "
        "is mounted and the server answers\n",
        server);
}

void report_damage(const Vault& vault, const RebuiltVolume& rebuilt) {
  if (rebuilt.damaged > 0)
    std::cerr << "s3oramfs: " << rebuilt.damaged
              << (vault.config().params.is_ring()
                      ? " buckets or writes are damaged at the server: their content is lost, "
                        "and older versions of some blocks may be back\n"
                      : " slots are damaged at too many servers\n");
  if (rebuilt.suspect > 0)
    std::cerr << "s3oramfs: " << rebuilt.suspect
              << " blocks certainly had a newer version: s3oramfs fsck names their files\n";
}

/// Restores the volume and the names. Returns std::nullopt if the names are those that vault.db
/// had. These are newer than any backup, and are used if nothing is wrong with vault.db, or if the
/// servers hold no whole backup.
Result<std::optional<RestoredFiles>> restore(Vault& vault, const VaultKeys& keys, Disk& disk,
                                             const VolumeOptions& how, const fs::path& made) {
  S3O_ASSIGN(auto rebuilt, Volume::rebuild(vault, keys, how, made));
  // The names of an older copy would refer to blocks that hold other files by now.
  std::optional<FilesDump> names;
  if (rebuilt.former_was_last) {
    S3O_ASSIGN(auto files, former_files(vault, disk));
    names = std::move(files);
  }
  if (!names && rebuilt.backup.empty())
    return fail(Errc::damaged_vault, "the servers hold no backup of the names");
  const bool sound = names && is_sound(vault, disk, how);
  if (names) S3O_TRY(store_files(made, *names, disk));
  S3O_TRY(keep_former(vault, disk));
  S3O_TRY(vault.mark_sealed());
  S3O_TRY(replace_database(made, vault.database(), disk));
  report_absences(rebuilt);
  report_damage(vault, rebuilt);
  if (sound) return std::nullopt;
  FilesRestore restoring;  // must outlive the volume
  S3O_ASSIGN(auto volume, Volume::open(vault, keys, how));
  auto files =
      restoring.run(volume->device(), {.candidates = rebuilt.backup,
                                       .blocks_lost = rebuilt.damaged + rebuilt.suspect > 0,
                                       .accept_older = how.accept_older});
  Status closed = volume->close();
  const bool no_backup = !files && files.error().code == Errc::damaged_vault;
  if (!files && !(names && no_backup)) return fail(std::move(files).error());
  if (!closed) return fail(std::move(closed).error());
  if (no_backup) return std::nullopt;
  return *files;
}

/// Returns the options with which a restore that failed can be continued.
std::string repeated_options(const RestoreOptions& options, Errc failed) {
  return std::string(options.force ? " --force" : "") +
         (options.accept_older || failed == Errc::corrupt ? " --accept-older" : "");
}

}  // namespace

Status run_restore(const Args& args) {
  RestoreOptions options;
  S3O_ASSIGN(auto parsed, parse_options(args, options));
  if (!parsed) return {};
  S3O_ASSIGN(const auto text, prepare(options));
  S3O_ASSIGN(auto found, vault_to_restore(options, text));
  Vault* vault = &found.vault;
  S3O_TRY(vault->require_ready());
  if (options.rewrite_first && !vault->config().params.is_ring())
    return fail(Errc::usage,
                "--rewrite-first is for a volume on one server; {} has {}, which cannot lie alone",
                vault->directory().string(), vault->config().servers.size());
  S3O_TRY(lock_vault(*vault));
  if (found.put_back && !options.force && fs::exists(vault->database())) {
    std::cout << fmt::format(
        "{} has its vault.json and vault.key again; vault.db stays as it is. Check it: s3oramfs "
        "fsck {}\n",
        vault->directory().string(), shell_word(vault->directory()));
    return {};
  }
  S3O_ASSIGN(auto opened, unlock_vault(options.credential, *vault));
  const VaultKeys& keys = opened.keys;
  SealedDisk disk(keys.pages);
  S3O_TRY(settle_migration(*vault, keys));
  S3O_TRY(
      check_database(vault->database(), vault->config(), keys.of(vault->config()).sealing, disk));
  if (!options.force) S3O_TRY(refuse_files(vault->database(), disk));
  if (options.moved && vault->config().source) S3O_TRY(leave_old_servers(*vault));
  // Not during a migration: a healed vault.db could lack places, and the servers that the vault is
  // leaving have old contents.
  if (!vault->config().source) S3O_TRY(heal_former(vault->database(), disk));
  Progress progress("restoring " + vault->directory().string());
  S3O_ASSIGN(auto how, volume_options(*vault, options.timeout, progress));
  how.rewrite_first = options.rewrite_first;
  how.accept_older = options.accept_older;
  const fs::path made = place_to_make(*vault);
  S3O_TRY(remove_database(made));  // left by a restore that was cut short
  auto restored = restore(*vault, keys, disk, how, made);
  if (!restored) static_cast<void>(remove_database(made));  // restore()'s error counts
  if (!restored && restored.error().code == Errc::damaged_vault) return fail(restored.error());
  const std::string& directory = vault->directory().string();
  if (!restored)
    return fail(restored.error().code, "{} (to {}: s3oramfs restore{} {})",
                restored.error().message,
                restored.error().code == Errc::corrupt ? "accept that" : "continue",
                repeated_options(options, restored.error().code), shell_word(directory));
  std::cout << (*restored ? fmt::format("{} has all names again as of {}.", directory,
                                        date_of((*restored)->time))
                          : fmt::format("{} has the names that its vault.db had.", directory))
            << fmt::format(" Check it: s3oramfs fsck {}\n", shell_word(directory));
  return {};
}

}  // namespace s3oram
