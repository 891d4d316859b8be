// s3oramfs fsck: reports what is wrong with a vault's own files, and mends it if told to.
#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/json_text.h"
#include "cli/mount_table.h"
#include "cli/terminal.h"
#include "cli/vault_argument.h"
#include "cli/vault_check.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/volume/migration.h"

namespace s3oram {
namespace {

using nlohmann::ordered_json;

std::string json_of(const Vault& vault, const VaultReport& report) {
  ordered_json findings = ordered_json::array();
  for (const Finding& finding : report.findings)
    findings.push_back({{"kind", finding.kind},
                        {"where", finding.where},
                        {"what", finding.what},
                        {"repair", finding.repair},
                        {"damage", !finding.harmless},
                        {"mendable", finding.mendable()},
                        {"mended", report.repaired && finding.mendable()}});
  ordered_json all;
  all["vault"] = vault.directory().string();
  all["clean"] = report.left() == 0;
  all["repaired"] = report.repaired;
  all["copy"] = report.copy.string();
  all["files"] = report.files;
  all["names"] = report.names;
  all["blocks"] = report.blocks;
  all["findings"] = findings;
  return json_text(all);
}

void print(const VaultReport& report) {
  for (const Finding& finding : report.findings) {
    std::cout << fmt::format("{}: {}\n", printable(finding.where), printable(finding.what));
    if (finding.mendable())
      std::cout << fmt::format("    {}: {}\n", report.repaired ? "repaired" : "--repair",
                               printable(finding.repair));
    else
      std::cout << (finding.harmless ? "    no damage: the next mount frees it\n"
                                     : "    cannot be mended here\n");
  }
  std::cout << fmt::format("{} files and directories with {} names and {} blocks of data\n",
                           report.files, report.names, report.blocks);
  if (!report.copy.empty())
    std::cout << fmt::format("vault.db as it was before: {}\n", report.copy.string());
}

std::size_t damage(const VaultReport& report) {
  std::size_t count = 0;
  for (const Finding& finding : report.findings) count += !finding.harmless;
  return count;
}

// Returns an error if problems are left.
Status outcome(const std::string& vault, const VaultReport& report, std::size_t problems,
               bool repair) {
  const std::size_t left = report.left();
  if (left == 0) return {};
  const Errc code = report.unsupported ? Errc::unsupported : Errc::damaged_vault;
  if (repair) return fail(code, "{}: {} of {} problems could not be mended", vault, left, problems);
  const bool mendable = std::any_of(report.findings.begin(), report.findings.end(),
                                    [](const Finding& finding) { return finding.mendable(); });
  return fail(code, "{}: {} found and nothing was changed{}", vault,
              left == 1 ? "1 problem was" : fmt::format("{} problems were", left),
              mendable ? "; --repair mends what can be mended" : "");
}

/// Locks the vault, and unlocks its vault.db. Returns null if no key is needed, or if vault.key is
/// damaged, which the check reports.
Result<std::unique_ptr<SealedDisk>> unlocked_disk(Vault& vault, const CredentialOptions& options) {
  S3O_TRY(lock_vault(vault));
  S3O_TRY(vault.require_ready());
  if (read_header(vault.database()).kind != DatabaseHeader::Kind::sealed || !vault.check_key())
    return nullptr;
  S3O_ASSIGN(const auto opened, unlock_vault(options, vault));
  S3O_TRY(settle_migration(vault, opened.keys));
  return std::make_unique<SealedDisk>(opened.keys.pages);
}

}  // namespace

Status run_fsck(const Args& args) {
  CLI::App app("Checks the files of an unmounted vault on this machine. Contacts no server.",
               "s3oramfs fsck");
  std::string name;
  bool repair = false;
  bool as_json = false;
  app.add_flag("--repair", repair, "Repair what can be; a copy of vault.db is kept");
  app.add_flag("--json", as_json, "Print JSON, for programs");
  CredentialOptions credential;
  add_vault(app, "VAULT", name, "The vault", &credential);
  credential.add_to(app);
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};

  S3O_TRY(become_owner(name, [&] { return credential.read_early(); }));
  S3O_ASSIGN(auto vault, find_vault(name));
  S3O_ASSIGN(auto disk, unlocked_disk(vault, credential));
  auto report = [&] {
    Progress progress("checking " + vault.directory().string());
    Disk& databases = disk ? *disk : system_disk();
    return check_vault(vault, databases, repair,
                       [&](const std::string& doing) { progress.update(doing); });
  }();
  if (!report) return fail(std::move(report).error());

  const std::size_t problems = damage(*report);
  if (as_json)
    std::cout << json_of(vault, *report) << "\n";
  else
    print(*report);
  S3O_TRY(outcome(vault.directory().string(), *report, problems, repair));
  if (as_json) return {};
  if (problems == 0)
    std::cout << fmt::format("{} is sound\n", vault.directory().string());
  else
    std::cout << fmt::format(
        "{}: {} mended\n", vault.directory().string(),
        problems == 1 ? "the problem was" : fmt::format("all {} problems were", problems));
  if (std::ranges::any_of(report->findings,
                          [](const Finding& finding) { return finding.kind == "lost-rows"; }))
    std::cout << fmt::format(
        "The servers may have what was lost with rows that could not be read: before the next "
        "mount, s3oramfs restore --force {} brings back all files as of the last backup\n",
        shell_word(vault.directory()));
  return {};
}

}  // namespace s3oram
