// s3oramfs backup: has the servers keep all names as they are now, and writes the file from which,
// with the servers, a lost vault can be had again. s3oramfs restore is the other half.
#include <iostream>

#include "cli/command.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/terminal.h"
#include "cli/vault_owner.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/errand.h"

namespace s3oram {
namespace {

Status back_up(const Vault& vault) {
  Progress progress("backing up the names of " + vault.directory().string());
  for (const char* question : {"sync", "backup"})
    if (auto answer = ask_daemon(vault, question, progress); !answer)
      return fail(std::move(answer).error());
  return {};
}

Status write_new(const std::filesystem::path& file, ByteSpan content) {
  if (std::error_code error; std::filesystem::exists(file, error))
    return fail(Errc::exists, "{}: exists already, and is not overwritten", file.string());
  return write_durably(file, content);
}

/// `writing`: root's, if that has become the vault's owner; the file is where root wants it.
Status write_keys(const Vault& vault, const std::filesystem::path& file, Errand& writing) {
  S3O_ASSIGN(auto text, vault.recovery());
  if (!writing.is_prepared())
    S3O_TRY(write_new(file, as_bytes(text)));
  else if (auto written = writing.run(as_bytes(text)); !written)
    return fail(std::move(written).error());
  S3O_ASSIGN(auto wanted, vault.wants_passphrase());
  std::cout << file.string()
            << (wanted
                    ? ": keep it away from this machine. With it and the passphrase\n"
                    : ": keep it away from this machine, and secret: it opens the vault. With it\n")
            << "the vault can be had again: s3oramfs restore --from FILE VAULT\n";
  return {};
}

}  // namespace

Status run_backup(const Args& args) {
  CLI::App app(
      "Has the servers keep all names of a mounted vault as they are now. That happens\n"
      "by itself every minute or so.",
      "s3oramfs backup");
  std::string name;
  std::filesystem::path keys;
  app.add_option("VAULT", name, "The vault, or the directory where it is mounted")->required();
  app.add_option("--keys", keys, "Write what restore needs for a lost vault to FILE")
      ->type_name("FILE");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  Errand writing;
  const auto prepare_writing = [&]() -> Status {
    if (keys.empty()) return {};
    auto errand = Errand::prepare(
        [&keys](ByteSpan content, std::vector<Descriptor>&) { return write_new(keys, content); });
    if (!errand) return fail(std::move(errand).error());
    writing = std::move(*errand);
    return {};
  };
  S3O_TRY(become_owner(name, prepare_writing));
  S3O_ASSIGN(auto vault, find_vault(name));
  if (!keys.empty()) S3O_TRY(write_keys(vault, keys, writing));
  const Status backed_up = back_up(vault);
  if (backed_up || backed_up.error().code != Errc::not_mounted) return backed_up;
  if (!keys.empty()) return {};
  return fail(Errc::not_mounted, "{}: not mounted, and every unmount backs its names up",
              vault.directory().string());
}

}  // namespace s3oram
