// s3oramfs status: asks the daemon of a mounted vault; for an unmounted vault, shows only the
// configuration.
#include <fmt/ranges.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/json_text.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/status_text.h"
#include "cli/vault_argument.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

using nlohmann::ordered_json;
using namespace std::chrono_literals;

// A daemon whose mount is gone first closes its socket, and then the vault.
constexpr auto kCloses = 5s;
constexpr auto kStatusAgain = 20ms;

ordered_json describe(const Vault& vault, bool mounted_here) {
  const VaultConfig& config = vault.config();
  ordered_json status;
  status["vault"] = vault.directory().string();
  status["ready"] = config.ready;
  status["mounted"] = false;
  status["mounted_here"] = mounted_here;
  status["local"] = config.local;
  status["scheme"] = name_of(kSchemes, config.params.kind());
  status["privacy_threshold"] = config.params.scheme.threshold;
  status["block_size"] = config.params.block_size;
  status["bucket_size"] = config.params.bucket_size;
  status["evict_every"] = config.params.evict_every;
  if (config.params.is_ring()) status["top_levels"] = config.params.top_levels;
  status["evictor"] = name_of(kEvictors, config.params.evictor);
  status["privacy"] = name_of(kPrivacies, config.params.privacy);
  status["security"] = name_of(kSecurities, config.params.assumed());
  if (config.source) status["moving_from"] = name_of(kSchemes, config.source->volume.params.kind());
  status["servers"] = ordered_json::array();
  for (const ServerAddress& server : config.servers)
    status["servers"].push_back({{"address", config.local ? "local" : server.host_port}});
  return status;
}

/// Describes a mount that is in the kernel's list although its daemon has ended, hangs, or
/// (`alive`) cannot be asked. `why` is the reason why the daemon does not answer.
void add_dead_daemon(ordered_json& status, const VaultMount& mount, const Error& why, bool alive) {
  std::string problem =
      fmt::format("its daemon {}: s3oramfs umount {}, and mount it again",
                  alive ? "cannot be asked, because its socket in the vault's directory run is gone"
                        : "has ended",
                  shell_word(mount.point));
  if (why.code == Errc::unreachable)
    problem = fmt::format("{}; if it hangs: s3oramfs umount --force {}, and mount it again",
                          why.message, shell_word(mount.point));
  status["mounted"] = true;
  status["mountpoint"] = mount.point.string();
  status["health"] = {{"healthy", false}, {"problems", ordered_json::array({problem})}};
}

/// Returns whether a process holds the vault.
bool is_held(const Vault& vault) {
  const auto used = Vault::is_in_use(vault.directory());
  return used && *used;
}

/// Asks the daemon. If the vault is `listed` nowhere as mounted, and a process holds it that does
/// not listen, waits for a while: that may be a daemon that closes or opens the vault.
Result<nlohmann::json> ask_for_status(const Vault& vault, bool listed) {
  const auto limit = std::chrono::steady_clock::now() + kCloses;
  for (;;) {
    auto answer = ask_daemon(vault, "status", kStatusPatience);
    if (!answer && answer.error().code == Errc::failed)  // the daemon may just have ended
      answer = ask_daemon(vault, "status", kStatusPatience);
    const bool may_change =
        !answer && answer.error().code == Errc::not_mounted && !listed && is_held(vault);
    if (!may_change || std::chrono::steady_clock::now() >= limit) return answer;
    std::this_thread::sleep_for(kStatusAgain);
  }
}

/// Returns the error for a vault that is not mounted, and that a process holds.
Status fail_as_held(Vault& vault) {
  Status held = vault.lock();
  if (held || held.error().code != Errc::vault_in_use) return held;  // it has just been left
  return fail(Errc::vault_in_use,
              "{}, but not mounted: a daemon still closes it or is about to mount it, or a command "
              "works on it; try again later",
              held.error().message);
}

Status outcome_of_check(const ordered_json& status) {
  if (!status["mounted"].get<bool>())
    return fail(Errc::not_mounted, "{} is not mounted", status["vault"].get<std::string>());
  const auto problems = status_problems(status);
  if (problems.empty()) return {};
  return fail(
      status_has_problem(status, "servers_disagree") ? Errc::servers_disagree : Errc::unhealthy,
      "{}", fmt::join(problems, "; "));
}

}  // namespace

Status run_status(const Args& args) {
  CLI::App app("Shows a vault: health, servers, space and unwritten data.", "s3oramfs status");
  std::string name;
  bool as_json = false, check = false;
  add_vault(app, "VAULT", name, "The vault, or the directory where it is mounted");
  app.add_flag("--json", as_json, "Print JSON, for programs");
  app.add_flag("--check", check, "One line; exit code 24, 25: unhealthy, 23: unmounted");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};

  S3O_TRY(become_owner(name));
  const auto mount = find_mount(name);
  S3O_ASSIGN(auto vault, find_vault(mount ? mount->vault : std::filesystem::path(name)));
  ordered_json status = describe(vault, mount.has_value());
  auto answer = ask_for_status(vault, mount.has_value());
  if (answer) {
    answer->erase("ok");
    status.update(ordered_json(*answer));
    status["mounted"] = true;
  } else if (answer.error().code == Errc::not_mounted || answer.error().code == Errc::unreachable) {
    if (mount)  // if a process holds the vault, the daemon is alive, whether it answers or not
      add_dead_daemon(status, *mount, answer.error(), is_held(vault));
    else if (answer.error().code == Errc::unreachable)
      return fail(std::move(answer).error());
    else if (is_held(vault))
      S3O_TRY(fail_as_held(vault));
  } else {
    return fail(std::move(answer).error());
  }
  if (as_json)
    std::cout << json_text(status) << "\n";
  else if (!check)
    std::cout << printable_lines(status_text(status, std::time(nullptr)));
  if (!check) return {};
  S3O_TRY(outcome_of_check(status));
  if (!as_json) std::cout << printable_lines(healthy_line(status));
  return {};
}

}  // namespace s3oram
