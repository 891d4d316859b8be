// Salvages a damaged database in three steps: its sealed pages, its rows, and the rows on pages
// that no other page leads to.
#include "oramcore/db/salvage_database.h"

#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/orphan_rows.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

Status add_orphans(const fs::path& gathered, const fs::path& to, Disk& disk,
                   std::vector<SalvagedTable>& tables) {
  S3O_ASSIGN(const auto added, copy_orphan_rows(gathered, to, disk));
  for (SalvagedTable& table : tables)
    if (const auto at = added.find(table.name); at != added.end()) table.rows += at->second;
  return {};
}

Result<SalvagedDatabase> salvage_sealed(const fs::path& from, const fs::path& gathered,
                                        const fs::path& to, Disk& disk) {
  if (!disk.page_key())
    return fail(Errc::wrong_passphrase,
                "database {} is sealed; its vault's key is needed to open it", from.string());
  S3O_ASSIGN(auto pages, gather_pages(from, gathered, *disk.page_key()));
  S3O_ASSIGN(auto tables, salvage(gathered.string(), to.string(), disk));
  S3O_TRY(add_orphans(gathered, to, disk, tables));
  return SalvagedDatabase{std::move(tables), std::move(pages)};
}

}  // namespace

Result<SalvagedDatabase> salvage_database(const fs::path& from, const fs::path& to, Disk& disk) {
  if (read_header(from).kind != DatabaseHeader::Kind::sealed) {
    S3O_ASSIGN(auto tables, salvage(from.string(), to.string()));
    return SalvagedDatabase{std::move(tables), {}};
  }
  const fs::path gathered = from.string() + ".pages";
  S3O_TRY(remove_database(gathered));  // may remain from an interrupted attempt
  auto salvaged = salvage_sealed(from, gathered, to, disk);
  const Status removed = remove_database(gathered);
  if (salvaged && !removed) return fail(removed.error());
  return salvaged;
}

}  // namespace s3oram
