// The checksums of control.db's rows, and the table that keeps them.
#define XXH_INLINE_ALL
#include "serverd/oram/store_sums.h"

#include <xxhash.h>

#include "oramcore/base/codec.h"

namespace s3oram {
namespace {

/// The seeds of the checksums. They differ, so that a row of one table cannot pass for a row of
/// another.
enum class Table : std::uint64_t { volume = 1, buckets, prepared, prepared_buckets, attempts };

template <class... Columns>
std::uint64_t sum_of(Table table, const Columns&... columns) {
  Writer writer;
  writer(columns...);
  const Bytes row = writer.take();
  return XXH3_64bits_withSeed(row.data(), row.size(), static_cast<std::uint64_t>(table));
}

std::uint64_t sum_of_version(Table table, BucketIndex bucket, const BucketVersionRef& ref) {
  return sum_of(table, bucket, ref.bucket_version, ref.slots, ref.stamp);
}

std::int64_t as_integer(std::uint64_t sum) { return static_cast<std::int64_t>(sum); }

}  // namespace

std::uint64_t sum_of_volume(std::int64_t format, const VolumeDescription& volume,
                            const Session& session, std::uint64_t tree_version, unsigned height) {
  return sum_of(Table::volume, format, volume, session, tree_version, height);
}

std::uint64_t sum_of_bucket(BucketIndex bucket, const BucketVersionRef& ref) {
  return ref.bucket_version == 0 ? 0 : sum_of_version(Table::buckets, bucket, ref);
}

std::uint64_t sum_of_prepared(const EvictionId& id, unsigned next_height,
                              const BucketVersions& versions) {
  std::uint64_t sum = sum_of(Table::prepared, id, next_height);
  for (const auto& [bucket, ref] : versions)
    sum ^= sum_of_version(Table::prepared_buckets, bucket, ref);
  return sum;
}

std::uint64_t sum_of_attempt(const EvictionId& id) { return sum_of(Table::attempts, id); }

Status make_sums_table(Database& database) {
  // Rows of `buckets` change only together with the volume's row, and those of `prepared_buckets`
  // with that of `prepared`.
  return database.execute(
      "CREATE TABLE IF NOT EXISTS sums (one INTEGER PRIMARY KEY CHECK (one = 1),"
      " volume INTEGER NOT NULL, buckets INTEGER NOT NULL, prepared INTEGER NOT NULL,"
      " attempts INTEGER NOT NULL);"
      "CREATE TRIGGER IF NOT EXISTS volume_made AFTER INSERT ON volume"
      " BEGIN DELETE FROM sums; END;"
      "CREATE TRIGGER IF NOT EXISTS volume_changed AFTER UPDATE ON volume"
      " BEGIN DELETE FROM sums; END;"
      "CREATE TRIGGER IF NOT EXISTS eviction_prepared AFTER INSERT ON prepared"
      " BEGIN DELETE FROM sums; END;"
      "CREATE TRIGGER IF NOT EXISTS eviction_discarded AFTER DELETE ON prepared"
      " BEGIN DELETE FROM sums; END;"
      "CREATE TRIGGER IF NOT EXISTS attempt_begun AFTER INSERT ON attempts"
      " BEGIN DELETE FROM sums; END;");
}

Status put_sums(Database& database, const ControlSums& sums) {
  S3O_ASSIGN(auto row, database.prepare("INSERT OR REPLACE INTO sums VALUES (1, ?, ?, ?, ?)"));
  return row.bind(0, as_integer(sums.volume))
      .bind(1, as_integer(sums.buckets))
      .bind(2, as_integer(sums.prepared))
      .bind(3, as_integer(sums.attempts))
      .run();
}

Result<std::optional<ControlSums>> read_sums(Database& database) {
  S3O_ASSIGN(auto row, database.prepare("SELECT volume, buckets, prepared, attempts FROM sums"));
  S3O_ASSIGN(const auto there, row.step());
  if (!there) return std::optional<ControlSums>();
  const auto sum = [&](int column) { return static_cast<std::uint64_t>(row.integer(column)); };
  return std::optional<ControlSums>({sum(0), sum(1), sum(2), sum(3)});
}

Status compare_sums(const ControlSums& stored, const ControlSums& found) {
  const std::pair<const char*, bool> tables[] = {{"volume", stored.volume == found.volume},
                                                 {"buckets", stored.buckets == found.buckets},
                                                 {"prepared", stored.prepared == found.prepared},
                                                 {"attempts", stored.attempts == found.attempts}};
  for (const auto& [table, same] : tables)
    if (!same)
      return fail(Errc::damaged_vault, "table {} is not as it was written (its checksum is wrong)",
                  table);
  return {};
}

}  // namespace s3oram
