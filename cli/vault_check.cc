// Checks the files of a vault one after another, and mends what it can.
#include "cli/vault_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fused/backup/backup_list.h"
#include "fused/tables/check_files.h"
#include "fused/tables/heal.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/client/owner.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/integrity.h"
#include "oramcore/db/salvage.h"
#include "oramcore/db/salvage_database.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/advice.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr auto kSalvaged =
    "all rows that can be read are put into a new file; lost rows may be in the "
    "servers' last backup: `s3oramfs restore --force`, before the next mount, goes back to that";
constexpr unsigned kMostRounds = 3;  // rounds of mending; the first should mend everything

/// An empty report, for a vault.db that belongs to another volume.
class NoState final : public StateReport {
 public:
  Status repair(Database&) const override { return {}; }
};

class Check {
 public:
  Check(const Vault& vault, Disk& disk, bool repair,
        const std::function<void(const std::string&)>& progress)
      : vault_(vault),
        disk_(disk),
        params_(vault.config().params),
        path_(vault.database()),
        repair_(repair),
        progress_(progress) {}

  Result<VaultReport> run() {
    check_others();
    if (!fs::exists(path_)) {
      found("missing-database", "the file is gone, and with it the names and places of all files",
            {});
      return std::move(report_);
    }
    S3O_TRY(check_database());
    return std::move(report_);
  }

 private:
  void found(std::string kind, const std::string& what, std::string repair) {
    report_.findings.push_back({std::move(kind), "vault.db",
                                repair.empty() ? fmt::format("{}; {}", what, kMakeAnew) : what,
                                std::move(repair)});
  }

  /// Offers no repair while a vault moves, because a lost row of a place would bring back an old
  /// content of its block from the source.
  void found_damage(const std::string& what) {
    found("damaged-database", what, vault_.config().source ? "" : kSalvaged);
  }

  void note(const std::optional<Error>& error) {
    if (error && error->code == Errc::unsupported) report_.unsupported = true;
  }

  void check_others() {
    if (Status key = vault_.check_key(); !key) {
      report_.findings.push_back({"vault-key", "vault.key", key.error().message, {}});
      note(key.error());
    }
    if (!vault_.config().local) return;
    for (unsigned server = 1; server <= vault_.config().servers.size(); ++server) {
      const fs::path store = vault_.store(static_cast<Party>(server));
      if (!fs::is_directory(store))
        report_.findings.push_back(
            {"missing-store",
             fmt::format("servers/{}", server),
             "the store of this server is gone, and the vault cannot be "
             "mounted: " +
                 advice_on_store(params_, static_cast<Party>(server), vault_.directory()),
             {}});
    }
  }

  Status check_database() {
    progress_("reading vault.db");
    if (!can_be_opened()) return {};
    auto database = Database::open(path_.string(), Database::Mode::read_write, disk_);
    if (!database && database.error().code != Errc::damaged_vault) return fail(database.error());
    if (!database && is_sealed()) return check_pages(database.error().message);
    if (!database) {
      found("damaged-database", database.error().message, {});
      return {};
    }
    auto problems = find_damage(*database);
    if (!problems) {
      found("damaged-database", problems.error().message, {});
      return {};
    }
    const bool damaged = !problems->empty() || has_changed_rows(*database);
    if (!problems->empty()) found_damage("SQLite finds the file damaged: " + *problems);
    const bool stays = damaged && vault_.config().source, salvages = damaged && !stays;
    if (!repair_ || !salvages) S3O_TRY(check_rows(*database));
    const bool mend =
        repair_ && !stays &&
        (salvages || std::any_of(report_.findings.begin(), report_.findings.end(),
                                 [](const Finding& finding) { return finding.mendable(); }));
    if (!mend) return {};
    static_cast<void>(database->fold_log());  // may fail if the file is too damaged
    S3O_TRY(save_copy());
    if (!salvages) return mend_rows(*database);
    *database = Database();
    S3O_TRY(salvage_and_mend());
    if (report_.repaired) return {};
    return remove_database(std::exchange(report_.copy, {}));  // it is still the same as vault.db
  }

  bool is_sealed() const { return read_header(path_).kind == DatabaseHeader::Kind::sealed; }

  /// Returns whether the database can be opened. If not, adds a finding.
  bool can_be_opened() {
    const Status known = require_known_seals(path_);
    Status right;
    if (known && disk_.page_key())
      right = check_page_key(path_, *disk_.page_key());
    else if (known && is_sealed())
      right = fail(Errc::damaged_vault,
                   "it is sealed, and cannot be checked until vault.key is right again");
    if (known && right) return true;
    const Error& error = known ? right.error() : known.error();
    report_.findings.push_back(
        {known ? "other-vault" : "unusable-state", "vault.db", error.message, {}});
    note(error);
    return false;
  }

  /// Handles a sealed database that cannot even be opened.
  Status check_pages(const std::string& problem) {
    found_damage(problem);
    if (!repair_ || vault_.config().source) return {};
    S3O_TRY(save_copy());
    S3O_TRY(salvage_and_mend());
    if (report_.repaired) return {};
    return remove_database(std::exchange(report_.copy, {}));
  }

  static void add_mapped(const std::vector<BlockId>& blocks, FileCheckInput& input) {
    if (!blocks.empty())
      input.mapped.resize(std::max<std::size_t>(input.mapped.size(), blocks.back() + 1));
    for (const BlockId block : blocks) input.mapped[block] = true;
  }

  /// Adds the blocks that have not moved yet, which lie at the source of a migration. While the
  /// migration is under way, no row of a place is deleted, because the source would then supply an
  /// old content of the block. Returns whether the place of every block is known.
  bool look_at_source(StateReport& state, FileCheckInput& input) {
    bool known = true;
    for (Finding& finding : state.findings) {
      known = known && finding.harmless;
      finding.repair.clear();
    }
    const Vault source = vault_.source();
    const VolumeParams& params = source.config().params;
    auto database = Database::open(source.database().string(), Database::Mode::read_only, disk_);
    if (!database) {
      state.findings.push_back(
          {"source-database",
           "source/vault.db",
           fmt::format("{}: it is not known where the blocks are that have not moved yet; {}",
                       database.error().message, kMakeAnew),
           {}});
      return false;
    }
    const auto report = volume_kind(params).check(*database, params);
    known = known && !report->refused;
    for (Finding& finding : report->findings) {
      known = known && finding.harmless;
      finding.repair.clear();
      finding.where = "source/" + finding.where;
      state.findings.push_back(std::move(finding));
    }
    add_mapped(report->blocks, input);
    for (const BlockId block : report->unreadable)
      if (!std::ranges::binary_search(state.blocks, block)) input.unreadable.insert(block);
    return known;
  }

  struct Rows {
    std::unique_ptr<StateReport> state;
    FileCheck files;
  };

  Rows look(Database& database) {
    progress_("checking positions");
    const auto other = other_owner(database, {vault_.config().volume, params_, {}});
    if (other && !other->empty()) {  // errors are reported below
      Rows rows{std::make_unique<NoState>(), {}};
      rows.state->findings.push_back({"other-vault", "vault.db", *other, {}});
      rows.state->refused = Error{Errc::damaged_vault, *other};
      return rows;
    }
    Rows rows{volume_kind(params_).check(database, params_), {}};
    if (rows.state->refused) {
      for (Finding& finding : rows.state->findings) finding.repair.clear();
      return rows;
    }
    progress_("checking files");
    FileCheckInput input{.block_size = params_.block_size,
                         .mapped = {},
                         .unreadable = rows.state->unreadable,
                         .now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count(),
                         .uid = ::getuid(),
                         .gid = ::getgid()};
    add_mapped(rows.state->blocks, input);
    const bool known = !vault_.config().source || look_at_source(*rows.state, input);
    input.all_known = known;
    if (const auto backups = read_lists(database))  // blocks of backups belong to no file
      for (const BackupList& backup : *backups)
        for (const BlockId block : backup.blocks)
          if (block < input.mapped.size()) input.mapped[block] = false;
    rows.files = check_files(database, input);
    if (rows.files.refused || !known)  // mend nothing, because data may still be there
      for (Findings* findings : {&rows.state->findings, &rows.files.findings})
        for (Finding& finding : *findings) finding.repair.clear();
    return rows;
  }

  void add(Findings findings) {
    std::move(findings.begin(), findings.end(), std::back_inserter(report_.findings));
  }

  /// Adds the findings to the report. Returns false if the rows are in no state to be mended.
  bool tell(Rows rows) {
    add(std::move(rows.state->findings));
    add(std::move(rows.files.findings));
    note(rows.state->refused);
    note(rows.files.refused);
    report_.files = rows.files.files;
    report_.names = rows.files.names;
    report_.blocks = rows.files.blocks;
    return !rows.state->refused && !rows.files.refused;
  }

  /// Checks the rows, and changes nothing.
  Result<bool> check_rows(Database& database) {
    S3O_TRY(database.begin());
    const bool usable = tell(look(database));
    database.rollback();
    return usable;
  }

  Status mend_rows(Database& database) {
    S3O_TRY(database.begin());
    const auto mend = [&]() -> Status {
      Rows rows = look(database);
      for (unsigned round = 0;; ++round) {
        const auto mendable = [](const Finding& finding) { return finding.mendable(); };
        const auto& state = rows.state->findings;
        const auto& files = rows.files.findings;
        if (std::none_of(state.begin(), state.end(), mendable) &&
            std::none_of(files.begin(), files.end(), mendable))
          break;
        if (round == kMostRounds)
          return fail(Errc::failed, "{}: what was found could not be mended; nothing was changed",
                      path_.string());
        progress_("mending");
        if (!vault_.config().source) S3O_TRY(rows.state->repair(database));
        S3O_TRY(repair_files(database, rows.files));
        rows = look(database);
      }
      S3O_ASSIGN(const auto has_files, database.has_table("fs_state"));
      if (has_files) {
        S3O_ASSIGN(const auto current, read_current(database));
        const bool lost = lost_rows_ || current == kRowsLost;
        S3O_TRY(note_current(database, lost ? std::optional(kRowsLost) : std::nullopt));
      }
      return database.commit("fsck");
    };
    Status mended = mend();
    if (!mended) database.rollback();
    report_.repaired = mended.has_value();
    return mended;
  }

  Status save_copy() {
    progress_("saving a copy of vault.db");
    S3O_ASSIGN(auto copy, keep_copy(path_, ".before-fsck"));
    report_.copy = std::move(copy);
    return {};
  }

  Status salvage_and_mend() {
    progress_("reading whatever is readable in vault.db");
    const fs::path fresh = path_.string() + ".new";
    S3O_TRY(remove_database(fresh));
    const auto salvaged = salvage_database(path_, fresh, disk_);
    if (!salvaged) {
      found("damaged-database", salvaged.error().message, {});
      return remove_database(fresh);
    }
    tell_of_pages(salvaged->pages);
    for (const SalvagedTable& table : salvaged->tables) {
      if (table.mended > 0)
        report_.findings.push_back(
            {"changed-row", "vault.db, table " + table.name,
             fmt::format("{} rows had each changed by one bit, as their checksums show",
                         table.mended),
             "they are as they were written"});
      lost_rows_ |= !table.whole;
      if (!table.whole)
        report_.findings.push_back(
            {"lost-rows", "vault.db, table " + table.name,
             fmt::format("some rows could not be read; {} could", table.rows),
             "what was lost with them follows; the servers' last backup may have it: `s3oramfs "
             "restore --force`, before the next mount"});
    }
    {
      S3O_ASSIGN(auto database, Database::open(fresh.string(), Database::Mode::read_write, disk_));
      S3O_ASSIGN(auto usable, check_rows(database));
      if (!usable) {
        database = Database();
        return remove_database(fresh);
      }
      S3O_TRY(mend_rows(database));
    }
    return replace_database(fresh, path_, disk_);
  }

  void tell_of_pages(const GatheredPages& pages) {
    for (const std::string& lost : pages.lost)
      report_.findings.push_back({"lost-page", "vault.db", lost, "what was on it follows"});
    if (pages.mended > 0)
      report_.findings.push_back({"mended-page", "vault.db",
                                  fmt::format("{} pages had a single bit changed", pages.mended),
                                  "the bit is corrected: nothing on them is lost"});
  }

  const Vault& vault_;
  Disk& disk_;
  const VolumeParams params_;
  const fs::path path_;
  const bool repair_;
  const std::function<void(const std::string&)>& progress_;
  VaultReport report_;
  bool lost_rows_ = false;  // rows of the damaged database were lost
};

}  // namespace

std::size_t VaultReport::left() const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [this](const Finding& finding) {
        return !finding.harmless && !(repaired && finding.mendable());
      }));
}

Result<VaultReport> check_vault(const Vault& vault, Disk& disk, bool repair,
                                const std::function<void(const std::string&)>& progress) {
  return Check(vault, disk, repair, progress).run();
}

}  // namespace s3oram
