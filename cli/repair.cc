// s3oramfs repair: rebuilds the shares of a server whose store is lost, from those of the others.
// s3oramfs scrub: makes all servers check everything that they hold. Both heal the damage that they
// find.
#include <optional>
#include <set>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/repaired.h"
#include "cli/vault_argument.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "cli/volume_options.h"
#include "oramcore/volume/migration.h"

namespace s3oram {
namespace {

struct RepairOptions {
  std::string vault;
  std::set<unsigned> servers;
  bool source = false;
  int timeout = 20;  // s
  CredentialOptions credential;

  void add_to(CLI::App& app, const std::string& what_vault) {
    add_vault(app, "VAULT", vault, what_vault, &credential);
    app.add_flag("--source", source, "Of the servers that the vault is leaving (migrate)");
    add_timeout(app, timeout);
    credential.add_to(app);
  }
};

/// Scrubs a mounted vault: its daemon does this in the background.
Status scrub_mounted(const Vault& vault, std::chrono::seconds timeout) {
  if (auto begun = ask_daemon(vault, "scrub", kStatusPatience); !begun)
    return begun.error().code == Errc::bad_request
               ? fail(Errc::unsupported,
                      "{}: its daemon is of an older version; unmount it and mount it again",
                      vault.directory().string())
               : fail(std::move(begun).error());
  S3O_ASSIGN(const auto found, await_scrub(vault, timeout));
  return report_repair(vault, {}, found);
}

/// `doing` names the work in the progress line that the user sees.
Status run(RepairOptions& options, const std::string& doing) {
  S3O_TRY(become_owner(options.vault, [&] { return options.credential.read_early(); }));
  S3O_ASSIGN(auto vault, find_vault(options.vault));
  if (options.source && !vault.config().source)
    return fail(Errc::usage, "{}: no migration is under way", vault.directory().string());
  if (Status locked = vault.lock(); !locked) {
    const bool mounted = locked.error().code == Errc::vault_in_use && options.servers.empty() &&
                         !options.source && ask_daemon(vault, "status", kStatusPatience);
    if (mounted) return scrub_mounted(vault, std::chrono::seconds(options.timeout));
    S3O_TRY(lock_vault(vault));
  }
  S3O_ASSIGN(const auto opened, unlock_vault(options.credential, vault));
  S3O_TRY(settle_migration(vault, opened.keys));
  std::optional<Vault> source;
  if (options.source) {
    if (!vault.config().source)
      return fail(Errc::usage, "{}: no migration is under way", vault.directory().string());
    source = vault.source();
  }
  auto repaired = [&]() -> Result<RepairedVolume> {
    Progress progress(doing + " " + vault.directory().string());
    Vault& volume = source ? *source : vault;
    S3O_ASSIGN(const auto how, volume_options(volume, options.timeout, progress));
    std::set<Party> servers;
    for (const unsigned server : options.servers) servers.insert(static_cast<Party>(server));
    return Volume::repair(volume, opened.keys, how, std::move(servers));
  }();
  if (!repaired) return fail(std::move(repaired).error());
  return report_repair(source ? *source : vault, options.servers, *repaired);
}

}  // namespace

Status run_repair(const Args& args) {
  CLI::App app("Rebuilds the shares of a server that lost its store from the other servers.",
               "s3oramfs repair");
  RepairOptions options;
  options.add_to(app, "The vault; it must not be mounted");
  app.add_option("--server", options.servers, "Server to rebuild, with an empty store; repeatable")
      ->required()
      ->type_name("N")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 255));
  S3O_ASSIGN(auto parsed, parse(app, args));
  return parsed ? run(options, "repairing") : Status();
}

Status run_scrub(const Args& args) {
  CLI::App app(
      "Has every server check all slots it holds, and heals damaged ones. If the\n"
      "vault is mounted, its daemon does the work, and continues even if this command\n"
      "is interrupted.",
      "s3oramfs scrub");
  RepairOptions options;
  options.add_to(app, "The vault");
  S3O_ASSIGN(auto parsed, parse(app, args));
  return parsed ? run(options, "scrubbing") : Status();
}

}  // namespace s3oram
