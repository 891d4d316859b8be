// s3oramfs server: lists the servers of a vault, records that one has moved, and replaces one by
// another machine, whether the vault is mounted or not.
#include <fmt/ranges.h>

#include <iostream>
#include <string_view>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/repaired.h"
#include "cli/server_option.h"
#include "cli/vault_argument.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "cli/volume_options.h"

namespace s3oram {
namespace {

/// Longer than a daemon waits for the new server and for those that it tells about it.
constexpr std::chrono::seconds kReplacePatience{60};

Result<Vault> vault_named(const std::string& name) {
  const auto mount = find_mount(name);
  return find_vault(mount ? mount->vault : std::filesystem::path(name));
}

// ---- list

/// Returns the server's state as a mounted vault's daemon sees it; empty if the daemon does not
/// say.
std::string state_of(const nlohmann::json& status, std::size_t server) {
  const auto& servers = status.at("servers");
  if (server >= servers.size()) return "";
  const auto& it = servers.at(server);
  std::string place = it.value("place", "in step");
  if (place != "in step") return place;
  return it.value("answering", true) ? "answers" : "does not answer";
}

Status list(const Args& args) {
  CLI::App app("Lists the servers of a vault, and their state if it is mounted.",
               "s3oramfs server list");
  std::string name;
  app.add_option("VAULT", name, "The vault, or the directory where it is mounted")
      ->required()
      ->transform(by_name());
  S3O_ASSIGN(const auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_TRY(become_owner(name));
  S3O_ASSIGN(const auto vault, vault_named(name));
  const auto status = ask_daemon(vault, "status", kStatusPatience);
  const VaultConfig& config = vault.config();
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerAddress& server = config.servers[i];
    std::string line = config.local
                           ? fmt::format("{}  local", i + 1)
                           : fmt::format("{}  {},{}", i + 1, server.host_port, to_text(server.key));
    if (const auto state = status ? state_of(*status, i) : std::string(); !state.empty())
      line += "  " + state;
    std::cout << line << "\n";
  }
  return {};
}

// ---- replace

struct ReplaceOptions {
  std::string vault, address;
  unsigned number = 0;
  int timeout = 20;  // s
  CredentialOptions credential;
};

Result<bool> parse_options(const Args& args, ReplaceOptions& options) {
  CLI::App app(
      "Replaces a server with another machine, or with an empty store: tells the other\n"
      "servers, and has them rebuild what the replaced one held. If the vault is\n"
      "mounted, its daemon does the work, and continues even if this command is\n"
      "interrupted. Otherwise run it again: it continues.",
      "s3oramfs server replace");
  add_vault(app, "VAULT", options.vault, "The vault", &options.credential);
  app.add_option("N", options.number, "The server's number")->required()->check(CLI::Range(1, 255));
  app.add_option("--server", options.address, "Address and key of the new server")
      ->required()
      ->type_name("HOST:PORT,KEY");
  add_timeout(app, options.timeout);
  options.credential.add_to(app);
  return parse(app, args);
}

void say_untold(const std::vector<unsigned>& untold, std::string_view what) {
  if (!untold.empty())
    std::cerr << fmt::format("s3oramfs: server {} does not know of the new one yet{}\n",
                             fmt::join(untold, " and "), what);
}

Status replace_mounted(const Vault& vault, const ReplaceOptions& options,
                       const ServerAddress& address) {
  Progress progress("replacing server " + std::to_string(options.number));
  const auto answer =
      ask_daemon(vault, fmt::format("replace-server {} {}", options.number, options.address),
                 progress, kReplacePatience);
  // The daemon is still replacing the server, for the same command, which was interrupted.
  const bool continues = !answer && answer.error().code == Errc::vault_in_use &&
                         options.number <= vault.config().servers.size() &&
                         vault.config().servers[options.number - 1] == address;
  if (!answer && !continues)
    return answer.error().code == Errc::bad_request
               ? fail(Errc::unsupported, "{}: its daemon is of an older version; mount it again",
                      vault.directory().string())
               : fail(answer.error());
  if (answer)
    say_untold(answer->at("untold").get<std::vector<unsigned>>(), ": it is told when it answers");
  S3O_ASSIGN(const auto found, await_scrub(vault, std::chrono::seconds(options.timeout)));
  return report_repair(vault, {options.number}, found);
}

Status replace_unmounted(Vault& vault, ReplaceOptions& options, const ServerAddress& address) {
  S3O_ASSIGN(const auto opened, unlock_vault(options.credential, vault));
  auto replaced = [&]() -> Result<RepairedVolume> {
    Progress progress("replacing server " + std::to_string(options.number));
    S3O_ASSIGN(const auto how, volume_options(vault, options.timeout, progress));
    return Volume::replace(vault, opened.keys, how, static_cast<Party>(options.number), address);
  }();
  if (!replaced) return fail(std::move(replaced).error());
  say_untold({replaced->untold.begin(), replaced->untold.end()},
             ": run the same again when it answers");
  return report_repair(vault, {options.number}, *replaced);
}

Status replace(const Args& args) {
  ReplaceOptions options;
  S3O_ASSIGN(const auto parsed, parse_options(args, options));
  if (!parsed) return {};
  S3O_ASSIGN(const auto servers, parse_servers({options.address}));
  S3O_TRY(become_owner(options.vault, [&] { return options.credential.read_early(); }));
  S3O_ASSIGN(auto vault, vault_named(options.vault));
  if (const Status locked = vault.lock(); !locked) {
    if (locked.error().code == Errc::vault_in_use && ask_daemon(vault, "status", kStatusPatience))
      return replace_mounted(vault, options, servers.front());
    S3O_TRY(lock_vault(vault));
  }
  return replace_unmounted(vault, options, servers.front());
}

// ---- the number of servers

Status change_count(const Args& args, std::string_view what) {
  if (args.empty() || args.front() == "--help")
    return fail(Errc::usage,
                "server {} VAULT: the number of a volume's servers does not change: s3oramfs "
                "migrate moves a vault to more, or fewer",
                what);
  return fail(Errc::unsupported,
              "{}: how many servers a volume has is fixed when it is made: what counts as a "
              "majority of them, at each server and here, would have to change at one instant; "
              "s3oramfs migrate moves the vault to a volume on other servers, and s3oramfs server "
              "replace exchanges one for another",
              args.front());
}

/// Runs the command without `list` or `replace`: only records the address.
Status note(const Args& args) {
  CLI::App app(
      "Records a new address or key of a server; the vault must not be mounted.\n"
      "See also: server list VAULT, server replace VAULT N --server HOST:PORT,KEY.",
      "s3oramfs server");
  std::string name, address;
  unsigned number = 0;
  bool source = false;
  app.add_flag("--source", source, "Of the servers that the vault is leaving (migrate)");
  app.add_option("VAULT", name, "The vault")->required()->transform(by_name());
  app.add_option("N", number, "The server's number")->required()->check(CLI::Range(1, 255));
  app.add_option("ADDRESS", address, "HOST:PORT,KEY: its new address and key")->required();
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_ASSIGN(auto servers, parse_servers({address}, "ADDRESS"));
  S3O_TRY(become_owner(name));
  S3O_ASSIGN(auto vault, find_vault(name));
  S3O_TRY(lock_vault(vault));
  const auto server = static_cast<Party>(number);
  return source ? vault.set_source_server(server, servers.front())
                : vault.set_server(server, servers.front());
}

}  // namespace

Status run_server(const Args& args) {
  const std::string_view word = args.empty() ? std::string_view() : args.front();
  const Args rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (word == "list") return list(rest);
  if (word == "replace") return replace(rest);
  if (word == "add" || word == "remove") return change_count(rest, word);
  return note(args);
}

}  // namespace s3oram
