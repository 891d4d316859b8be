// s3oramfs backup: saves all names on the servers as they are now, and writes the file from which a
// lost vault can be recovered with the servers' help. s3oramfs restore is the other half.
#include <iostream>

#include "cli/command.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/qr_code.h"
#include "cli/sheet_page.h"
#include "cli/terminal.h"
#include "cli/vault_argument.h"
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
    return fail(Errc::exists, "{} exists already, and is not overwritten", file.string());
  return write_durably(file, content);
}

/// A file that the command writes. If root has become the vault's owner, an errand writes it with
/// root's rights, where root wants it.
struct Output {
  std::filesystem::path file;  // empty if no such file is written
  Errand writing;

  Status prepare() {
    if (file.empty()) return {};
    auto errand = Errand::prepare([this_file = file](ByteSpan content, std::vector<Descriptor>&) {
      return write_new(this_file, content);
    });
    if (!errand) return fail(std::move(errand).error());
    writing = std::move(*errand);
    return {};
  }
  Status write(const std::string& text) {
    if (!writing.is_prepared()) return write_new(file, as_bytes(text));
    const auto written = writing.run(as_bytes(text));
    return written ? Status() : Status(fail(written.error()));
  }
};

Status write_keys(const Vault& vault, Output& keys, Output& sheet) {
  if (keys.file.empty() && sheet.file.empty()) return {};
  S3O_ASSIGN(const auto text, vault.recovery());
  S3O_ASSIGN(const auto wanted, vault.wants_passphrase());
  if (!sheet.file.empty()) {
    S3O_ASSIGN(const auto page, sheet_of(vault, text, is_sheet_page(sheet.file)));
    S3O_TRY(sheet.write(page));
    std::cout << sheet.file.string()
              << ": print it, and remove the file. It says how it is used.\n";
  }
  if (keys.file.empty()) return {};
  S3O_TRY(keys.write(text));
  std::cout << keys.file.string()
            << (wanted
                    ? ": keep it away from this machine. With it and the passphrase\n"
                    : ": keep it away from this machine, and secret: it opens the vault. With it\n")
            << "the vault can be recovered: s3oramfs restore --from FILE VAULT\n";
  return {};
}

}  // namespace

Status run_backup(const Args& args) {
  CLI::App app(
      "Saves all names of a mounted vault, as they are now, on the servers. This\n"
      "also happens automatically about once a minute.",
      "s3oramfs backup");
  std::string name;
  Output keys, sheet;
  add_vault(app, "VAULT", name, "The vault, or the directory where it is mounted");
  app.add_option("--keys", keys.file, "Write to FILE what restore needs for a lost vault")
      ->type_name("FILE");
  app.add_option("--sheet", sheet.file, "The same for paper: HTML with QR codes, or text")
      ->type_name("FILE");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  if (is_sheet_page(sheet.file)) S3O_TRY(check_qr("--sheet"));
  const auto prepare_writing = [&]() -> Status {
    S3O_TRY(keys.prepare());
    return sheet.prepare();
  };
  S3O_TRY(become_owner(name, prepare_writing));
  S3O_ASSIGN(auto vault, find_vault(name));
  S3O_TRY(write_keys(vault, keys, sheet));
  Status backed_up = back_up(vault);
  if (backed_up || backed_up.error().code != Errc::not_mounted) return backed_up;
  if (!keys.file.empty() || !sheet.file.empty()) return {};
  return fail(Errc::not_mounted, "{}: not mounted, and every unmount backs up its names",
              vault.directory().string());
}

}  // namespace s3oram
