// The parts of a vault that is moving to another volume: next/, source/, and what vault.json says.
#include <sodium.h>

#include <algorithm>

#include "oramcore/base/durable_file.h"
#include "oramcore/vault/private_directory.h"
#include "oramcore/vault/vault.h"
#include "oramcore/vault/vault_config.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

/// Returns whether a volume that was already made is the one that is wanted. Its numbers may differ
/// from those that would be chosen now, because they depend on the free space.
bool same_place(const VaultConfig& one, const VaultConfig& other) {
  return one.params.kind() == other.params.kind() && one.local == other.local &&
         one.servers == other.servers;
}

}  // namespace

VaultKeys VaultKeys::of(const VaultConfig& volume) const {
  VaultKeys keys = *this;
  if (volume.own_key)
    crypto_generichash(keys.sealing.data(), keys.sealing.size(), volume.volume.data(),
                       volume.volume.size(), later.data(), later.size());
  else
    keys.sealing = first;
  return keys;
}

Result<Vault> Vault::make_next(VaultConfig config) {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  if (config_.source)
    return fail(Errc::vault_in_use, "{}: a migration is under way", directory_.string());
  S3O_ASSIGN(auto found, next());
  if (found && same_place(found->config_, config)) return std::move(*found);
  if (found)
    return fail(Errc::exists,
                "{} was begun for other servers or another scheme; run the same s3oramfs migrate "
                "again, or "
                "remove that directory",
                next_directory().string());
  std::error_code error;
  fs::remove_all(next_directory(), error);  // may remain from an interrupted attempt
  Vault next;
  next.directory_ = next_directory();
  next.part_ = Part::next;
  S3O_TRY(make_private_directory(next.directory_));
  S3O_TRY(make_private_directory(next.run_directory()));
  if (config.local) S3O_TRY(make_private_directory(next.directory_ / "servers"));
  for (unsigned server = 1; config.local && server <= config.servers.size(); ++server)
    S3O_TRY(make_private_directory(next.store(static_cast<Party>(server))));
  S3O_TRY(write_durably(next.directory_ / "lock", {}));
  config.own_key = true;
  config.ready = false;
  S3O_TRY(next.write_config(std::move(config)));
  S3O_TRY(sync_directory(directory_));
  return next;
}

Result<std::optional<Vault>> Vault::next() const {
  std::error_code error;
  if (!fs::exists(next_directory() / "vault.json", error)) return std::nullopt;
  Vault next;
  next.directory_ = next_directory();
  next.part_ = Part::next;
  S3O_TRY(next.reread());
  return std::optional(std::move(next));
}

Vault Vault::source() const {
  Vault source;
  source.directory_ = source_directory();
  source.config_ = config_.source->volume;
  source.part_ = Part::source;
  return source;
}

fs::path Vault::sockets_directory() const {
  return part_ == Part::present ? run_directory() : directory_.parent_path() / "run";
}

std::string Vault::socket(Party server) const {
  const char* const way = part_ == Part::source ? "../source/run/"
                          : part_ == Part::next ? "../next/run/"
                                                : "";
  return fmt::format("{}{}.sock", way, unsigned{server});
}

Status Vault::begin_migration(const VaultConfig& next, std::uint64_t rate) {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  if (config_.source)
    return fail(Errc::vault_in_use, "{}: a migration is under way", directory_.string());
  VaultConfig config = next;
  config.source = std::make_shared<const MigrationSource>(MigrationSource{config_, rate});
  return write_config(std::move(config));
}

Status Vault::end_migration() {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  VaultConfig config = config_;
  config.source.reset();
  return write_config(std::move(config));
}

Status Vault::set_migration_rate(std::uint64_t rate) {
  S3O_ASSIGN(const auto lock, lock_files());
  S3O_TRY(reread());
  if (!config_.source) return {};
  VaultConfig config = config_;
  config.source =
      std::make_shared<const MigrationSource>(MigrationSource{config_.source->volume, rate});
  return write_config(std::move(config));
}

}  // namespace s3oram
