// Reads and checks the file tables. SQLite stores any value in any column and assumes that rows are
// in order, so a bit that flips on the disk may hide a row, or all rows after it.
#include "fused/tables/table_reader.h"

#include <sys/stat.h>

#include <string_view>

namespace s3oram {
namespace {

using namespace std::string_view_literals;

constexpr int kInodeMode = 1, kInodeLinks = 4, kInodeBlocks = 7;  // columns
constexpr int kDentryType = 3;

}  // namespace

Result<TableReader> TableReader::open(Database& database, const TableSql& table, bool checksums) {
  TableReader reader;
  reader.table_ = &table;
  // A row that matches its checksum is as it was written, whatever its values are.
  const std::string sound = checksums
                                ? fmt::format(
                                      "CASE WHEN checksum IS NULL THEN NOT ({}) ELSE checksum = "
                                      "row_checksum('{}', {}) END",
                                      unsound(table), table.name, table.columns)
                                : fmt::format("NOT ({})", unsound(table));
  S3O_ASSIGN(auto rows,
             database.prepare(fmt::format("SELECT {}, {} FROM {} NOT INDEXED ORDER BY {}",
                                          table.columns, sound, table.name, table.key)));
  reader.rows_ = std::move(rows);
  return reader;
}

TableReader::Key TableReader::key() const {
  Key key{.first = rows_.integer(0), .second = 0, .name = {}};
  if (table_->key_width() == 1) return key;
  if (rows_.is_integer(1))
    key.second = rows_.integer(1);
  else
    key.name = rows_.blob(1);
  return key;
}

Result<bool> TableReader::next() {
  auto more = rows_.step();
  if (!more || !*more) return more;
  Key here = key();
  problem_ = rows_.integer(table_->width()) == 0 ? "is not as it was written"
             : last_ && !(*last_ < here)         ? "is out of order"
                                                 : nullptr;
  if (!problem_) last_ = std::move(here);
  return true;
}

void TableTotals::add(const TableSql& table, const Statement& row) {
  if (table.name == "inodes"sv) {
    const std::int64_t links = row.integer(kInodeLinks);
    if (!S_ISDIR(row.integer(kInodeMode)))
      links_ += links;
    else if (links > 0 && row.integer(0) != static_cast<std::int64_t>(kRootIno))
      ++directories_;
    blocks_ += row.integer(kInodeBlocks);
  } else if (table.name == "dentries"sv) {
    ++(row.integer(kDentryType) == S_IFDIR ? directory_names_ : names_);
  } else if (table.name == "extents"sv) {
    ++extents_;
  }
}

std::string TableTotals::problem() const {
  if (links_ != names_) return fmt::format("files count {} names, but {} exist", links_, names_);
  if (directories_ != directory_names_)
    return fmt::format("{} directories have {} names", directories_, directory_names_);
  if (blocks_ != extents_)
    return fmt::format("files count {} blocks, but {} exist", blocks_, extents_);
  return {};
}

}  // namespace s3oram
