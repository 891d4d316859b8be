// s3oramfs lock and unlock: make a mounted vault forget its keys, and give them back.
#include <sodium.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/terminal.h"
#include "cli/vault_argument.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

constexpr auto kChange = 20s;  // time for the daemon to restart
constexpr auto kAskAgain = 20ms;

/// Waits until the daemon says that the mount is locked or, if `locked` is false, that it is not.
/// The daemon does not answer while it changes.
Status await_state(const Vault& vault, bool locked) {
  const auto limit = std::chrono::steady_clock::now() + kChange;
  for (;;) {
    const auto status = ask_daemon(vault, "status", kStatusPatience);
    if (status && status->value("locked", false) == locked) return {};
    if (!status && status.error().code == Errc::not_mounted) {
      S3O_ASSIGN(const auto used, Vault::is_in_use(vault.directory()));
      if (!used)
        return fail(Errc::not_mounted, "{}: its daemon has ended", vault.directory().string());
    }
    if (std::chrono::steady_clock::now() >= limit)
      return fail(Errc::unreachable, "{}: its daemon does not become {} (see {})",
                  vault.directory().string(), locked ? "locked" : "unlocked",
                  (vault.run_directory() / "fused.log").string());
    std::this_thread::sleep_for(kAskAgain);
  }
}

std::string in_hexadecimal(const void* bytes, std::size_t size) {
  std::string text(2 * size + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), static_cast<const unsigned char*>(bytes), size);
  text.pop_back();
  return text;
}

std::string question_of(const Credential& credential) {
  return credential.kind == Credential::Kind::passphrase
             ? "unlock passphrase " +
                   in_hexadecimal(credential.passphrase.data(), credential.passphrase.size())
             : "unlock key_file " +
                   in_hexadecimal(credential.content.data(), credential.content.size());
}

Result<Vault> mounted_vault(const std::string& name) {
  S3O_ASSIGN(auto mount, find_mount(name));
  return Vault::find(mount.vault);
}

}  // namespace

Status run_lock(const Args& args) {
  CLI::App app("Makes a mounted vault forget its keys, names and contents.", "s3oramfs lock");
  std::string name;
  add_vault(app, "DIRECTORY|VAULT", name, "The mount point, or the mounted vault");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_TRY(become_owner(name));
  S3O_ASSIGN(auto vault, mounted_vault(name));
  {
    Progress progress(fmt::format("writing the data of {} that is still in memory", name));
    S3O_TRY(ask_daemon(vault, "lock", progress, 0s));
  }
  return await_state(vault, true);
}

Status run_unlock(const Args& args) {
  CLI::App app("Opens a locked vault again.", "s3oramfs unlock");
  std::string name;
  CredentialOptions options;
  add_vault(app, "DIRECTORY|VAULT", name, "The mount point, or the mounted vault", &options);
  options.add_to(app);
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_TRY(become_owner(name, [&] { return options.read_early(); }));
  S3O_ASSIGN(auto vault, mounted_vault(name));
  S3O_ASSIGN(const auto status, ask_daemon(vault, "status", kStatusPatience));
  if (!status.value("locked", false)) {
    std::cerr << fmt::format("s3oramfs: {} is not locked\n", name);
    return {};
  }
  const auto try_it = [&](const Credential& credential) -> Status {
    Progress progress(fmt::format("opening {}", vault.directory().string()));
    S3O_ASSIGN(auto asked, Question::ask(vault, question_of(credential), 0s));
    S3O_TRY(asked.await(progress));
    auto answer = asked.answer();
    return answer ? Status() : Status(fail(std::move(answer).error()));
  };
  S3O_TRY(open_with_credential(options, vault, try_it));
  return await_state(vault, false);
}

}  // namespace s3oram
