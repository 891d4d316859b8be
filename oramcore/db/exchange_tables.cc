// Copies tables with SQL, from an attached database.
#include "oramcore/db/exchange_tables.h"

namespace s3oram {
namespace {

Status copy_table(Database& database, const std::string& name) {
  std::string sql;
  {
    S3O_ASSIGN(auto schema, database.prepare("SELECT sql FROM other.sqlite_master WHERE type = "
                                             "'table' AND name = ?"));
    S3O_ASSIGN(const bool there, schema.bind(0, std::string_view(name)).step());
    if (!there) return {};
    sql = schema.text(0);
  }
  S3O_TRY(database.execute(sql));
  return database.execute(fmt::format("INSERT INTO main.{0} SELECT * FROM other.{0}", name));
}

}  // namespace

Status exchange_tables(Database& database, const TableExchange& exchange, std::string_view what) {
  {
    S3O_ASSIGN(auto attach, database.prepare("ATTACH ? AS other"));
    S3O_TRY(attach.bind(0, std::string_view(exchange.from.native())).run());
  }
  Status exchanged = database.transact(what, [&]() -> Status {
    for (const std::string& name : exchange.dropped)
      S3O_TRY(database.execute(fmt::format("DROP TABLE IF EXISTS main.{}", name)));
    for (const std::string& name : exchange.copied) S3O_TRY(copy_table(database, name));
    return {};
  });
  Status detached = database.execute("DETACH other");
  return exchanged ? detached : exchanged;
}

}  // namespace s3oram
