// Opens databases with the durability that the project needs, and turns SQLite's codes into errors.
#include "oramcore/db/sqlite.h"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <cassert>
#include <filesystem>
#include <utility>

#include "oramcore/base/rules.h"
#include "oramcore/base/system_error.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/log_copier.h"
#include "oramcore/db/page_vfs.h"
#include "oramcore/db/row_checksum.h"

namespace s3oram {
namespace {

// SQLite's own limit of 512, less what it appends to the names of a database's other files.
constexpr std::size_t kLongestPath = 504;

// SQLite reports a full disk as an I/O error if it has mapped a file that cannot grow.
bool is_full(sqlite3* db, int rc) {
  if (rc != SQLITE_IOERR || !db) return rc == SQLITE_FULL;
  return code_of(sqlite3_system_errno(db)) == Errc::disk_full;
}

/// `doing` is an SQL statement, or words. It goes to the log and not into the message, because it
/// is of no use to users.
tl::unexpected<Error> failure(sqlite3* db, int rc, std::string_view doing) {
  if (db && rc != SQLITE_OK && sqlite3_extended_errcode(db) == SQLITE_IOERR_DATA)
    if (const PageVfs* pages = PageVfs::of(db)) {
      spdlog::debug("{}: {}", pages->damage(), doing);
      return fail(Errc::damaged_vault, "{}", pages->damage());
    }
  const Errc code = is_full(db, rc)                               ? Errc::disk_full
                    : rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB ? Errc::damaged_vault
                                                                  : Errc::failed;
  const char* file = db ? sqlite3_db_filename(db, "main") : nullptr;
  if (code == Errc::disk_full)
    return fail(code, "database {}: its disk is full; make room there", file ? file : "?");
  if (code == Errc::damaged_vault) {
    spdlog::debug("database {}: {}: {}", file ? file : "?", sqlite3_errstr(rc), doing);
    return fail(code, "database {} is damaged ({})", file ? file : "?", sqlite3_errstr(rc));
  }
  const char* why = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  spdlog::debug("database {}: {}: {}", file ? file : "?", why, doing);
  return fail(code, "database {}: {}", file ? file : "?", why);
}

/// Called before SQLite commits anything, from begin() to commit(). A statement that wants to
/// commit then does so by itself, because an error has ended its transaction. Nonzero makes it
/// fail.
int refuse_commit(void*) { return 1; }

std::string ballast_of(const std::string& database) { return database + "-ballast"; }

}  // namespace

Statement::Statement(Statement&& other) noexcept { *this = std::move(other); }
Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(statement_, other.statement_);
  return *this;
}
Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int at, std::int64_t value) {
  sqlite3_bind_int64(statement_, at + 1, value);
  return *this;
}
Statement& Statement::bind(int at, ByteSpan blob) {
  if (blob.empty())
    sqlite3_bind_zeroblob(statement_, at + 1, 0);
  else
    sqlite3_bind_blob64(statement_, at + 1, blob.data(), blob.size(), SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind(int at, std::string_view text) {
  sqlite3_bind_text64(statement_, at + 1, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind_real(int at, double value) {
  sqlite3_bind_double(statement_, at + 1, value);
  return *this;
}
Statement& Statement::bind_null(int at) {
  sqlite3_bind_null(statement_, at + 1);
  return *this;
}

Result<bool> Statement::step() {
  const int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  auto result = rc == SQLITE_DONE ? Result<bool>(false)
                                  : Result<bool>(failure(db_, rc, sqlite3_sql(statement_)));
  reset();
  return result;
}

Status Statement::run() {
  S3O_ASSIGN(auto row, step());
  if (row) reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
Bytes Statement::blob(int column) const {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_, column));
  return data ? Bytes(data, data + sqlite3_column_bytes(statement_, column)) : Bytes{};
}
std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data ? std::string(data, sqlite3_column_bytes(statement_, column)) : std::string{};
}
bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
bool Statement::is_integer(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}
bool Statement::is_text(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_TEXT;
}

Result<Database> Database::open(const std::string& path, Mode mode, Disk& disk) {
  Database database;
  database.disk_ = &disk;
  database.path_ = path;
  const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (mode == Mode::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                    (mode == Mode::create ? SQLITE_OPEN_CREATE : 0);
  if (std::error_code error; std::filesystem::absolute(path, error).string().size() > kLongestPath)
    return fail(Errc::failed, "database {}: its path is too long (more than {} bytes)", path,
                kLongestPath);
  const bool simulated = !disk.sqlite_vfs().empty();
  if (mode != Mode::read_only && !simulated) Ballast::release_if_full(ballast_of(path));
  S3O_TRY(database.connect(flags));
  sqlite3_extended_result_codes(database.db_, 0);
  if (const int added = add_row_checksum(database.db_); added != SQLITE_OK)
    return fail(failure(database.db_, added, "row_checksum").value());
  S3O_TRY(database.choose_pages(mode));
  if (mode == Mode::read_only) return database;
  S3O_TRY(database.promise_durability());
  if (mode == Mode::create && database.pages_) S3O_TRY(database.name_format());
  // Data that a previous process wrote but could not sync may look intact, but then nothing
  // appended to it would survive a power cut. So the log is copied into the file before anything is
  // added.
  const Status settled = database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  if (!settled && settled.error().code != Errc::disk_full) return fail(settled.error());
  if (!simulated) {  // the simulator has a single thread
    const std::string file = sqlite3_db_filename(database.db_, "main");
    database.copier_ = std::make_unique<LogCopier>(
        file, database.pages_ ? database.pages_->name() : std::string());
    sqlite3_wal_hook(database.db_, LogCopier::after_commit, database.copier_.get());
    database.file_ = FileWatch(file);
    database.log_ = FileWatch(file + "-wal", FileWatch::Size::may_shrink);
  }
  return database;
}

Status Database::connect(int flags) {
  std::string vfs = disk_->sqlite_vfs();
  if (const PageKey* key = disk_->page_key()) {
    pages_ = std::make_unique<PageVfs>(*key, vfs);
    vfs = pages_->name();
  }
  const int rc = sqlite3_open_v2(path_.c_str(), &db_, flags, vfs.empty() ? nullptr : vfs.c_str());
  if (std::error_code error; rc != SQLITE_OK && std::filesystem::is_directory(path_, error))
    return fail(Errc::damaged_vault, "database {} is a directory", path_);
  // SQLite only says that it cannot open the file; the errno of open() tells why.
  if (const int reason = db_ ? sqlite3_system_errno(db_) : 0;
      (rc & 0xff) == SQLITE_CANTOPEN && reason != 0)
    return system_failure(reason, "database {}: cannot be opened", path_);
  if (rc != SQLITE_OK)
    return fail(Errc::failed, "database {}: cannot be opened: {}", path_, sqlite3_errstr(rc));
  return {};
}

/// Refuses a file whose pages cannot be read. Seals a new database if the disk has a key.
Status Database::choose_pages(Mode mode) {
  const PageKey* key = disk_->page_key();
  if (disk_->sqlite_vfs().empty()) {
    const DatabaseHeader header = read_header(path_);
    if (header.is_damaged && (key || mode != Mode::read_only))
      return fail(Errc::damaged_vault, "database {}: its header is damaged", path_);
    if (header.kind == DatabaseHeader::Kind::sealed && !key)
      return fail(Errc::wrong_passphrase,
                  "database {} is sealed; its vault's key is needed to open it", path_);
    if (header.kind == DatabaseHeader::Kind::sealed && is_of_other_key(path_, *key))
      return fail(Errc::damaged_vault, "database {}: its pages are sealed with another key", path_);
  }
  if (!key) return {};
  int reserved = static_cast<int>(kSealBytes);  // no effect on an existing file
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  return execute("PRAGMA temp_store=MEMORY");  // nothing goes to an unsealed file
}

/// Writes the format of the seals into the clear header of a new sealed database.
Status Database::name_format() {
  if (!PageVfs::seals(db_)) return {};
  S3O_ASSIGN(auto version, prepare("PRAGMA user_version"));
  S3O_TRY(version.step());
  if (version.integer(0) != 0) return {};
  version.reset();
  return execute(
      fmt::format("BEGIN IMMEDIATE; PRAGMA application_id={}; PRAGMA user_version={}; "
                  "COMMIT",
                  kApplication, kSealFormat));
}

Status Database::promise_durability() {
  // The limit prevents a large commit from leaving a large log behind.
  S3O_TRY(
      execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
              "PRAGMA journal_size_limit=67108864;"));
  if (!rule_holds(Rule::full_sync)) S3O_TRY(execute("PRAGMA synchronous=OFF"));
  S3O_ASSIGN(auto check, prepare("PRAGMA synchronous"));
  S3O_ASSIGN(auto row, check.step());
  constexpr std::int64_t kFull = 2;
  if (!row || (check.integer(0) != kFull && rule_holds(Rule::full_sync)))
    return fail(Errc::failed, "database {}: synchronous=FULL was not accepted", path_);
  return {};
}

Result<bool> Database::has_table(std::string_view name) {
  S3O_ASSIGN(auto tables, prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"));
  return tables.bind(0, name).step();
}

Result<bool> Database::has_column(std::string_view table, std::string_view column) {
  S3O_ASSIGN(auto columns, prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = ?"));
  return columns.bind(0, table).bind(1, column).step();
}

Status Database::fold_log() {
  if (copier_) copier_->wait();
  S3O_ASSIGN(auto fold, prepare("PRAGMA wal_checkpoint(TRUNCATE)"));
  S3O_ASSIGN(auto row, fold.step());
  if (!row || fold.integer(0) != 0)
    return fail(Errc::vault_in_use, "database {} is being read", path_);
  return {};
}

Database::Database() = default;
Database::Database(Database&& other) noexcept { *this = std::move(other); }
Database& Database::operator=(Database&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(db_, other.db_);
  std::swap(disk_, other.disk_);
  std::swap(path_, other.path_);
  std::swap(ballast_, other.ballast_);
  std::swap(copier_, other.copier_);
  std::swap(file_, other.file_);
  std::swap(log_, other.log_);
  return *this;
}
Database::~Database() {
  copier_.reset();
  sqlite3_close_v2(db_);
}

void Database::watch_directory() {
  if (!file_.watches()) return;
  const std::string file = sqlite3_db_filename(db_, "main");
  const auto above = FileWatch::From::the_one_above;
  file_ = FileWatch(file, FileWatch::Size::never_shrinks, above);
  log_ = FileWatch(file + "-wal", FileWatch::Size::may_shrink, above);
}

void Database::abandon() {
  copier_.reset();
  file_ = {};
  log_ = {};
  if (!db_) return;
  int keep_log = 1;
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_PERSIST_WAL, &keep_log);
  sqlite3_close_v2(std::exchange(db_, nullptr));
}

Status Database::execute(const std::string& sql) {
  const int rc = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) return failure(db_, rc, sql);
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int rc = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (rc != SQLITE_OK) {
    auto error = failure(db_, rc, sql);
    // Our statements are correct, so the tables must be wrong.
    if (rc == SQLITE_ERROR) error.value().code = Errc::damaged_vault;
    return error;
  }
  return Statement(db_, statement);
}

void Database::interrupt() { sqlite3_interrupt(db_); }

Status Database::still_there() const {
  S3O_TRY(file_.check());
  return log_.check();
}

Result<Bytes> Database::read_file(const std::string& schema, std::uint64_t at, std::size_t size) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db_, schema.c_str(), SQLITE_FCNTL_FILE_POINTER, &file);
  Bytes bytes(size);
  const int rc = file && file->pMethods
                     ? file->pMethods->xRead(file, bytes.data(), static_cast<int>(size),
                                             static_cast<sqlite3_int64>(at))
                     : SQLITE_CANTOPEN;
  if (rc != SQLITE_OK)
    return fail(Errc::damaged_vault, "database {}: {}", path_, sqlite3_errstr(rc));
  return bytes;
}

Status Database::begin() {
  S3O_TRY(execute("BEGIN IMMEDIATE"));
  sqlite3_commit_hook(db_, refuse_commit, nullptr);
  return {};
}

Status Database::commit(std::string_view what) {
  S3O_TRY(still_there());
  disk_->step(what, false);
  sqlite3_commit_hook(db_, nullptr, nullptr);
  const int rc = sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) {
    const auto error = failure(db_, rc, fmt::format("commit of {}", what));
    rollback();
    return error;
  }
  disk_->step(what, true);
  return {};
}

Status Database::keep_ballast(std::uint64_t bytes) {
  S3O_ASSIGN(auto ballast, Ballast::open(*disk_, ballast_of(path_), bytes));
  ballast_ = std::move(ballast);
  return {};
}

void Database::rollback() {
  if (!db_) return;
  sqlite3_commit_hook(db_, nullptr, nullptr);
  if (!sqlite3_get_autocommit(db_)) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

bool Database::in_transaction() const { return !sqlite3_get_autocommit(db_); }

}  // namespace s3oram
