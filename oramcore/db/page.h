// Reads single pages of an SQLite file without SQLite, and finds the bit that makes a damaged page
// consistent again. See https://www.sqlite.org/fileformat.html, chapters 1.6 and 2.1. Pure
// functions of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "oramcore/base/bytes.h"

namespace s3oram {

/// A value in a row.
struct RowValue {
  enum class Type : std::uint8_t {
    integer = 1,
    real = 2,
    text = 3,
    blob = 4,
    null = 5
  };  // SQLite's
  Type type = Type::null;
  std::int64_t integer = 0;  // the value; for a real, its bits
  Bytes bytes;
  friend bool operator==(const RowValue&, const RowValue&) = default;
};
using RowValues = std::vector<RowValue>;

/// Returns what the SQL function row_checksum(table, values...) returns (row_checksum.h).
std::int64_t checksum_of(std::string_view table, const RowValue* values, std::size_t count);

/// Decodes a record; std::nullopt if the bytes are not a record.
std::optional<RowValues> decode_record(ByteSpan record);

/// Says whether rows have a number beside their record. `keyed` is a table WITHOUT ROWID.
enum class TreeKind : std::uint8_t { numbered, keyed };

/// The place of a cell on its page, and its content.
struct PageCell {
  std::size_t begin = 0, end = 0;   // its bytes
  std::uint32_t left = 0;           // page number in an inner page's cell
  std::int64_t number = 0;          // number of the row
  bool has_record = false;          // false if the cell only divides the pages below
  std::uint64_t size = 0;           // bytes of the whole record
  std::size_t local = 0, here = 0;  // where the record begins, and how much of it lies here
  std::uint32_t overflow = 0;       // page with the rest of the record; 0 if none
};

/// A page of a tree. `usable` is its size without the reserved bytes at its end.
class TreePage {
 public:
  TreePage(Bytes page, std::size_t usable, TreeKind kind)
      : page_(std::move(page)), usable_(usable), tree_(kind) {}

  /// Returns whether the header, cells and free bytes fill the page exactly, as SQLite leaves it.
  bool is_consistent() const;
  /// Flips the bit of the header that makes the page consistent. Does nothing and returns false if
  /// there is none, or if there are several that lead to different cells.
  bool mend_header();

  bool is_tree_page() const { return is_inner() || is_leaf(); }
  bool is_inner() const { return page_[0] == (tree_ == TreeKind::numbered ? 0x05 : 0x02); }
  bool is_leaf() const { return page_[0] == (tree_ == TreeKind::numbered ? 0x0d : 0x0a); }
  std::size_t cells() const { return number(3, 2); }
  std::uint32_t right() const { return number(8, 4); }  // of an inner page
  std::optional<PageCell> cell(std::size_t index) const;
  /// Returns the positions of the bits that make up a cell: its pointer in the header, and its
  /// bytes. Any one of them may be the changed one.
  std::vector<std::size_t> bits_of(std::size_t index) const;
  /// Returns whether a bit belongs to the header or to the cell pointers after it.
  bool is_in_header(std::size_t bit) const { return bit < 8 * (header() + 2 * cells()); }
  void flip(std::size_t bit) { page_[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8); }
  ByteSpan bytes(std::size_t from, std::size_t count) const {
    return ByteSpan(page_).subspan(from, count);
  }

 private:
  std::uint32_t number(std::size_t at, unsigned bytes) const;
  std::size_t header() const { return is_inner() ? 12 : 8; }

  Bytes page_;
  std::size_t usable_;
  TreeKind tree_;
};

}  // namespace s3oram
