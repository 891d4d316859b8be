// Takes a damaged database apart: its pages, if they are sealed, then its rows, then the rows that
// no page leads to.
#include "oramcore/db/salvage_database.h"

#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/orphan_rows.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

Status add_orphans(const fs::path& gathered, const fs::path& to, Disk& disk,
                   std::vector<SalvagedTable>& tables) {
  const auto added = copy_orphan_rows(gathered, to, disk);
  if (!added) return fail(added.error());
  for (SalvagedTable& table : tables)
    if (const auto at = added->find(table.name); at != added->end()) table.rows += at->second;
  return {};
}

Result<SalvagedDatabase> salvage_sealed(const fs::path& from, const fs::path& gathered,
                                        const fs::path& to, Disk& disk) {
  if (!disk.page_key())
    return fail(Errc::wrong_passphrase, "database {}: is sealed: its vault's key opens it",
                from.string());
  auto pages = gather_pages(from, gathered, *disk.page_key());
  if (!pages) return fail(pages.error());
  auto tables = salvage(gathered.string(), to.string(), disk);
  if (!tables) return fail(tables.error());
  S3O_TRY(add_orphans(gathered, to, disk, *tables));
  return SalvagedDatabase{std::move(*tables), std::move(*pages)};
}

}  // namespace

Result<SalvagedDatabase> salvage_database(const fs::path& from, const fs::path& to, Disk& disk) {
  if (read_header(from).kind != DatabaseHeader::Kind::sealed) {
    auto tables = salvage(from.string(), to.string());
    if (!tables) return fail(tables.error());
    return SalvagedDatabase{std::move(*tables), {}};
  }
  const fs::path gathered = from.string() + ".pages";
  S3O_TRY(remove_database(gathered));  // of an attempt that was cut short
  auto salvaged = salvage_sealed(from, gathered, to, disk);
  const Status removed = remove_database(gathered);
  if (salvaged && !removed) return fail(removed.error());
  return salvaged;
}

}  // namespace s3oram
