// s3oramfs repair: makes the shares of a server whose store is lost anew, from the others'; and
// s3oramfs scrub: has all servers look at all that they hold. Both heal what they find damaged.
#include <fmt/ranges.h>

#include <iostream>

#include "cli/command.h"
#include "cli/credential.h"
#include "cli/volume_options.h"
#include "oramcore/base/identity.h"

namespace s3oram {
namespace {

struct RepairOptions {
  std::string vault;
  std::set<unsigned> servers;
  int timeout = 20;  // s
  CredentialOptions credential;

  void add_to(CLI::App& app) {
    app.add_option("VAULT", vault, "The vault, which is not mounted")->required();
    app.add_option("--timeout", timeout, "How long servers may take to answer")
        ->capture_default_str()
        ->type_name("SECONDS")
        ->check(CLI::Range(1, 3600));
    credential.add_to(app);
  }
};

/// "31 shares of server 2".
std::string shares_of(const RepairedVolume& repaired) {
  std::vector<std::string> all;
  for (const auto& [server, count] : repaired.healed)
    all.push_back(
        fmt::format("{} {} of server {}", count, count == 1 ? "share" : "shares", server));
  return fmt::format("{}", fmt::join(all, ", "));
}

Status report(const std::string& vault, const std::set<unsigned>& servers,
              const RepairedVolume& repaired) {
  if (!repaired.adopted.empty())
    std::cout << fmt::format("{}: server {} held nothing and has its place in the volume again\n",
                             vault, fmt::join(repaired.adopted, ", "));
  if (!repaired.healed.empty())
    std::cout << fmt::format("{}: damaged and healed: {}\n", vault, shares_of(repaired));
  if (!repaired.hindrance.empty())
    std::cerr << fmt::format(
        "s3oramfs: the servers do not reach each other ({}): what they did not send each other "
        "went through this machine, and the vault cannot be used before they do: see their logs, "
        "and s3oramfs-serverd peers\n",
        repaired.hindrance);
  if (repaired.lost > 0)
    return fail(Errc::damaged_vault,
                "{}: {} damaged at too many servers, and left as it is: if there is a copy of the "
                "slots of one of them, put that back and scrub again, before the vault is mounted: "
                "a block that is asked for is given up then",
                vault,
                repaired.lost == 1 ? "1 slot is" : fmt::format("{} slots are", repaired.lost));
  const std::string whose =
      servers.empty() ? "all servers" : fmt::format("server {}", fmt::join(servers, ", "));
  std::cout << fmt::format("{}: every share of {} is intact\n", vault, whose);
  return {};
}

/// `doing`: as the user is told.
Status run(const RepairOptions& options, const std::string& doing) {
  auto vault = Vault::find(options.vault);
  if (!vault) return fail(std::move(vault).error());
  auto identity = Identity::become_owner_of(vault->directory());
  if (!identity) return fail(std::move(identity).error());
  S3O_TRY(vault->lock());
  Credential credential;
  S3O_TRY(identity->as_root([&]() -> Status {
    auto known = existing_credential(options.credential, *vault);
    if (!known) return fail(std::move(known).error());
    credential = std::move(*known);
    return {};
  }));
  S3O_TRY(identity->settle());
  auto keys = vault->unlock(credential);
  if (!keys) return fail(std::move(keys).error());
  const std::string& directory = vault->directory().string();
  auto repaired = [&]() -> Result<RepairedVolume> {
    Progress progress(doing + " " + directory);
    const auto how = volume_options(*vault, options.timeout, progress);
    if (!how) return fail(how.error());
    std::set<Party> servers;
    for (const unsigned server : options.servers) servers.insert(static_cast<Party>(server));
    return Volume::repair(*vault, *keys, *how, std::move(servers));
  }();
  if (!repaired) return fail(std::move(repaired).error());
  return report(directory, options.servers, *repaired);
}

}  // namespace

Status run_repair(const Args& args) {
  CLI::App app("Makes the shares of a server whose store is lost anew, from the other servers'.",
               "s3oramfs repair");
  RepairOptions options;
  options.add_to(app);
  app.add_option("--server", options.servers, "Whose; it runs on an empty store. May be repeated")
      ->required()
      ->type_name("N")
      ->take_all()
      ->expected(1)
      ->check(CLI::Range(1, 255));
  auto parsed = parse(app, args);
  if (!parsed) return fail(std::move(parsed).error());
  return *parsed ? run(options, "repairing") : Status();
}

Status run_scrub(const Args& args) {
  CLI::App app("Has all servers look at every slot that they hold, and heals what is damaged.",
               "s3oramfs scrub");
  RepairOptions options;
  options.add_to(app);
  auto parsed = parse(app, args);
  if (!parsed) return fail(std::move(parsed).error());
  return *parsed ? run(options, "scrubbing") : Status();
}

}  // namespace s3oram
