// Walks the pages of a table's tree. Checksums decide what a damaged row was.
#include "oramcore/db/table_walk.h"

#include <algorithm>

namespace s3oram {
namespace {

constexpr unsigned kMostTries = 200'000;        // per page; a page with too much damage is given up
constexpr unsigned kDeepest = 20;               // SQLite's own limit for a tree
constexpr std::uint64_t kLargestRow = 1 << 24;  // bytes; all of ours are smaller

}  // namespace

bool WalkedTable::proves(const RowValues& row) const {
  return row.back().type == RowValue::Type::integer &&
         row.back().integer == checksum_of(name, row.data(), row.size() - 1);
}

Result<DatabasePages> DatabasePages::open(Database& database, const std::string& schema) {
  DatabasePages pages;
  pages.database_ = &database;
  pages.schema_ = schema;
  S3O_ASSIGN(auto size, database.prepare(fmt::format("PRAGMA {}.page_size", schema)));
  S3O_TRY(size.step());
  pages.size_ = static_cast<std::size_t>(size.integer(0));
  S3O_ASSIGN(auto first, pages.read(1));
  constexpr std::size_t kReserved = 20;  // offset of the reserved bytes of a page, in the header
  pages.usable_ = pages.size_ - first[kReserved];
  return pages;
}

Result<Bytes> DatabasePages::read(std::uint32_t page) const {
  return database_->read_file(schema_, (page - std::uint64_t{1}) * size_, size_);
}

Status TableWalk::walk(std::uint32_t number, unsigned depth) {
  const bool again = number < seen_.size() && seen_[number];
  const bool possible = number > 1 && depth < kDeepest && !again;
  auto content = possible ? pages_.read(number) : Result<Bytes>(fail(Errc::damaged_vault, "loop"));
  if (!content) {
    gap_(false);
    return {};
  }
  if (number >= seen_.size()) seen_.resize(number + std::size_t{1});
  seen_[number] = true;
  TreePage page(std::move(*content), pages_.usable(), table_.tree);
  bool consistent = page.is_consistent() || page.mend_header();
  if (!page.is_tree_page()) {
    gap_(false);
    return {};
  }
  const bool has_rows = page.is_leaf() || table_.tree == TreeKind::keyed;
  if (has_rows && table_.has_checksums()) mend_cells(page);
  consistent = consistent || page.is_consistent();
  for (std::size_t i = 0; i < page.cells(); ++i) {
    if (page.is_inner()) {
      const auto each = page.cell(i);
      if (each)
        S3O_TRY(walk(each->left, depth + 1));
      else
        gap_(false);
    }
    if (!consistent) gap_(false);
    if (has_rows) S3O_TRY(cell(page, i));
  }
  if (!consistent) gap_(false);
  return page.is_inner() ? walk(page.right(), depth + 1) : Status();
}

/// A row without a checksum counts as proven.
bool TableWalk::is_proven(const std::optional<RowValues>& row) const {
  return row && (!table_.has_checksums() || row->back().type == RowValue::Type::null ||
                 table_.proves(*row));
}

/// Flips the bit that makes a row match its checksum. A wrong bit in a cell pointer may lead to
/// another row, which matches its own checksum; so a bit of the header counts only if the whole
/// page is consistent with it.
void TableWalk::mend_cells(TreePage& page) {
  unsigned tries = kMostTries;
  for (std::size_t i = 0; i < page.cells() && tries > 0; ++i) {
    if (is_proven(row_at(page, i))) continue;
    for (const std::size_t bit : page.bits_of(i)) {
      if (tries == 0) break;
      --tries;
      page.flip(bit);
      const auto row = row_at(page, i);
      if (row && table_.proves(*row) && (!page.is_in_header(bit) || page.is_consistent())) {
        ++mended_;
        break;
      }
      page.flip(bit);
    }
  }
}

Status TableWalk::cell(const TreePage& page, std::size_t index) {
  auto row = row_at(page, index);
  if (is_proven(row)) return each_(std::move(*row), true);
  gap_(row.has_value());
  return row ? each_(std::move(*row), false) : Status();
}

std::optional<RowValues> TableWalk::row_at(const TreePage& page, std::size_t index) const {
  const auto cell = page.cell(index);
  if (!cell || !cell->has_record) return std::nullopt;
  const auto record = record_of(page, *cell);
  const auto values = record ? decode_record(*record) : std::nullopt;
  if (!values || values->size() > table_.order.size()) return std::nullopt;
  RowValues row(table_.columns.size());
  for (std::size_t i = 0; i < values->size(); ++i) row[table_.order[i]] = (*values)[i];
  if (table_.number) row[*table_.number] = {RowValue::Type::integer, cell->number, {}};
  return row;
}

std::optional<Bytes> TableWalk::record_of(const TreePage& page, const PageCell& cell) const {
  if (cell.size > kLargestRow) return std::nullopt;
  const ByteSpan here = page.bytes(cell.local, cell.here);
  Bytes record(here.begin(), here.end());
  for (std::uint32_t next = cell.overflow; record.size() < cell.size;) {
    const auto more =
        next > 1 ? pages_.read(next) : Result<Bytes>(fail(Errc::damaged_vault, "end"));
    if (!more) return std::nullopt;
    const std::size_t length =
        std::min<std::size_t>(cell.size - record.size(), pages_.usable() - 4);
    record.insert(record.end(), more->begin() + 4,
                  more->begin() + 4 + static_cast<std::ptrdiff_t>(length));
    next = static_cast<std::uint32_t>((*more)[0]) << 24 |
           static_cast<std::uint32_t>((*more)[1]) << 16 |
           static_cast<std::uint32_t>((*more)[2]) << 8 | (*more)[3];
  }
  return record;
}

}  // namespace s3oram
