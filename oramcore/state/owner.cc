#include "oramcore/state/owner.h"

#include <sodium.h>

#include "oramcore/wire/messages.h"

namespace s3oram {
namespace {

// Tells nothing of the key.
Seed proof_of(const Seed& sealing) {
  Seed proof{};
  constexpr std::string_view kUse = "s3oramfs: the key of this vault.db's blocks";
  crypto_generichash(proof.data(), proof.size(), as_view(kUse).data(), kUse.size(), sealing.data(),
                     sealing.size());
  return proof;
}

struct Row {
  VolumeDescription volume;
  Bytes proof;
};

Result<std::optional<Row>> read_row(Database& database) {
  auto known = database.has_table("owner");
  if (!known) return fail(std::move(known).error());
  if (!*known) return std::optional<Row>();
  auto row = database.prepare("SELECT volume, key FROM owner");
  if (!row) return fail(std::move(row).error());
  auto found = row->step();
  if (!found) return fail(std::move(found).error());
  const auto volume = *found ? decode<VolumeDescription>(row->blob(0)) : std::nullopt;
  return volume ? std::optional<Row>({*volume, row->blob(1)}) : std::nullopt;
}

Status compare(const Row& row, const Owner& owner, const std::string& path) {
  if (row.volume.id != owner.volume)
    return fail(Errc::damaged_vault, "{} is of another vault than vault.json beside it", path);
  if (const std::string other = difference(owner.params, row.volume.params); !other.empty())
    return fail(Errc::damaged_vault, "vault.json says {}, as {} does", other, path);
  if (owner.sealing && !row.proof.empty() &&
      !std::ranges::equal(row.proof, proof_of(*owner.sealing)))
    return fail(Errc::damaged_vault, "vault.key is of another vault than {} beside it", path);
  return {};
}

}  // namespace

Status check_owner(Database& database, const Owner& owner) {
  const auto row = read_row(database);
  if (!row) return fail(row.error());
  return *row ? compare(**row, owner, database.path()) : Status{};
}

Status keep_owner(Database& database, const Owner& owner) {
  return database.transact("owner", [&]() -> Status {
    const auto row = read_row(database);
    if (!row) return fail(row.error());
    if (*row) return compare(**row, owner, database.path());
    S3O_TRY(
        database.execute("CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = "
                         "1), volume BLOB NOT NULL, key BLOB NOT NULL)"));
    auto keep = database.prepare("INSERT OR REPLACE INTO owner VALUES (1, ?, ?)");
    if (!keep) return fail(std::move(keep).error());
    const Seed proof = owner.sealing ? proof_of(*owner.sealing) : Seed{};
    Writer writer;
    VolumeDescription{owner.volume, owner.params, 0}.fields(writer);
    return keep->bind(0, writer.take())
        .bind(1, View(proof).first(owner.sealing ? proof.size() : 0))
        .run();
  });
}

}  // namespace s3oram
