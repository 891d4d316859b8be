// Rebuilds a lost or damaged vault.db from the data that the servers hold.
#include <algorithm>
#include <iterator>

#include "oramcore/client/client_state.h"
#include "oramcore/client/in_step.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/vault/private_directory.h"
#include "oramcore/volume/connection.h"
#include "oramcore/volume/migration.h"
#include "oramcore/volume/vault_volume.h"
#include "oramcore/volume/volume.h"

namespace s3oram {
namespace {

Result<RebuiltVolume> rebuild_one(const Vault& vault, const VaultKeys& keys,
                                  const VolumeOptions& options, const std::filesystem::path& file) {
  SealedDisk disk(keys.pages);
  S3O_TRY(ClientState::check_free(file, disk));
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  std::unique_ptr<RebuiltState> rebuilt;
  const Status found = connection->run([&]() -> Task<Status> {
    Connection& c = *connection;
    {
      Servers servers(c.executor(), c.clock(), c.random(), c.transport(), vault.config().volume,
                      c.servers());
      // A mirror can do without some, but each one that answers makes the result more certain.
      const InStep in_step(vault.config().params);
      S3O_CO_TRY(co_await c.await_servers(servers, options, in_step.least(), options.deadline));
    }
    const ClientEnvironment environment{c.executor(), c.executor(), c.executor(),
                                        c.clock(),    c.random(),   c.transport()};
    S3O_CO_ASSIGN(rebuilt, co_await kind_of(vault).rebuild(
                               client_volume(vault, keys), environment, disk,
                               {options.deadline, options.progress, options.rewrite_first}));
    co_return Status{};
  });
  if (!found) return fail(connection->explain(found).error());
  S3O_TRY(connection->stop_servers());
  S3O_TRY(rebuilt->store(file, disk));
  return RebuiltVolume{.backup = std::move(rebuilt->backup),
                       .blocks = rebuilt->blocks,
                       .damaged = rebuilt->damaged,
                       .suspect = rebuilt->suspect,
                       .former_was_last = rebuilt->former_was_last,
                       .left_out = std::move(rebuilt->left_out)};
}

/// Rebuilds the source of a migration, and adds it to what was found of the volume, because blocks,
/// and parts of the last backup, may still be at the source.
Status rebuild_source(const Vault& source, const VaultKeys& keys, const VolumeOptions& options,
                      RebuiltVolume& found) {
  S3O_TRY(make_private_directory(source.directory()));
  S3O_TRY(make_private_directory(source.run_directory()));
  const std::filesystem::path made = source.database().string() + ".restoring";
  S3O_TRY(remove_database(made));
  SealedDisk disk(keys.pages);
  // The existing file may know of blocks in the client's stash, which the servers do not have.
  const bool is_sound = std::filesystem::exists(source.database()) && check_owner(source, keys) &&
                        check_places(source, disk);
  S3O_ASSIGN(const auto there, rebuild_one(source, keys, options, made));
  if (is_sound && there.former_was_last)
    S3O_TRY(remove_database(made));
  else
    S3O_TRY(replace_database(made, source.database(), disk));
  std::vector<BlockId> parts;
  std::ranges::set_union(found.backup, there.backup, std::back_inserter(parts));
  found.backup = std::move(parts);
  found.blocks += there.blocks;
  found.damaged += there.damaged;
  found.suspect += there.suspect;
  return {};
}

}  // namespace

Result<RebuiltVolume> Volume::rebuild(Vault& vault, const VaultKeys& keys,
                                      const VolumeOptions& options,
                                      const std::filesystem::path& file) {
  S3O_TRY(settle_migration(vault, keys));
  S3O_ASSIGN(auto rebuilt, rebuild_one(vault, keys, options, file));
  if (vault.config().source) {
    if (rebuilt.damaged + rebuilt.suspect > 0 && !options.accept_older)
      return fail(Errc::damaged_vault,
                  "{}: {} slots or blocks are damaged at the servers to which the vault moves. For "
                  "a block that was lost there, the previous servers may have older content, "
                  "and nothing would show that. Nothing was changed. s3oramfs repair or scrub may "
                  "mend the damage; to accept older content: restore --accept-older",
                  vault.directory().string(), rebuilt.damaged + rebuilt.suspect);
    const Vault source = vault.source();
    if (const Status added = rebuild_source(source, keys.of(source.config()), options, rebuilt);
        !added)
      return fail(added.error().code,
                  "{} (if the migration has ended since the recovery file was written, or these "
                  "servers are gone for good: restore --moved)",
                  added.error().message);
  }
  return rebuilt;
}

}  // namespace s3oram
