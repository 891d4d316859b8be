// vault_sql VAULT [--passfile FILE] SQL: does for the sealed database of a vault that nobody has
// open what sqlite3(1) does for a plain one.
#include <sqlite3.h>

#include <cstdio>
#include <string>

#include "oramcore/base/durable_file.h"
#include "oramcore/db/page_vfs.h"
#include "oramcore/db/row_checksum.h"
#include "oramcore/vault/vault.h"

namespace s3oram {
namespace {

int print(void*, int count, char** values, char**) {
  for (int i = 0; i < count; ++i) std::printf("%s%s", i > 0 ? "|" : "", values[i] ? values[i] : "");
  std::printf("\n");
  return 0;
}

int run(const std::string& directory, const std::string& passfile, const std::string& sql) {
  const auto vault = Vault::find(directory);
  if (!vault) return std::fprintf(stderr, "%s\n", vault.error().message.c_str()), 1;
  Credential credential;
  if (!passfile.empty()) {
    const auto line = read_small_file(passfile, 4096);
    if (!line) return std::fprintf(stderr, "%s\n", line.error().message.c_str()), 1;
    credential.kind = Credential::Kind::passphrase;
    credential.passphrase.assign(line->begin(), std::find(line->begin(), line->end(), '\n'));
  }
  const auto keys = vault->unlock(credential);
  if (!keys) return std::fprintf(stderr, "%s\n", keys.error().message.c_str()), 1;
  const PageKey key(keys->pages);
  const PageVfs pages(key, "");
  sqlite3* database = nullptr;
  char* error = nullptr;
  int rc = sqlite3_open_v2(vault->database().c_str(), &database, SQLITE_OPEN_READWRITE,
                           pages.name().c_str());
  if (rc == SQLITE_OK) rc = add_row_checksum(database);
  if (rc == SQLITE_OK)
    rc =
        sqlite3_exec(database, ("PRAGMA temp_store=MEMORY;" + sql).c_str(), print, nullptr, &error);
  if (rc != SQLITE_OK)
    std::fprintf(stderr, "vault_sql: %s %s\n", error ? error : sqlite3_errstr(rc),
                 pages.damage().c_str());
  sqlite3_close(database);
  return rc == SQLITE_OK ? 0 : 1;
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[2]) == "--passfile")
    return s3oram::run(argv[1], argv[3], argv[4]);
  if (argc == 3) return s3oram::run(argv[1], "", argv[2]);
  std::fprintf(stderr, "vault_sql VAULT [--passfile FILE] SQL\n");
  return 2;
}
