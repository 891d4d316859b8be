// Rebuilds a lost vault.db from real servers. The volumes are golden ones, whose blocks older
// versions wrote without leaves in their labels.
#include "oramcore/volume/volume.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <map>
#include <optional>

#include "oramcore/vault/credential.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class VolumeRebuild : public ::testing::Test {
 protected:
  VolumeRebuild() {
    const std::string unpack =
        fmt::format("tar -C '{}' -xzf '{}'", directory_.path().string(), GOLDEN_VOLUME);
    EXPECT_EQ(std::system(unpack.c_str()), 0);
    options_.serverd = SERVERD;
  }
  void SetUp() override {
    auto vault = Vault::find(directory_ / "vault");
    ASSERT_GOOD(vault);
    vault_.emplace(std::move(*vault));
    ASSERT_GOOD(vault_->lock());
    const auto credential = existing_credential({}, {}, *vault_);
    ASSERT_GOOD(credential);
    const auto keys = vault_->unlock(*credential);
    ASSERT_GOOD(keys);
    keys_ = *keys;
  }
  ~VolumeRebuild() override { fs::current_path("/"); }

  /// Reads every block's content.
  void read_all(std::map<BlockId, Bytes>& contents) {
    auto volume = Volume::open(*vault_, keys_, options_);
    ASSERT_GOOD(volume);
    BlockDevice& device = (*volume)->device();
    for (const BlockId block : device.mapped()) {
      std::promise<Result<Bytes>> done;
      device.read(block, [&](Result<Bytes> content) { done.set_value(std::move(content)); });
      auto content = done.get_future().get();
      ASSERT_GOOD(content);
      contents[block] = std::move(*content);
    }
    ASSERT_GOOD((*volume)->close());
  }
  void lose_database() {
    for (const char* tail : {"", "-wal", "-shm", "-ballast"})
      fs::remove(vault_->database().string() + tail);
  }

  TemporaryDirectory directory_;
  VolumeOptions options_;
  std::optional<Vault> vault_;  // locked
  VaultKeys keys_;
};

TEST_F(VolumeRebuild, FindsWhatTheServersOfAGoldenVolumeHold) {
  auto rebuilt = Volume::rebuild(*vault_, keys_, options_, vault_->database());
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().code, Errc::exists);
  // Both before and after this version accessed the blocks for the first time.
  std::map<BlockId, Bytes> before;
  fs::copy(directory_ / "vault/servers", directory_ / "servers", fs::copy_options::recursive);
  ASSERT_NO_FATAL_FAILURE(read_all(before));
  ASSERT_GE(before.size(), 3u);
  for (const bool accessed : {true, false}) {
    if (!accessed) {
      fs::remove_all(directory_ / "vault/servers");
      fs::copy(directory_ / "servers", directory_ / "vault/servers", fs::copy_options::recursive);
    }
    lose_database();
    rebuilt = Volume::rebuild(*vault_, keys_, options_, vault_->database());
    ASSERT_GOOD(rebuilt);
    EXPECT_FALSE(rebuilt->former_was_last);
    EXPECT_EQ(rebuilt->damaged, 0u);
    EXPECT_TRUE(rebuilt->backup.empty());
    std::map<BlockId, Bytes> after;
    ASSERT_NO_FATAL_FAILURE(read_all(after));
    EXPECT_EQ(after.size(), rebuilt->blocks);
    // Discarded blocks may have come back.
    for (const auto& [block, content] : before)
      EXPECT_TRUE(after.contains(block) && after[block] == content) << "block " << block;
  }
}

TEST_F(VolumeRebuild, LeavesAVaultDatabaseThatIsThereAsGoodAsItWas) {
  fs::copy(vault_->database(), directory_ / "copy.db");
  for (const char* name : {"first", "second"}) {
    const auto rebuilt = Volume::rebuild(*vault_, keys_, options_, directory_ / name);
    ASSERT_GOOD(rebuilt);
    EXPECT_TRUE(rebuilt->former_was_last);
  }
  std::map<BlockId, Bytes> contents;
  ASSERT_NO_FATAL_FAILURE(read_all(contents));
  EXPECT_GE(contents.size(), 3u);
  // An older copy does not count, and is still refused.
  lose_database();
  fs::rename(directory_ / "copy.db", vault_->database());
  const auto rebuilt = Volume::rebuild(*vault_, keys_, options_, directory_ / "third");
  ASSERT_GOOD(rebuilt);
  EXPECT_FALSE(rebuilt->former_was_last);
  const auto opened = Volume::open(*vault_, keys_, options_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
}

}  // namespace
}  // namespace s3oram
