// Parses pages, cells and records of SQLite's file format, for pages that SQLite itself rejects.
#include "oramcore/db/page.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace s3oram {
namespace {

constexpr std::size_t kFewestBytes = 4;  // bytes of the smallest cell
constexpr std::uint64_t kReal = 7;       // serial type

/// Reads numbers of one to nine bytes one after another. failed() is true if the bytes end first.
class Varints {
 public:
  Varints(ByteSpan bytes, std::size_t at) : bytes_(bytes), at_(at) {}
  std::uint64_t next() {
    std::uint64_t value = 0;
    for (int i = 0; i < 9; ++i) {
      if (at_ >= bytes_.size()) {
        failed_ = true;
        return 0;
      }
      const std::uint8_t byte = bytes_[at_++];
      if (i == 8) return value << 8 | byte;
      value = value << 7 | (byte & 0x7f);
      if ((byte & 0x80) == 0) return value;
    }
    return value;
  }
  std::size_t at() const { return at_; }
  bool failed() const { return failed_; }

 private:
  ByteSpan bytes_;
  std::size_t at_;
  bool failed_ = false;
};

/// Returns the number of bytes of a value with this serial type; std::nullopt if the type does not
/// exist.
std::optional<std::uint64_t> length_of(std::uint64_t type) {
  constexpr std::uint64_t kNumbers[] = {0, 1, 2, 3, 4, 6, 8, 8};
  if (type <= kReal) return kNumbers[type];
  if (type == 8 || type == 9) return 0;
  if (type < 12) return std::nullopt;
  return (type - 12) / 2;
}

RowValue value_of(std::uint64_t type, ByteSpan bytes) {
  if (type == 0) return {};
  if (type == 8 || type == 9)
    return {RowValue::Type::integer, static_cast<std::int64_t>(type - 8), {}};
  if (type >= 12)
    return {type % 2 == 0 ? RowValue::Type::blob : RowValue::Type::text, 0,
            Bytes(bytes.begin(), bytes.end())};
  std::uint64_t integer = (bytes[0] & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (const std::uint8_t byte : bytes) integer = integer << 8 | byte;
  return {type == kReal ? RowValue::Type::real : RowValue::Type::integer,
          static_cast<std::int64_t>(integer),
          {}};
}

std::uint64_t add_checksum(std::uint64_t sum, const RowValue& value) {
  const std::uint64_t seed = sum + static_cast<std::uint64_t>(value.type);
  if (value.type == RowValue::Type::integer || value.type == RowValue::Type::real)
    return XXH3_64bits_withSeed(&value.integer, sizeof value.integer, seed);
  return XXH3_64bits_withSeed(value.bytes.data(), value.bytes.size(), seed);
}

}  // namespace

std::int64_t checksum_of(std::string_view table, const RowValue* values, std::size_t count) {
  std::uint64_t sum = add_checksum(0, {RowValue::Type::text, 0, Bytes(table.begin(), table.end())});
  for (std::size_t i = 0; i < count; ++i) sum = add_checksum(sum, values[i]);
  return static_cast<std::int64_t>(sum);
}

std::optional<RowValues> decode_record(ByteSpan record) {
  Varints header(record, 0);
  const std::uint64_t size = header.next();
  if (header.failed() || size > record.size() || size < header.at()) return std::nullopt;
  RowValues values;
  std::uint64_t at = size;
  while (header.at() < size) {
    const std::uint64_t type = header.next();
    const auto length = length_of(type);
    if (header.failed() || header.at() > size || !length || *length > record.size() - at)
      return std::nullopt;
    values.push_back(value_of(type, record.subspan(at, *length)));
    at += *length;
  }
  if (at != record.size()) return std::nullopt;
  return values;
}

std::uint32_t TreePage::number(std::size_t at, unsigned bytes) const {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value = value << 8 | page_[at + i];
  return value;
}

std::optional<PageCell> TreePage::cell(std::size_t index) const {
  const std::size_t pointer = header() + 2 * index;
  if (pointer + 2 > usable_) return std::nullopt;
  PageCell cell;
  cell.begin = number(pointer, 2);
  std::size_t at = cell.begin;
  if (at < header() || at + kFewestBytes > usable_) return std::nullopt;
  if (is_inner()) {
    cell.left = number(at, 4);
    at += 4;
  }
  Varints varints(ByteSpan(page_).first(usable_), at);
  cell.has_record = !is_inner() || tree_ == TreeKind::keyed;
  if (cell.has_record) cell.size = varints.next();
  if (tree_ == TreeKind::numbered) cell.number = static_cast<std::int64_t>(varints.next());
  if (varints.failed()) return std::nullopt;
  cell.local = varints.at();
  if (cell.has_record) {
    const std::size_t most =
        tree_ == TreeKind::numbered ? usable_ - 35 : (usable_ - 12) * 64 / 255 - 23;
    const std::size_t least = (usable_ - 12) * 32 / 255 - 23;
    if (cell.size <= most) {
      cell.here = cell.size;
    } else {
      const std::size_t even = least + (cell.size - least) % (usable_ - 4);
      cell.here = even <= most ? even : least;
    }
  }
  cell.end = cell.local + cell.here;
  const bool overflows = cell.here < cell.size;
  if (cell.end + (overflows ? 4 : 0) > usable_) return std::nullopt;
  if (overflows) {
    cell.overflow = number(cell.end, 4);
    cell.end += 4;
  }
  cell.end = std::max(cell.end, cell.begin + kFewestBytes);
  return cell;
}

bool TreePage::is_consistent() const {
  if (!is_tree_page()) return false;
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  const std::size_t array_end = header() + 2 * cells();
  const std::size_t content = number(5, 2) == 0 ? 65'536 : number(5, 2);
  if (array_end > content || content > usable_) return false;
  for (std::size_t i = 0; i < cells(); ++i) {
    const auto each = cell(i);
    if (!each || each->begin < content) return false;
    parts.emplace_back(each->begin, each->end);
  }
  for (std::size_t at = number(1, 2), before = 0; at != 0; at = number(at, 2)) {
    if (at <= before || at < content || at + kFewestBytes > usable_) return false;
    const std::size_t size = number(at + 2, 2);
    if (size < kFewestBytes || at + size > usable_) return false;
    parts.emplace_back(at, at + size);
    before = at;
  }
  std::sort(parts.begin(), parts.end());
  std::size_t end = content, fragments = 0;
  for (const auto& [from, to] : parts) {
    if (from < end) return false;
    fragments += from - end;
    end = to;
  }
  return fragments + (usable_ - end) == page_[7];
}

bool TreePage::mend_header() {
  constexpr std::size_t kBits = 8 * 8;  // bits in the header; the pointers after it belong to cells
  const auto cells_of = [this] { return std::pair(page_[0], cells()); };
  std::optional<std::size_t> found;
  std::pair<std::uint8_t, std::size_t> left;
  for (std::size_t bit = 0; bit < kBits; ++bit) {
    flip(bit);
    const bool fits = is_consistent();
    const auto cells_then = cells_of();
    flip(bit);
    if (!fits) continue;
    if (found && cells_then != left) return false;
    found = bit;
    left = cells_then;
  }
  if (found) flip(*found);
  return found.has_value();
}

std::vector<std::size_t> TreePage::bits_of(std::size_t index) const {
  std::vector<std::size_t> bits;
  const auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t bit = 8 * from; bit < 8 * std::min(to, usable_); ++bit) bits.push_back(bit);
  };
  const std::size_t pointer = header() + 2 * index;
  if (pointer + 2 > usable_) return bits;
  add(pointer, pointer + 2);
  const std::size_t begin = number(pointer, 2);
  std::size_t end = usable_;  // where the next cell begins
  for (std::size_t i = 0; i < cells() && header() + 2 * i + 2 <= usable_; ++i)
    if (const std::size_t other = number(header() + 2 * i, 2); other > begin)
      end = std::min(end, other);
  add(begin, end);
  return bits;
}

}  // namespace s3oram
