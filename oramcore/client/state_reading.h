// Reads a client's tables in vault.db row by row: the parts that all schemes have in common.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/db/finding.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/messages.h"

namespace s3oram {

/// Reads tables until an error forbids opening the volume; `refused` then says which.
class StateReading {
 protected:
  StateReading(Database& database, Findings& findings, std::optional<Error>& refused)
      : database_(database), findings_(findings), refused_(refused) {}

  void refuse(const char* table, const Error& error);
  void damaged(const char* table, std::string_view what) {
    refuse(table, {Errc::damaged_vault, fmt::format("{}: {}", database_.path(), what)});
  }

  /// Calls each(row) for every row that `sql` returns.
  template <class Each>
  void read(const char* table, const std::string& sql, Each each) {
    auto rows = database_.prepare(sql);
    if (!rows) return refuse(table, rows.error());
    while (!refused_) {
      auto more = rows->step();
      if (!more) return refuse(table, more.error());
      if (!*more) return;
      each(*rows);
    }
  }

  void read_sessions(std::vector<Session>& sessions);

  Database& database_;

 private:
  Findings& findings_;
  std::optional<Error>& refused_;
};

/// Deletes the rows of a table whose `key` is one of `keys`. Does nothing if the table does not
/// exist, as in older formats.
Status drop_rows(Database& database, const char* table, const char* key,
                 const std::vector<std::int64_t>& keys);

}  // namespace s3oram
