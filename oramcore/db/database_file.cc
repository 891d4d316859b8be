// Copies, removes and replaces a database together with its log.
#include "oramcore/db/database_file.h"

#include "oramcore/base/disk.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/system_error.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

Status remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  return error ? system_failure(error.value(), "{}: cannot be removed", file.string()) : Status{};
}

Status remove_log(const fs::path& path) {
  S3O_TRY(remove_file(log_of(path)));
  return remove_file(with_suffix(path, "-shm"));
}

}  // namespace

fs::path log_of(const fs::path& path) { return with_suffix(path, "-wal"); }

Status fold_log(const fs::path& path, Disk& disk) {
  S3O_ASSIGN(auto database, Database::open(path.string(), Database::Mode::read_write, disk));
  return database.fold_log();
}

Result<fs::path> keep_copy(const fs::path& path, const std::string& suffix) {
  const fs::path copy = free_path(path.string() + suffix);
  S3O_TRY(copy_durably(path, copy));
  std::error_code error;
  const fs::path log = log_of(path);
  if (fs::file_size(log, error) > 0 && !error) S3O_TRY(copy_durably(log, log_of(copy)));
  S3O_TRY(sync_directory(path.parent_path()));
  return copy;
}

Status remove_database(const fs::path& path) {
  S3O_TRY(remove_file(path));
  return remove_log(path);
}

Status replace_database(const fs::path& made, const fs::path& path, Disk& disk) {
  S3O_TRY(fold_log(made, disk));
  S3O_ASSIGN(const auto file, disk.open(made));
  S3O_TRY(file->sync());
  S3O_TRY(remove_log(path));  // otherwise SQLite would use it as the new database's log
  std::error_code error;
  fs::rename(made, path, error);
  if (error)
    return system_failure(error.value(), "{}: cannot be replaced by {}", path.string(),
                          made.string());
  return sync_directory(path.parent_path());
}

}  // namespace s3oram
