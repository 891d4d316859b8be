// s3oramfs repair: rebuilds the shares of a server whose store is lost, from the others'; and
// s3oramfs scrub: has all servers look at all that they hold. Both heal what they find damaged.
#include <fmt/ranges.h>

#include <iostream>
#include <thread>
#include <utility>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/status_text.h"
#include "cli/vault_argument.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "cli/volume_options.h"

namespace s3oram {
namespace {

constexpr std::chrono::milliseconds kLookAgain{200};

struct RepairOptions {
  std::string vault;
  std::set<unsigned> servers;
  int timeout = 20;  // s
  CredentialOptions credential;

  void add_to(CLI::App& app, const std::string& what_vault) {
    add_vault(app, "VAULT", vault, what_vault, &credential);
    app.add_option("--timeout", timeout, "How long servers may take to answer")
        ->capture_default_str()
        ->type_name("SECONDS")
        ->check(CLI::Range(1, 3600));
    credential.add_to(app);
  }
};

/// What a server holds of a slot.
std::string_view piece_of(const VolumeParams& params) { return params.is_ring() ? "row" : "share"; }

/// "31 shares of server 2".
std::string shares_of(const VolumeParams& params, const RepairedVolume& repaired) {
  std::vector<std::string> all;
  for (const auto& [server, count] : repaired.healed)
    all.push_back(fmt::format("{} {}{} of server {}", count, piece_of(params),
                              count == 1 ? "" : "s", server));
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Says what is lost, and what may help.
Status report_lost(const Vault& vault, std::uint64_t lost) {
  const bool ring = vault.config().params.is_ring();
  return fail(Errc::damaged_vault,
              "{}: {} damaged {}, and left so: if there is a copy of the slots of {}, put that "
              "back and scrub again, while the vault is not mounted: what a mounted one comes "
              "across is given up",
              vault.directory().string(),
              lost == 1 ? "1 slot is" : fmt::format("{} slots are", lost),
              ring ? "beyond what the server can rebuild" : "at too many servers",
              ring ? "the server" : "one of them");
}

Status report(const Vault& of, const std::set<unsigned>& servers, const RepairedVolume& repaired) {
  const std::string vault = of.directory().string();
  if (!repaired.reenrolled.empty())
    std::cout << fmt::format("{}: server {} held nothing and has its place in the volume again\n",
                             vault, fmt::join(repaired.reenrolled, ", "));
  if (!repaired.healed.empty())
    std::cout << fmt::format("{}: damaged and healed: {}\n", vault,
                             shares_of(of.config().params, repaired));
  if (!repaired.hindrance.empty())
    std::cerr << fmt::format(
        "s3oramfs: the servers do not reach each other ({}): what they did not send each other "
        "went through this machine, and the vault cannot be used before they do: see their logs, "
        "and s3oramfs-serverd peers\n",
        repaired.hindrance);
  if (repaired.lost > 0) return report_lost(of, repaired.lost);
  const VolumeParams& params = of.config().params;
  const std::string whose = params.is_ring()  ? "the server"
                            : servers.empty() ? "all servers"
                                              : fmt::format("server {}", fmt::join(servers, ", "));
  std::cout << fmt::format("{}: every {} of {} is intact\n", vault, piece_of(params), whose);
  return {};
}

/// By what the daemon says of it.
RepairedVolume found_by(const nlohmann::json& scrub) {
  RepairedVolume found;
  for (const auto& server : scrub.at("healed"))
    found.healed[server.at("server")] = server.at("shares");
  found.lost = scrub.at("lost_slots");
  found.hindrance = scrub.at("hindrance");
  return found;
}

/// Waits until the daemon is done with it; not for a server that it waits for in vain.
Result<RepairedVolume> await_scrub(const Vault& vault, std::chrono::seconds timeout) {
  using std::chrono::steady_clock;
  const std::string directory = vault.directory().string();
  Progress progress("scrubbing " + directory);
  nlohmann::json looked_at;
  auto moved = steady_clock::now();
  while (true) {
    const auto status = ask_daemon(vault, "status", kStatusPatience);
    if (!status)
      return status.error().code == Errc::not_mounted
                 ? fail(Errc::not_mounted, "{}: unmounted before all was looked at: scrub it again",
                        directory)
                 : fail(status.error());
    const auto& scrub = status->at("scrub");
    if (const auto& failure = scrub.at("failure"); !failure.is_null())
      return fail(static_cast<Errc>(failure.at("code").get<int>()), "{}",
                  failure.at("message").get<std::string>());
    if (!scrub.at("running").get<bool>()) return found_by(scrub);
    if (std::exchange(looked_at, scrub.at("buckets_looked_at")) != scrub.at("buckets_looked_at"))
      moved = steady_clock::now();
    const auto problems = status_problems(nlohmann::ordered_json(*status));
    if (!problems.empty() && steady_clock::now() - moved >= timeout)
      return fail(Errc::unreachable, "{}: the scrub does not get on: {}; its daemon still tries",
                  directory, fmt::join(problems, "; "));
    progress.update(fmt::format("{} of {} buckets", looked_at.dump(), scrub.at("buckets").dump()));
    std::this_thread::sleep_for(kLookAgain);
  }
}

/// Of a mounted vault: its daemon does it, beside all else.
Status scrub_mounted(const Vault& vault, std::chrono::seconds timeout) {
  if (auto begun = ask_daemon(vault, "scrub", kStatusPatience); !begun)
    return begun.error().code == Errc::bad_request
               ? fail(Errc::unsupported,
                      "{}: its daemon is of an older version: unmount it and mount it again",
                      vault.directory().string())
               : fail(std::move(begun).error());
  S3O_ASSIGN(const auto found, await_scrub(vault, timeout));
  return report(vault, {}, found);
}

/// `doing`: as the user is told.
Status run(RepairOptions& options, const std::string& doing) {
  S3O_TRY(become_owner(options.vault, [&] { return options.credential.read_early(); }));
  S3O_ASSIGN(auto vault, find_vault(options.vault));
  if (Status locked = vault.lock(); !locked) {
    const bool mounted = locked.error().code == Errc::vault_in_use && options.servers.empty() &&
                         ask_daemon(vault, "status", kStatusPatience);
    if (mounted) return scrub_mounted(vault, std::chrono::seconds(options.timeout));
    S3O_TRY(lock_vault(vault));
  }
  S3O_ASSIGN(const auto opened, unlock_vault(options.credential, vault));
  const std::string& directory = vault.directory().string();
  auto repaired = [&]() -> Result<RepairedVolume> {
    Progress progress(doing + " " + directory);
    S3O_ASSIGN(const auto how, volume_options(vault, options.timeout, progress));
    std::set<Party> servers;
    for (const unsigned server : options.servers) servers.insert(static_cast<Party>(server));
    return Volume::repair(vault, opened.keys, how, std::move(servers));
  }();
  if (!repaired) return fail(std::move(repaired).error());
  return report(vault, options.servers, *repaired);
}

}  // namespace

Status run_repair(const Args& args) {
  CLI::App app("Rebuilds the shares of a server whose store is lost, from the other servers'.",
               "s3oramfs repair");
  RepairOptions options;
  options.add_to(app, "The vault, which is not mounted");
  app.add_option("--server", options.servers, "Whose; it runs on an empty store. May be repeated")
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
      "Has all servers look at every slot that they hold, and heals\n"
      "what is damaged. Of a mounted vault its daemon does it, and goes\n"
      "on if this command is ended.",
      "s3oramfs scrub");
  RepairOptions options;
  options.add_to(app, "The vault");
  S3O_ASSIGN(auto parsed, parse(app, args));
  return parsed ? run(options, "scrubbing") : Status();
}

}  // namespace s3oram
