// Moves an open volume to another one, with real servers. Tests what is proved before the current
// volume is given up, how the migration ends, and what is repaired or rebuilt meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "oramcore/vault/credential.h"
#include "oramcore/volume/volume.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"
#include "tests/volume/moving_volumes.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;
using test::kBlock;
using test::kMatrix;
using test::kRing;
using test::local_config;

constexpr BlockId kBlocks = 20;
class MovingVolume : public testing::Test {
 protected:
  ~MovingVolume() override {
    volume_.reset();
    fs::current_path("/");
  }
  /// Makes a vault with blocks, and a volume in next/.
  void make(const VolumeParams& from, const VolumeParams& to) {
    options_.serverd = SERVERD;
    auto made = Vault::create(root_ / "v", local_config(from, 1), Credential{}, random_);
    ASSERT_GOOD(made);
    vault_.emplace(std::move(*made));
    ASSERT_GOOD(vault_->lock());
    const auto keys = vault_->unlock(Credential{});
    ASSERT_GOOD(keys);
    keys_ = *keys;
    ASSERT_GOOD(Volume::create(*vault_, keys_, options_));
    auto next = vault_->make_next(local_config(to, 2));
    ASSERT_GOOD(next);
    ASSERT_GOOD(Volume::create(*next, keys_.of(next->config()), options_));
    ASSERT_NO_FATAL_FAILURE(open());
    for (BlockId block = 0; block < kBlocks; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 1));
    ASSERT_NO_FATAL_FAILURE(commit());
  }
  void open() {
    auto volume = Volume::open(*vault_, keys_, options_);
    ASSERT_GOOD(volume);
    volume_ = std::move(*volume);
  }
  void close() {
    ASSERT_GOOD(volume_->close());
    volume_.reset();
  }
  static Bytes pattern(BlockId block, std::uint8_t generation) {
    Bytes content(kBlock, static_cast<std::uint8_t>(block));
    content[0] = generation;
    return content;
  }
  void write(BlockId block, std::uint8_t generation) {
    std::promise<Status> done;
    volume_->device().write(block, pattern(block, generation),
                            [&](Status status) { done.set_value(std::move(status)); });
    ASSERT_GOOD(done.get_future().get());
    newest_[block] = generation;
  }
  void commit() {
    std::promise<Status> done;
    volume_->device().commit([&](Status status) { done.set_value(std::move(status)); });
    ASSERT_GOOD(done.get_future().get());
  }
  void expect_intact() {
    for (const auto& [block, generation] : newest_) {
      std::promise<Result<Bytes>> done;
      volume_->device().read(block, [&](Result<Bytes> read) { done.set_value(std::move(read)); });
      const auto content = done.get_future().get();
      ASSERT_GOOD(content);
      ASSERT_EQ(*content, pattern(block, generation)) << "block " << block;
    }
  }
  void await_moved() {
    volume_->begin_copying();
    while (volume_->status().migration->left > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  /// Loses the database of the source, or that of the volume itself.
  void lose_database(const fs::path& directory) {
    for (const char* tail : {"", "-wal", "-shm", "-ballast"})
      fs::remove(directory / (std::string("vault.db") + tail));
  }

  TemporaryDirectory root_;
  SystemRandom random_;
  VolumeOptions options_;
  std::optional<Vault> vault_;  // locked
  VaultKeys keys_;
  std::unique_ptr<Volume> volume_;
  std::map<BlockId, std::uint8_t> newest_;
};

// vault.json decides the end. Until it says so, the end can be tried again.
TEST_F(MovingVolume, EndsWhenVaultJsonSaysSo) {
  ASSERT_NO_FATAL_FAILURE(make(kRing, kMatrix));
  EXPECT_EQ(volume_->status().migration, nullptr);
  ASSERT_GOOD(volume_->begin_migration(0));
  const Status twice = volume_->begin_migration(0);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Errc::vault_in_use);
  ASSERT_TRUE(volume_->status().migration);
  EXPECT_EQ(volume_->status().migration->left, kBlocks);
  EXPECT_FALSE(volume_->end_migration());
  ASSERT_NO_FATAL_FAILURE(write(3, 2));
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  ASSERT_NO_FATAL_FAILURE(await_moved());
  ASSERT_NO_FATAL_FAILURE(commit());
  const fs::path config = vault_->directory() / "vault.json", aside = root_ / "aside";
  fs::rename(config, aside);
  fs::create_directory(config);
  EXPECT_FALSE(volume_->end_migration());
  ASSERT_TRUE(volume_->status().migration);
  EXPECT_TRUE(fs::exists(vault_->source_directory() / "vault.db"));
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  fs::remove(config);
  fs::rename(aside, config);
  ASSERT_GOOD(volume_->end_migration());
  EXPECT_EQ(volume_->status().migration, nullptr);
  EXPECT_FALSE(Vault::find(vault_->directory())->config().source);
  EXPECT_FALSE(fs::exists(vault_->source_directory() / "vault.db"));
  EXPECT_TRUE(fs::exists(vault_->source_directory() / "servers" / "1"));
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  ASSERT_NO_FATAL_FAILURE(close());
  ASSERT_NO_FATAL_FAILURE(open());
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  ASSERT_NO_FATAL_FAILURE(close());
}

TEST_F(MovingVolume, StaysWhereItIsIfTheNewOneCannotBeOpened) {
  ASSERT_NO_FATAL_FAILURE(make(kMatrix, kRing));
  const fs::path store = vault_->next_directory() / "servers" / "1", aside = root_ / "aside";
  ASSERT_NO_FATAL_FAILURE(write(3, 2));
  fs::rename(store, aside);
  fs::create_directory(store);
  EXPECT_FALSE(volume_->begin_migration(0));
  EXPECT_EQ(volume_->status().migration, nullptr);
  EXPECT_FALSE(Vault::find(vault_->directory())->config().source);
  EXPECT_FALSE(fs::exists(vault_->source_directory()));
  ASSERT_NO_FATAL_FAILURE(write(4, 2));
  ASSERT_NO_FATAL_FAILURE(commit());
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  fs::remove_all(store);
  fs::rename(aside, store);
  ASSERT_GOOD(volume_->begin_migration(0));
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  ASSERT_NO_FATAL_FAILURE(close());
}

// Blocks that are still at the source need everything that a repair restores.
TEST_F(MovingVolume, AServerOfTheSourceIsRepaired) {
  ASSERT_NO_FATAL_FAILURE(make(kMatrix, kRing));
  ASSERT_GOOD(volume_->begin_migration(0));
  ASSERT_NO_FATAL_FAILURE(write(3, 2));
  ASSERT_NO_FATAL_FAILURE(close());
  Vault source = vault_->source();
  fs::remove_all(source.store(2));
  ASSERT_FALSE(Volume::open(*vault_, keys_, options_));
  const auto repaired = Volume::repair(source, keys_, options_, {2});
  ASSERT_GOOD(repaired);
  EXPECT_EQ(repaired->reenrolled, std::set<Party>{2});
  ASSERT_NO_FATAL_FAILURE(open());
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  ASSERT_NO_FATAL_FAILURE(await_moved());
  ASSERT_NO_FATAL_FAILURE(close());
}

TEST_F(MovingVolume, BothPartsOfALostVaultDbAreRebuilt) {
  ASSERT_NO_FATAL_FAILURE(make(kRing, kMatrix));
  ASSERT_GOOD(volume_->begin_migration(0));
  ASSERT_NO_FATAL_FAILURE(write(3, 2));
  ASSERT_NO_FATAL_FAILURE(close());
  const fs::path made = vault_->database().string() + ".restoring";
  lose_database(vault_->directory());
  lose_database(vault_->source_directory());
  const auto rebuilt = Volume::rebuild(*vault_, keys_, options_, made);
  ASSERT_GOOD(rebuilt);
  EXPECT_GE(rebuilt->blocks, kBlocks);
  fs::rename(made, vault_->database());
  ASSERT_NO_FATAL_FAILURE(open());
  ASSERT_TRUE(volume_->status().migration);
  ASSERT_NO_FATAL_FAILURE(expect_intact());
  ASSERT_NO_FATAL_FAILURE(close());
}

// The source has older content of a block that is lost at the new servers. It must not come back
// unnoticed.
TEST_F(MovingVolume, ARebuildDoesNotTakeOlderContentsUnseen) {
  ASSERT_NO_FATAL_FAILURE(make(kMatrix, kRing));
  ASSERT_GOOD(volume_->begin_migration(0));
  for (BlockId block = 0; block < kBlocks; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 2));
  ASSERT_NO_FATAL_FAILURE(close());
  std::uint64_t spoilt = 0;
  for (const auto& file : fs::recursive_directory_iterator(vault_->store(1))) {
    if (!file.is_regular_file() || file.file_size() < 16 * kBlock) continue;
    if (file.path().extension() != "") continue;
    const int descriptor = ::open(file.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    // Damages more rows of some buckets than their parity rows can restore, but so few in all that
    // hardly any of the slots is hit by which the server sees whether the file is its newest.
    const Bytes noise(3 * kBlock, 0x5a);
    for (std::uint64_t at = 4 * kBlock; at + noise.size() < file.file_size(); at += 36 * kBlock)
      ASSERT_EQ(::pwrite(descriptor, noise.data(), noise.size(), static_cast<off_t>(at)),
                static_cast<ssize_t>(noise.size()));
    ::close(descriptor);
    ++spoilt;
  }
  ASSERT_GT(spoilt, 0u);
  const fs::path made = vault_->database().string() + ".restoring";
  const auto refused = Volume::rebuild(*vault_, keys_, options_, made);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::damaged_vault) << refused.error().message;
  EXPECT_NE(refused.error().message.find("--accept-older"), std::string::npos);
  fs::remove(made);
  options_.accept_older = true;
  ASSERT_GOOD(Volume::rebuild(*vault_, keys_, options_, made));
}

}  // namespace
}  // namespace s3oram
