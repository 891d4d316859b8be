// Bytes of files that a disk may have damaged, or that someone else may have written: vault.key,
// pages and rows of vault.db, and the parts of backups. The first byte says which.
#include <optional>

#include "fused/backup/backup_format.h"
#include "oramcore/client/bucket_row.h"
#include "oramcore/client/checked_row.h"
#include "oramcore/client/mark_row.h"
#include "oramcore/client/state_check.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/page.h"
#include "oramcore/vault/key_file.h"
#include "tests/base/temporary_directory.h"
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

void marks(ByteSpan bytes) {
  if (const auto row = decode_marks(5, bytes))
    require(encode_marks(5, *row) == Bytes(bytes.begin(), bytes.end()), "a row has one encoding");
}

/// The rows of `repairs` in a database whose other tables are those of a new volume.
class Repairs {
 public:
  static constexpr std::uint16_t kBucketSize = 20;

  Repairs() {
    require(ClientState::create(file_).has_value(), "a database can be created");
    auto opened = Database::open(file_, Database::Mode::read_write);
    require(opened.has_value(), "the database can be opened");
    database_.emplace(std::move(*opened));
  }
  /// Reads rows of three numbers, each of which has a type that SQLite keeps.
  UnfinishedRepairs read(Input input) {
    require(database_->begin().has_value(), "a transaction begins");
    auto put = database_->prepare("INSERT OR REPLACE INTO repairs VALUES (?, ?, ?)");
    require(put.has_value(), "the table has three columns");
    for (unsigned row = 0; row < 16 && !input.empty(); ++row) {
      for (int column = 0; column < 3; ++column) bind(*put, column, input);
      static_cast<void>(put->run());  // NULL may be refused
    }
    const StateCheck found = read_state(*database_, params());
    put->reset();
    database_->rollback();
    return found.refused ? UnfinishedRepairs{} : found.state.repairs;
  }
  static VolumeParams params() { return {Scheme{1, 3}, 4096, kBucketSize, 10}; }

 private:
  static void bind(Statement& to, int column, Input& input) {
    switch (const std::uint8_t type = input.byte(); type % 5) {
      case 0:
        to.bind(column, static_cast<std::int64_t>(type / 5));
        break;
      case 1: {
        std::uint64_t number = 0;
        for (int i = 0; i < 8; ++i) number = number << 8 | input.byte();
        to.bind(column, static_cast<std::int64_t>(number));
        break;
      }
      case 2:
        to.bind(column, input.bytes(type / 5));
        break;
      case 3:
        to.bind_real(column, static_cast<double>(input.u16()) * 1e300);
        break;
      default:
        to.bind_null(column);
    }
  }

  TemporaryDirectory directory_;
  const std::string file_ = (directory_.path() / "vault.db").string();
  std::optional<Database> database_;
};

void repairs(ByteSpan bytes) {
  static Repairs database;
  const VolumeParams params = Repairs::params();
  const auto exists = [&](Party server) { return server >= 1 && server <= params.scheme.servers; };
  const UnfinishedRepairs read = database.read(Input(bytes.data(), bytes.size()));
  require(std::ranges::all_of(read.servers, exists), "servers under repair exist");
  for (const auto& [at, servers] : read.unproven) {
    require(std::ranges::all_of(servers, exists), "repaired servers exist");
    require(at.bucket >= kRoot && at.bucket <= bucket_count(1), "repaired buckets exist");
    require(at.slot < (at.bucket == kRoot ? params.root_slots() : params.bucket_size),
            "repaired slots exist");
  }
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
    marks,
    [](ByteSpan bytes) { marks(with_checksum(5, Bytes(bytes.begin(), bytes.end()))); },
    [](ByteSpan bytes) { bucket_row(with_checksum(5, Bytes(bytes.begin(), bytes.end()))); },
    repairs,
};

}  // namespace
}  // namespace s3oram::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  s3oram::fuzz::dispatch(s3oram::fuzz::kReadings, data, size);
  return 0;
}
