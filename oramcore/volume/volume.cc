// Makes and opens volumes, over a connection to their servers.
#include "oramcore/volume/volume.h"

#include "oramcore/client/owner.h"
#include "oramcore/client/servers.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/volume/migration.h"
#include "oramcore/volume/open_volume.h"
#include "oramcore/volume/vault_volume.h"

namespace s3oram {

Status Volume::create(Vault& vault, const VaultKeys& keys, const VolumeOptions& options) {
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  const Status created = connection->run([&]() -> Task<Status> {
    Connection& c = *connection;
    Servers servers(c.executor(), c.clock(), c.random(), c.transport(), vault.config().volume,
                    c.servers());
    S3O_CO_TRY(co_await c.await_servers(servers, options, c.servers()));
    co_return co_await servers.create(vault.config().params, options.deadline);
  });
  if (!created) return connection->explain(created);
  // An earlier init that was interrupted may have made vault.db already.
  SealedDisk disk(keys.pages);
  S3O_TRY(kind_of(vault).create(client_volume(vault, keys), disk));
  {
    S3O_ASSIGN(auto database,
               Database::open(vault.database().string(), Database::Mode::read_write, disk));
    S3O_TRY(database.transact("owner", [&] {
      return keep_owner(database, {vault.config().volume, vault.config().params, keys.sealing});
    }));
  }
  S3O_TRY(connection->stop_servers());
  return vault.mark_ready();
}

Result<std::unique_ptr<Volume>> Volume::open(Vault& vault, const VaultKeys& keys,
                                             const VolumeOptions& options) {
  S3O_TRY(settle_migration(vault, keys));
  S3O_TRY(check_usable(vault, keys));
  S3O_ASSIGN(auto thread, NetworkThread::start());
  auto volume = std::make_unique<OpenVolume>(vault, keys, options, std::move(thread));
  S3O_TRY(volume->start());
  return std::unique_ptr<Volume>(std::move(volume));
}

}  // namespace s3oram
