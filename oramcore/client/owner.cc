// Records and compares the owner of a vault.db.
#include "oramcore/client/owner.h"

#include <sodium.h>

#include "oramcore/db/database_header.h"
#include "oramcore/protocol/messages.h"

namespace s3oram {
namespace {

// Derives from the key a value that shows which key it is, and reveals nothing else about it.
Seed proof_of(const Seed& sealing) {
  Seed proof{};
  constexpr std::string_view kUse = "s3oramfs: the key of this vault.db's blocks";
  crypto_generichash(proof.data(), proof.size(), as_bytes(kUse).data(), kUse.size(), sealing.data(),
                     sealing.size());
  return proof;
}

Bytes check_of(ByteSpan description) {
  Bytes check(16);
  crypto_generichash(check.data(), check.size(), description.data(), description.size(), nullptr,
                     0);
  return check;
}

std::string other_key(const std::string& path) {
  return fmt::format(
      "vault.key belongs to another vault than {} beside it: bring back the right one, or "
      "move it away and run s3oramfs restore --from FILE",
      path);
}

struct Row {
  VolumeDescription volume;
  Bytes proof;
};

// Returns std::nullopt also if the row is damaged, because it then says nothing about the vault.
Result<std::optional<Row>> read_row(Database& database) {
  S3O_ASSIGN(auto known, database.has_table("owner"));
  if (!known) return std::optional<Row>();
  S3O_ASSIGN(auto row, database.prepare("SELECT volume, key, checksum FROM owner"));
  S3O_ASSIGN(auto found, row.step());
  if (!found) return std::optional<Row>();
  const Bytes description = row.blob(0);
  const auto volume = decode<VolumeDescription>(description);
  if (!volume || row.blob(2) != check_of(description)) return std::optional<Row>();
  return std::optional<Row>({*volume, row.blob(1)});
}

}  // namespace

Status check_page_key(const std::filesystem::path& database, const PageKey& key) {
  if (read_header(database).kind == DatabaseHeader::Kind::sealed && is_of_other_key(database, key))
    return fail(Errc::damaged_vault, "{}", other_key(database.string()));
  return {};
}

Result<std::string> other_owner(Database& database, const Owner& owner) {
  S3O_ASSIGN(const auto row, read_row(database));
  if (!row) return std::string();
  const auto& [volume, proof] = *row;
  const std::string& path = database.path();
  if (volume.id != owner.volume)
    return fmt::format(
        "{} belongs to another vault than vault.json beside it: bring back the right one", path);
  if (const std::string other = difference(owner.params, volume.params); !other.empty())
    return fmt::format(
        "vault.json says {}, as {} does: bring back the right one, or run s3oramfs restore --from "
        "FILE",
        other, path);
  if (owner.sealing && !proof.empty() && !std::ranges::equal(proof, proof_of(*owner.sealing)))
    return other_key(path);
  return std::string();
}

Result<bool> is_owned_by(Database& database, const Owner& owner) {
  S3O_ASSIGN(const auto row, read_row(database));
  if (!row) return false;
  S3O_ASSIGN(const auto other, other_owner(database, owner));
  return other.empty();
}

Status keep_owner(Database& database, const Owner& owner) {
  S3O_ASSIGN(const auto row, read_row(database));
  if (row) return {};
  S3O_TRY(database.execute(
      "CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), volume BLOB NOT "
      "NULL, key BLOB NOT NULL, checksum BLOB NOT NULL)"));
  S3O_ASSIGN(auto keep, database.prepare("INSERT OR REPLACE INTO owner VALUES (1, ?, ?, ?)"));
  Writer writer;
  VolumeDescription{owner.volume, owner.params, 0}.fields(writer);
  const Bytes description = writer.take();
  const Seed proof = owner.sealing ? proof_of(*owner.sealing) : Seed{};
  return keep.bind(0, description)
      .bind(1, ByteSpan(proof).first(owner.sealing ? proof.size() : 0))
      .bind(2, check_of(description))
      .run();
}

}  // namespace s3oram
