#include "cli/vault_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fused/backup/backup_list.h"
#include "fused/tables/check_files.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/client/state_check.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/salvage.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostRounds = 3;  // of mending; the first mends everything that can be

/// What SQLite itself says of the file: nothing if it is sound.
Result<std::string> integrity(Database& database) {
  S3O_ASSIGN(auto rows, database.prepare("PRAGMA integrity_check(3)"));
  std::string problems;
  while (true) {
    auto more = rows.step();
    if (!more) return problems.empty() ? more.error().message : problems;
    if (!*more) return problems == "ok" ? std::string() : problems;
    problems += (problems.empty() ? "" : "; ") + rows.text(0);
    std::ranges::replace(problems, '\n', ' ');
  }
}

class Check {
 public:
  Check(const Vault& vault, bool repair, const std::function<void(const std::string&)>& progress)
      : vault_(vault),
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
        report_.findings.push_back({"missing-store",
                                    fmt::format("servers/{}", server),
                                    fmt::format("the store of this server is gone: the vault "
                                                "cannot be mounted before `s3oramfs repair "
                                                "--server {}` has made it anew from the others",
                                                server),
                                    {}});
    }
  }

  Status check_database() {
    progress_("reading vault.db");
    auto database = Database::open(path_.string(), Database::Mode::read_write);
    if (!database && database.error().code != Errc::damaged_vault) return fail(database.error());
    if (!database) {
      found("damaged-database", database.error().message, {});
      return {};
    }
    auto problems = integrity(*database);
    if (!problems) {
      found("damaged-database", problems.error().message, {});
      return {};
    }
    if (!problems->empty())
      found(
          "damaged-database", "SQLite finds the file damaged: " + *problems,
          "all rows that can be read are put into a new file; what is lost of them may be in the "
          "servers' last backup: `s3oramfs restore --force`, before the next mount, has all as of "
          "then");
    if (!repair_ || problems->empty()) S3O_TRY(check_rows(*database));
    const bool mend =
        repair_ && std::any_of(report_.findings.begin(), report_.findings.end(),
                               [](const Finding& finding) { return finding.mendable(); });
    if (!mend) return {};
    S3O_TRY(save_copy(*database));
    if (problems->empty()) return mend_rows(*database);
    *database = Database();
    S3O_TRY(salvage_and_mend());
    if (report_.repaired) return {};
    return remove_database(std::exchange(report_.copy, {}));  // the same as vault.db still
  }

  struct Rows {
    StateCheck state;
    FileCheck files;
  };

  Rows look(Database& database) {
    progress_("checking positions");
    static_cast<void>(ClientState::make_missing_tables(database));  // reading them will tell
    const auto other = other_owner(database, {vault_.config().volume, params_, {}});
    if (other && !other->empty()) {  // what cannot be read shows below
      Rows rows;
      rows.state.findings.push_back({"other-vault", "vault.db", *other, {}});
      rows.state.refused = Error{Errc::damaged_vault, *other};
      return rows;
    }
    Rows rows{read_state(database, params_), {}};
    if (rows.state.refused) {
      for (Finding& finding : rows.state.findings) finding.repair.clear();
      return rows;
    }
    check_further(rows.state, params_);
    progress_("checking files");
    FileCheckInput input{.block_size = params_.block_size,
                         .mapped = {},
                         .unreadable = rows.state.state.unreadable,
                         .now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count(),
                         .uid = ::getuid(),
                         .gid = ::getgid()};
    const std::vector<BlockId> blocks = rows.state.state.positions.blocks();
    if (!blocks.empty()) input.mapped.resize(blocks.back() + 1);
    for (const BlockId block : blocks) input.mapped[block] = true;
    if (const auto backups = read_lists(database))  // no file's
      for (const BackupList& backup : *backups)
        for (const BlockId block : backup.blocks)
          if (block < input.mapped.size()) input.mapped[block] = false;
    rows.files = check_files(database, input);
    if (rows.files.refused)  // then nothing is mended
      for (Findings* findings : {&rows.state.findings, &rows.files.findings})
        for (Finding& finding : *findings) finding.repair.clear();
    return rows;
  }

  void add(Findings findings) {
    std::move(findings.begin(), findings.end(), std::back_inserter(report_.findings));
  }

  /// False: the rows are in no state to be mended.
  bool tell(Rows rows) {
    add(std::move(rows.state.findings));
    add(std::move(rows.files.findings));
    note(rows.state.refused);
    note(rows.files.refused);
    report_.files = rows.files.files;
    report_.names = rows.files.names;
    report_.blocks = rows.files.blocks;
    return !rows.state.refused && !rows.files.refused;
  }

  /// Looks, and leaves everything as it is.
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
        const auto& state = rows.state.findings;
        const auto& files = rows.files.findings;
        if (std::none_of(state.begin(), state.end(), mendable) &&
            std::none_of(files.begin(), files.end(), mendable))
          break;
        if (round == kMostRounds)
          return fail(Errc::failed, "{}: what was found could not be mended; nothing was changed",
                      path_.string());
        progress_("mending");
        S3O_TRY(repair_state(database, params_, rows.state));
        S3O_TRY(repair_files(database, rows.files));
        rows = look(database);
      }
      S3O_ASSIGN(const auto has_files, database.has_table("fs_state"));
      if (has_files) S3O_TRY(note_current(database, std::nullopt));
      return database.commit("fsck");
    };
    Status mended = mend();
    if (!mended) database.rollback();
    report_.repaired = mended.has_value();
    return mended;
  }

  Status save_copy(Database& database) {
    progress_("saving a copy of vault.db");
    // All that is in the log goes into the file, unless that is too damaged for it.
    static_cast<void>(database.fold_log());
    const fs::path copy = free_path(path_.string() + ".before-fsck");
    S3O_TRY(copy_durably(path_, copy));
    std::error_code error;
    const fs::path log = log_of(path_);
    if (fs::file_size(log, error) > 0 && !error) S3O_TRY(copy_durably(log, log_of(copy)));
    S3O_TRY(sync_directory(vault_.directory()));
    report_.copy = copy;
    return {};
  }

  Status salvage_and_mend() {
    progress_("reading what can be read of vault.db");
    const fs::path fresh = path_.string() + ".new";
    S3O_TRY(remove_database(fresh));
    auto tables = salvage(path_.string(), fresh.string());
    if (!tables) {
      found("damaged-database", tables.error().message, {});
      return remove_database(fresh);
    }
    for (const SalvagedTable& table : *tables)
      if (!table.whole)
        report_.findings.push_back(
            {"lost-rows", "vault.db, table " + table.name,
             fmt::format("some rows could not be read; {} could", table.rows),
             "what was lost with them follows"});
    {
      S3O_ASSIGN(auto database, Database::open(fresh.string(), Database::Mode::read_write));
      S3O_ASSIGN(auto usable, check_rows(database));
      if (!usable) {
        database = Database();
        return remove_database(fresh);
      }
      S3O_TRY(mend_rows(database));
    }
    return replace_database(fresh, path_);
  }

  const Vault& vault_;
  const VolumeParams params_;
  const fs::path path_;
  const bool repair_;
  const std::function<void(const std::string&)>& progress_;
  VaultReport report_;
};

}  // namespace

std::size_t VaultReport::left() const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [this](const Finding& finding) {
        return !finding.harmless && !(repaired && finding.mendable());
      }));
}

Result<VaultReport> check_vault(const Vault& vault, bool repair,
                                const std::function<void(const std::string&)>& progress) {
  return Check(vault, repair, progress).run();
}

}  // namespace s3oram
