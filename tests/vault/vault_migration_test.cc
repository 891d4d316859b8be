// Tests how a vault records the volume to which it is moving, and the one that it leaves.
#include <optional>

#include "oramcore/base/durable_file.h"
#include "oramcore/vault/vault_config.h"
#include "tests/base/good.h"
#include "tests/vault/vault_fixture.h"

namespace s3oram {
namespace {

class VaultMigration : public VaultFixture {
 protected:
  VaultMigration() {
    SystemRandom random;
    auto made = Vault::create(root_ / "v", local_config(), passphrase("p"), random, kQuick);
    EXPECT_TRUE(made);
    vault_.emplace(std::move(*made));
    EXPECT_TRUE(vault_->mark_ready());
    next_config_ = remote_config();
    next_config_.volume.fill(0xcd);
  }
  std::string text() {
    const auto bytes = read_small_file(root_ / "v" / "vault.json", 1 << 20);
    EXPECT_TRUE(bytes);
    return {bytes->begin(), bytes->end()};
  }

  std::optional<Vault> vault_;
  VaultConfig next_config_;
};

TEST_F(VaultMigration, TheNextVolumeIsFoundAgain) {
  EXPECT_FALSE(*vault_->next());
  auto next = vault_->make_next(next_config_);
  ASSERT_GOOD(next);
  EXPECT_FALSE(next->config().ready);
  next_config_.volume.fill(0xee);  // drawn at random each time
  const auto again = vault_->make_next(next_config_);
  ASSERT_GOOD(again);
  EXPECT_EQ(again->config().volume, next->config().volume);
  // Numbers that depend on the free room do not make it another volume.
  next_config_.params.first_height += 1;
  EXPECT_EQ(vault_->make_next(next_config_)->config().volume, next->config().volume);
  ASSERT_GOOD(next->mark_ready());
  EXPECT_TRUE((*vault_->next())->config().ready);
  next_config_.servers[1].host_port = "other.example:5760";
  const auto refused = vault_->make_next(next_config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::exists);
}

TEST_F(VaultMigration, AnUnfinishedDirectoryIsMadeAgain) {
  std::filesystem::create_directories(root_ / "v" / "next" / "run" / "rest");
  ASSERT_GOOD(vault_->make_next(next_config_));
  EXPECT_FALSE(std::filesystem::exists(root_ / "v" / "next" / "run" / "rest"));
}

TEST_F(VaultMigration, VaultJsonSaysWhereBlocksComeFrom) {
  EXPECT_NE(text().find("\"format\": 4"), std::string::npos);
  const VaultConfig before = vault_->config();
  const auto next = vault_->make_next(next_config_);
  ASSERT_GOOD(next);
  ASSERT_GOOD(vault_->begin_migration(next->config(), 1000));
  EXPECT_NE(text().find("\"format\": 5"), std::string::npos);
  ASSERT_GOOD(vault_->set_migration_rate(2000));
  const auto found = Vault::find(root_ / "v");
  ASSERT_GOOD(found);
  const VaultConfig& config = found->config();
  EXPECT_EQ(config.volume, next->config().volume);
  EXPECT_EQ(config.servers, next_config_.servers);
  EXPECT_TRUE(config.own_key);
  ASSERT_TRUE(config.source);
  EXPECT_EQ(config.source->rate, 2000u);
  EXPECT_EQ(config.source->volume.volume, before.volume);
  EXPECT_EQ(config.source->volume.params, before.params);
  EXPECT_TRUE(config.source->volume.local);
  EXPECT_FALSE(config.source->volume.own_key);
  const Vault source = found->source();
  EXPECT_EQ(source.store(2), found->directory() / "source" / "servers" / "2");
  EXPECT_EQ(source.database(), found->directory() / "source" / "vault.db");
  EXPECT_EQ(source.sockets_directory(), found->run_directory());
  EXPECT_EQ(source.socket(2), "../source/run/2.sock");

  ASSERT_GOOD(vault_->end_migration());
  EXPECT_EQ(text().find("moving_from"), std::string::npos);
  EXPECT_NE(text().find("\"own_key\": true"), std::string::npos);
}

TEST_F(VaultMigration, NoOtherVolumeIsMadeWhileBlocksMove) {
  const auto next = vault_->make_next(next_config_);
  ASSERT_GOOD(next);
  EXPECT_EQ(next->socket(2), "../next/run/2.sock");
  auto late = Vault::find(root_ / "v");
  ASSERT_GOOD(late);
  ASSERT_GOOD(vault_->begin_migration(next->config(), 0));
  const auto refused = late->make_next(next_config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::vault_in_use);
}

TEST_F(VaultMigration, AServerOfTheSourceHasANewAddress) {
  ServerAddress moved = next_config_.servers[0];
  moved.host_port = "moved.example:5760";
  moved.key.fill(0x77);
  EXPECT_EQ(vault_->set_source_server(1, moved).error().code, Errc::usage);
  VaultConfig away = next_config_;
  away.volume.fill(0x22);
  for (ServerAddress& server : away.servers) {
    server.host_port = "away-" + server.host_port;
    server.key[0] ^= 0xff;
  }
  ASSERT_GOOD(vault_->begin_migration(away, 0));
  ASSERT_GOOD(vault_->end_migration());
  ASSERT_GOOD(vault_->begin_migration(next_config_, 500));
  ASSERT_GOOD(vault_->set_source_server(1, moved));
  const auto found = Vault::find(root_ / "v");
  ASSERT_GOOD(found);
  EXPECT_EQ(found->config().servers, next_config_.servers);
  EXPECT_EQ(found->config().source->volume.servers[0], moved);
  EXPECT_EQ(found->config().source->volume.servers[1], away.servers[1]);
  EXPECT_EQ(found->config().source->rate, 500u);
  // A server holds only one volume.
  EXPECT_EQ(vault_->set_server(2, moved).error().code, Errc::usage);
  EXPECT_EQ(vault_->set_source_server(1, next_config_.servers[0]).error().code, Errc::usage);
}

TEST_F(VaultMigration, ARecoveryTextHasBothVolumes) {
  const auto next = vault_->make_next(next_config_);
  ASSERT_GOOD(next);
  VaultConfig config = next->config();
  config.ready = true;
  ASSERT_GOOD(vault_->begin_migration(config, 0));
  // The servers of the source are in the vault itself.
  EXPECT_EQ(vault_->recovery().error().code, Errc::usage);
  ASSERT_GOOD(vault_->end_migration());
  EXPECT_TRUE(vault_->recovery());
}

TEST_F(VaultMigration, EachVolumeHasAKeyOfItsOwn) {
  const auto keys = vault_->unlock(passphrase("p"));
  ASSERT_GOOD(keys);
  VaultConfig other = next_config_;
  other.own_key = true;
  const VaultKeys of_other = keys->of(other);
  EXPECT_NE(of_other.sealing, keys->sealing);
  EXPECT_EQ(of_other.pages, keys->pages);
  EXPECT_EQ(of_other.curve.public_key, keys->curve.public_key);
  VaultConfig third = other;
  third.volume.fill(0x11);
  EXPECT_NE(keys->of(third).sealing, of_other.sealing);
  EXPECT_EQ(of_other.of(local_config()).sealing, keys->sealing);
}

}  // namespace
}  // namespace s3oram
