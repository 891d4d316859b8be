// Encodes the rows of the file tables as a dump, and loads them from one.
#include "fused/backup/backup_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "fused/tables/rows.h"
#include "oramcore/base/codec.h"
#include "oramcore/db/integrity.h"

namespace s3oram {
namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'s', '3', 'o', 'b', 'a', 'c', 'k', '1'};
constexpr std::uint8_t kEnd = 0;         // follows the last row, in place of a table's number
constexpr std::uint8_t kChanged = 0x80;  // added to a table's number if the row is damaged
constexpr std::uint8_t kNull = 0, kInteger = 1, kText = 10, kBlob = 11;  // an integer: 1 to 9

void put_bytes(Bytes& out, std::uint8_t tag, ByteSpan bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  out.push_back(tag);
  const auto* raw = reinterpret_cast<const std::uint8_t*>(&length);
  out.insert(out.end(), raw, raw + sizeof length);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put_integer(Bytes& out, std::int64_t value) {
  std::uint64_t zigzag =
      (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  const std::size_t tag = out.size();
  out.push_back(kInteger);
  for (; zigzag != 0; zigzag >>= 8) {
    out.push_back(static_cast<std::uint8_t>(zigzag));
    ++out[tag];
  }
}

void put_value(Bytes& out, const Statement& row, int column) {
  if (row.is_null(column))
    out.push_back(kNull);
  else if (row.is_integer(column))
    put_integer(out, row.integer(column));
  else
    put_bytes(out, row.is_text(column) ? kText : kBlob, row.blob(column));
}

/// Reads values from the front of a dump.
class Values {
 public:
  explicit Values(ByteSpan dump) : left_(dump) {}

  bool failed() const { return failed_; }
  ByteSpan take(std::size_t count) {
    failed_ |= count > left_.size();
    const ByteSpan taken = failed_ ? ByteSpan() : left_.first(count);
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::uint8_t byte() {
    const ByteSpan taken = take(1);
    return taken.empty() ? std::uint8_t{0} : taken[0];
  }
  /// Binds the next value. Returns false for a null, which no table allows: the row is damaged.
  bool bind_next(Statement& statement, int at) {
    const std::uint8_t tag = byte();
    if (tag == kNull) {
      statement.bind_null(at);
    } else if (is_integer(tag)) {
      statement.bind(at, integer(tag));
    } else if (tag == kText || tag == kBlob) {
      std::uint32_t length = 0;
      if (const ByteSpan bytes = take(sizeof length); !bytes.empty())
        std::memcpy(&length, bytes.data(), bytes.size());
      const ByteSpan bytes = take(length);
      if (tag == kBlob)
        statement.bind(at, bytes);
      else
        statement.bind(at,
                       std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    } else {
      failed_ = true;
    }
    return tag != kNull;
  }
  /// Returns the next value if it is an inode number that a new inode may get, and otherwise 0.
  Ino next_ino() {
    const std::uint8_t tag = byte();
    const auto ino = is_integer(tag) ? static_cast<Ino>(integer(tag)) : 0;
    return !failed_ && ino <= kLargestNewIno ? ino : 0;
  }

 private:
  static bool is_integer(std::uint8_t tag) { return tag >= kInteger && tag <= kInteger + 8; }
  std::int64_t integer(std::uint8_t tag) {
    std::uint64_t zigzag = 0;
    const ByteSpan bytes = take(tag - kInteger);
    if (!bytes.empty()) std::memcpy(&zigzag, bytes.data(), bytes.size());
    return static_cast<std::int64_t>(zigzag >> 1 ^ (0 - (zigzag & 1)));
  }

  ByteSpan left_;
  bool failed_ = false;
};

}  // namespace

Bytes encode(const BackupPart& part, std::size_t block_size) {
  Writer writer;
  writer(kMagic, part.identity, part.generation, part.time, part.index, part.count,
         ByteSpan(part.content));
  Bytes block = writer.take();
  block.resize(block_size);
  return block;
}

std::optional<BackupPart> decode_backup_part(ByteSpan block) {
  if (block.size() < BackupPart::kHeader) return std::nullopt;
  std::array<std::uint8_t, 8> magic{};
  BackupPart part;
  std::uint32_t used = 0;
  Reader reader(block.first(BackupPart::kHeader));
  reader(magic, part.identity, part.generation, part.time, part.index, part.count, used);
  if (!reader.complete() || magic != kMagic || used > block.size() - BackupPart::kHeader)
    return std::nullopt;
  const ByteSpan content = block.subspan(BackupPart::kHeader, used);
  part.content.assign(content.begin(), content.end());
  return part;
}

Result<TablesDump> TablesDump::open(const std::string& database, Disk& disk, Damaged damaged) {
  TablesDump dump;
  dump.damaged_ = damaged;
  S3O_ASSIGN(auto opened, Database::open(database, Database::Mode::read_only, disk));
  dump.database_ = std::move(opened);
  S3O_TRY(dump.database_.execute("BEGIN"));
  S3O_ASSIGN(const auto checksums, has_checksums(dump.database_));
  dump.checksums_ = checksums;
  S3O_ASSIGN(dump.reserved_, read_reserved(dump.database_));  // the first read fixes the snapshot
  S3O_TRY(dump.read_row());
  return dump;
}

Status TablesDump::check_file() {
  S3O_ASSIGN(const auto problems, find_damage(database_));
  if (problems.empty()) return {};
  return fail(Errc::damaged_vault, "{}: {}", database_.path(), problems);
}

Status TablesDump::put_row(const TableSql& table) {
  const char* problem = rows_->problem();
  if (problem && damaged_ == Damaged::refused)
    return fail(Errc::damaged_vault, "vault.db, table {}: a row of inode {} {}", table.name,
                rows_->row().integer(0), problem);
  const std::uint8_t changed = problem ? kChanged : 0;
  ready_.push_back(static_cast<std::uint8_t>((table_ + 1) | changed));
  for (int column = 0; column < table.width(); ++column) put_value(ready_, rows_->row(), column);
  totals_.add(table, rows_->row());
  return {};
}

/// Appends the next row, or the end, to ready_.
Status TablesDump::read_row() {
  while (table_ < std::size(kTables)) {
    const TableSql& table = kTables[table_];
    if (!rows_) {
      S3O_ASSIGN(auto rows, TableReader::open(database_, table, checksums_));
      rows_ = std::move(rows);
    }
    S3O_ASSIGN(auto more, rows_->next());
    if (more) return put_row(table);
    rows_.reset();
    ++table_;
  }
  if (const std::string problem = totals_.problem();
      !problem.empty() && damaged_ == Damaged::refused)
    return fail(Errc::damaged_vault, "vault.db: {}", problem);
  ready_.push_back(kEnd);
  put_integer(ready_, static_cast<std::int64_t>(reserved_));
  ended_ = true;
  return {};
}

Result<Bytes> TablesDump::next(std::size_t most) {
  while (!ended_ && ready_.size() < most) S3O_TRY(read_row());
  const auto end = ready_.begin() + static_cast<std::ptrdiff_t>(std::min(most, ready_.size()));
  Bytes part(ready_.begin(), end);
  ready_.erase(ready_.begin(), end);
  return part;
}

Result<LoadedTables> load_tables(Database& database, ByteSpan dump) {
  std::map<std::uint8_t, Statement> puts;
  for (const std::uint8_t changed : {std::uint8_t{0}, kChanged})
    for (std::size_t table = 0; table < std::size(kTables); ++table) {
      // If two rows have the same key, the sound one is kept.
      const char* verb = changed != 0 ? "INSERT OR IGNORE" : "INSERT OR REPLACE";
      S3O_ASSIGN(auto put, database.prepare(kTables[table].put(verb, changed != 0)));
      puts.emplace(static_cast<std::uint8_t>((table + 1) | changed), std::move(put));
    }
  Values values(dump);
  for (std::uint64_t rows = 0;;) {
    const std::uint8_t tag = values.byte();
    if (tag == kEnd && !values.failed()) return LoadedTables{rows, values.next_ino()};
    const auto found = puts.find(tag);
    if (found == puts.end()) break;
    Statement& put = found->second;
    const TableSql& table = kTables[(tag & ~kChanged) - 1];
    bool whole = true;
    for (int column = 0; column < table.width(); ++column) {
      if (values.bind_next(put, column)) continue;
      put.bind(column, std::int64_t{0});  // the tables take no null; a damaged row stays damaged
      whole = false;
    }
    if (values.failed()) break;
    if (!whole && (tag & kChanged) == 0) continue;
    S3O_TRY(put.run());
    ++rows;
  }
  return fail(Errc::damaged_vault, "a backup of the file tables is malformed");
}

}  // namespace s3oram
