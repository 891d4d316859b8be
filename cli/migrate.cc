// s3oramfs migrate: moves a vault to other servers, or to another scheme. This command makes the
// new volume. The daemon of the mounted vault moves the blocks, and carries on even if this command
// is killed.
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "cli/command.h"
#include "cli/init.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/terminal.h"
#include "cli/vault_argument.h"
#include "cli/vault_owner.h"
#include "oramcore/base/help.h"
#include "oramcore/base/human.h"
#include "oramcore/volume/migration.h"

namespace s3oram {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{500};

struct MigrateOptions {
  InitOptions init;  // options of the new volume
  std::string vault;
  std::optional<std::uint64_t> rate;
  bool no_wait = false;

  bool names_servers() const { return init.local || !init.servers.empty(); }
};

Result<bool> parse_options(const Args& args, MigrateOptions& options) {
  CLI::App app("Moves a mounted vault to other servers, or watches a migration under way.",
               "s3oramfs migrate");
  add_vault(app, "VAULT", options.vault, "The vault, or the directory where it is mounted",
            &options.init.credential);
  add_place_options(app, options.init);
  app.add_option("--rate", options.rate, "Limit of the copies, in bytes a second; 0: none")
      ->transform(size_from(0))
      ->type_name("BYTES");
  app.add_flag("--no-wait", options.no_wait, "Begin, and do not wait for the end");
  add_number_options(app, options.init);
  options.init.patience.add_to(app);
  options.init.credential.add_to(app);
  return parse(app, args);
}

/// Checks that the new servers are not the current ones, because a server has one store, which
/// holds one volume.
Status check_other_servers(const VaultConfig& now, const VaultConfig& next) {
  if (now.local || next.local) return {};
  for (const ServerAddress& server : next.servers)
    if (std::ranges::any_of(now.servers, [&](const ServerAddress& other) {
          return other.key == server.key || other.host_port == server.host_port;
        }))
      return fail(Errc::usage,
                  "--server {}: it is already a server of the vault, and a server holds one "
                  "volume: start another s3oramfs-serverd there, with a store and a port of its "
                  "own",
                  server.host_port);
  return {};
}

/// Makes the new volume, or continues with the one that an earlier call has begun.
Status make_next(Vault& vault, MigrateOptions& options) {
  InitOptions& init = options.init;
  init.vault = vault.directory();
  // Files are stored in blocks of this size.
  init.block_size = vault.config().params.block_size;
  S3O_ASSIGN(auto choice, choose_numbers(init));
  SystemRandom random;
  S3O_ASSIGN(auto config, describe_volume(init, choice.params, random));
  S3O_TRY(check_other_servers(vault.config(), config));
  S3O_TRY(check_room(init, choice.params));
  S3O_ASSIGN(auto next, vault.make_next(std::move(config)));
  S3O_TRY(next.lock());
  S3O_TRY(next.reread());  // another call may have made it ready meanwhile
  if (next.config().ready) return {};
  S3O_ASSIGN(const auto opened, unlock_vault(init.credential, vault));
  const auto nothing = [] {};
  S3O_TRY(make_at_servers(init, next, opened.keys.of(next.config()), choice, nothing, "migrate"));
  std::cout << notes_on(choice);
  return {};
}

std::string progress_of(const nlohmann::json& migration) {
  if (migration.is_null()) return "";
  const auto& left = migration.at("seconds_left");
  const auto& hindrance = migration.at("hindrance").get_ref<const std::string&>();
  return fmt::format(
      "{} of {} blocks moved{}{}", migration.at("moved").dump(), migration.at("of").dump(),
      left.is_number() ? fmt::format(", {} left", human_duration(left.get<double>())) : "",
      hindrance.empty() ? "" : "; they do not move: " + hindrance);
}

/// Returns why a migration does not end although every block has moved; empty if no end has failed.
/// Errors: failed (this mount does not try again).
Result<std::string> end_failure(const nlohmann::json& migration) {
  if (migration.is_null()) return std::string();
  const std::string failure = migration.value("end_failure", "");
  if (!failure.empty() && !migration.value("end_retried", true))
    return fail(Errc::failed, "{}", failure);
  return failure;
}

/// Returns what the daemon says about a migration. Errors: not_mounted, failed (the mount is
/// locked).
Result<nlohmann::json> ask_for_migration(const Vault& vault) {
  S3O_ASSIGN(const auto status, ask_daemon(vault, "status", kStatusPatience));
  if (const auto found = status.find("migration"); found != status.end()) return *found;
  return fail(Errc::failed,
              "{0} is locked (s3oramfs unlock {1}), or its daemon is of an older version (mount it "
              "again)",
              vault.directory().string(), shell_word(vault.directory()));
}

/// Waits until the vault has moved away from this volume. Only vault.json decides that.
Status await_end(const Vault& vault, const VolumeId& former) {
  const std::string directory = vault.directory().string();
  const auto has_moved = [&]() -> Result<bool> {
    S3O_ASSIGN(const auto now, Vault::find(vault.directory()));
    return !now.config().source && now.config().volume != former;
  };
  Progress progress("moving " + directory + " (after ^C it continues in the mount)");
  std::string told;  // the last reason that was shown
  for (;;) {
    const auto migration = ask_for_migration(vault);
    S3O_ASSIGN(const bool moved, has_moved());
    if (moved) return {};
    if (!migration && migration.error().code == Errc::not_mounted)
      return fail(
          Errc::not_mounted,
          "{}: unmounted before all blocks had moved; the next mount continues to move them",
          directory);
    S3O_TRY(migration);
    S3O_ASSIGN(const auto failure, end_failure(*migration));
    if (!failure.empty() && std::exchange(told, failure) != failure)
      progress.note(fmt::format("s3oramfs: {}: {}", directory, failure));
    progress.update(progress_of(*migration));
    std::this_thread::sleep_for(kWatchEvery);
  }
}

std::string advice_on_recovery(const Vault& vault) {
  return fmt::format("s3oramfs backup --keys FILE {}\n", shell_word(vault.directory()));
}

void tell_the_end(const Vault& vault, const VaultConfig& former, bool is_local) {
  std::cout << fmt::format("{} has moved.\n", vault.directory().string());
  std::vector<std::string> servers;
  for (const ServerAddress& server : former.servers) servers.push_back(server.host_port);
  if (former.local)
    std::cout << fmt::format(
        "The stores of the previous servers are no longer used: rm -r {}/source\n",
        shell_word(vault.directory()));
  else
    std::cout << fmt::format(
        "No longer used: {}. Stop s3oramfs-serverd there, and delete its store (rm -r DIR).\n",
        fmt::join(servers, ", "));
  if (!is_local)
    std::cout << "An older recovery file does not name the new servers. Write a new one: "
              << advice_on_recovery(vault);
}

/// Tells the daemon to begin, or to change the rate. Errors: not_mounted.
Status tell_daemon(const Vault& vault, const std::string& request) {
  Progress progress("opening the new volume of " + vault.directory().string());
  const auto answer = ask_daemon(vault, request, progress);
  if (answer) return {};
  if (answer.error().code == Errc::bad_request)
    return fail(Errc::unsupported, "{}: its daemon is of an older version; mount it again",
                vault.directory().string());
  return fail(answer.error());
}

/// Refuses to begin before the vault is mounted: once the new volume is made, only the daemon can
/// continue, because it commits the current volume and opens the new one.
Status require_mounted(const Vault& vault) {
  const auto migration = ask_for_migration(vault);
  if (migration) return {};
  if (migration.error().code != Errc::not_mounted) return fail(migration.error());
  return fail(
      Errc::not_mounted,
      "{}: not mounted, and blocks move only while it is. First: s3oramfs mount {} DIRECTORY",
      vault.directory().string(), shell_word(vault.directory()));
}

Status check_request(const Vault& vault, const MigrateOptions& options) {
  S3O_TRY(vault.require_ready());
  const bool moving = vault.config().source != nullptr;
  if (!moving && !options.names_servers())
    return fail(Errc::usage,
                "{}: no migration is under way; give --server for each new server, or --local "
                "(see: s3oramfs migrate --help)",
                vault.directory().string());
  if (moving && options.names_servers())
    return fail(
        Errc::usage,
        "{}: a migration is under way; wait for its end (s3oramfs migrate {}) before the next one",
        vault.directory().string(), shell_word(vault.directory()));
  return require_mounted(vault);
}

Status begin(Vault& vault, MigrateOptions& options) {
  S3O_TRY(check_source_place(vault));  // before anything is made at the new servers
  S3O_TRY(make_next(vault, options));
  S3O_TRY(tell_daemon(vault, fmt::format("migrate {}", options.rate.value_or(0))));
  std::cout << "Blocks move while the vault is mounted.";
  if (!vault.config().local && !options.init.local)
    std::cout << " An older recovery file restores the files as they are now; for later changes, "
                 "write a new one now, and another when all blocks have moved: "
              << advice_on_recovery(vault);
  else
    std::cout << "\n";
  return {};
}

}  // namespace

Status run_migrate(const Args& args) {
  MigrateOptions options;
  S3O_ASSIGN(auto parsed, parse_options(args, options));
  if (!parsed) return {};
  S3O_TRY(become_owner(options.vault, [&] { return options.init.credential.read_early(); }));
  S3O_ASSIGN(auto vault, find_vault(options.vault));
  S3O_TRY(check_request(vault, options));
  const bool goes_on = vault.config().source != nullptr;
  const VaultConfig former = goes_on ? vault.config().source->volume : vault.config();
  if (!goes_on)
    S3O_TRY(begin(vault, options));
  else if (options.rate)
    S3O_TRY(tell_daemon(vault, fmt::format("migrate-rate {}", *options.rate)));
  if (options.no_wait) return {};
  S3O_TRY(await_end(vault, former.volume));
  S3O_TRY(vault.reread());
  tell_the_end(vault, former, vault.config().local);
  return {};
}

}  // namespace s3oram
