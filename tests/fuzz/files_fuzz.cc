// Bytes of files that a disk may have damaged, or that someone else may have written: vault.key,
// pages and rows of vault.db, and the parts of backups. The first byte says which.
#include "fused/backup/backup_format.h"
#include "oramcore/client/bucket_row.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/page.h"
#include "oramcore/vault/key_file.h"
#include "tests/fuzz/input.h"

namespace s3oram::fuzz {
namespace {

void keys(ByteSpan bytes) {
  const auto read = parse_key_file(bytes, "vault.key");
  if (!read) return;
  require(to_bytes(*read) == Bytes(bytes.begin(), bytes.end()), "vault.key is read as it is");
  static_cast<void>(open_slot(*read, Credential{}));
}

void old_keys(ByteSpan bytes) {
  static_cast<void>(parse_old_key_file(bytes, KeyWrap{}, "vault.key"));
}

void bucket_row(ByteSpan bytes) {
  if (const auto row = decode_row(5, bytes))
    require(encode_row(5, *row) == Bytes(bytes.begin(), bytes.end()), "a row has one encoding");
}

void page(ByteSpan bytes, TreeKind kind) {
  Bytes content(512);
  std::copy_n(bytes.begin(), std::min(bytes.size(), content.size()), content.begin());
  TreePage page(content, content.size(), kind);
  const auto look = [](const TreePage& at) {
    if (!at.is_tree_page()) return;
    static_cast<void>(at.right());
    for (std::size_t i = 0; i < at.cells(); ++i) {
      static_cast<void>(at.bits_of(i));
      const auto cell = at.cell(i);
      if (!cell || !cell->has_record) continue;
      static_cast<void>(decode_record(at.bytes(cell->local, cell->here)));
    }
  };
  static_cast<void>(page.is_consistent());
  look(page);
  if (page.mend_header()) require(page.is_consistent(), "a mended page is consistent");
  look(page);
}

void backup(ByteSpan bytes) {
  const auto part = decode_backup_part(bytes);
  if (!part) return;
  const auto again = decode_backup_part(encode(*part, bytes.size()));
  require(again && again->content == part->content && again->index == part->index,
          "a part of a backup is read as it was written");
}

using Reading = void (*)(ByteSpan);
constexpr Reading kReadings[] = {
    keys,
    old_keys,
    bucket_row,
    [](ByteSpan bytes) { page(bytes, TreeKind::numbered); },
    [](ByteSpan bytes) { page(bytes, TreeKind::keyed); },
    [](ByteSpan bytes) { static_cast<void>(decode_record(bytes)); },
    [](ByteSpan bytes) { static_cast<void>(parse_header(bytes)); },
    backup,
};

}  // namespace
}  // namespace s3oram::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  s3oram::fuzz::dispatch(s3oram::fuzz::kReadings, data, size);
  return 0;
}
