// Tests the thread that ends migrations: what it says if an end fails, and how it leaves the files.
#include "fused/daemon/migration_watch.h"

#include <atomic>

#include "tests/base/good.h"
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

/// A volume whose blocks have all moved. Only the functions that the watch uses do anything.
class MovedVolume final : public Volume {
 public:
  explicit MovedVolume(BlockDevice& device) : device_(device) {}
  VolumeStatus status() override {
    VolumeStatus status;
    if (!ended) status.migration = std::make_shared<MigrationStatus>();
    return status;
  }
  Status end_migration() override {
    ++ends;
    if (hindered) return fail(Errc::failed, "vault.json cannot be replaced");
    ended = true;
    return {};
  }
  Status reopen() override { return {}; }
  void begin_copying() override {}

  BlockDevice& device() override { return device_; }
  Result<std::vector<Party>> replace_server(Party, const ServerAddress&) override {
    return std::vector<Party>();
  }
  std::vector<std::vector<LinkTraffic>> server_traffic() override { return {}; }
  void begin_scrub() override {}
  Status begin_migration(std::uint64_t) override { return {}; }
  Status set_migration_rate(std::uint64_t) override { return {}; }
  std::optional<VolumeParams> local() const override { return std::nullopt; }
  Status close() override { return {}; }

  std::atomic<int> ends = 0;
  std::atomic<bool> ended = false, hindered = false;

 private:
  BlockDevice& device_;
};

class MigrationWatchTest : public FileSystemFixture {
 protected:
  void SetUp() override {
    options.back_up_every = std::chrono::hours(1);
    FileSystemFixture::SetUp();
    create("file");
    ASSERT_TRUE(fs->sync_all());
    volume_ = std::make_unique<MovedVolume>(*device);
  }
  void TearDown() override {
    watch_.reset();
    FileSystemFixture::TearDown();
  }
  void watch() {
    auto watch = MigrationWatch::start(*volume_, *fs);
    ASSERT_GOOD(watch);
    watch_ = std::move(*watch);
  }
  /// Waits until the watch has said why the migration does not end.
  EndOfMigration failure() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (watch_->end().failure.empty() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return watch_->end();
  }
  void await_end() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!volume_->ended && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(volume_->ended);
  }
  static void expect_words(const EndOfMigration& end, const std::string& words) {
    EXPECT_TRUE(end.failure.starts_with("all blocks have moved, but the migration does not end: "))
        << end.failure;
    EXPECT_NE(end.failure.find(words), std::string::npos) << end.failure;
  }

  std::unique_ptr<MovedVolume> volume_;
  std::unique_ptr<MigrationWatch> watch_;
};

TEST_F(MigrationWatchTest, EndsItAfterABackup) {
  ASSERT_NO_FATAL_FAILURE(watch());
  await_end();
  EXPECT_TRUE(fs->status().backup.current);
  EXPECT_EQ(watch_->end().failure, "");
}

TEST_F(MigrationWatchTest, SaysWhyItDoesNotEndAndTriesAgain) {
  volume_->hindered = true;
  ASSERT_NO_FATAL_FAILURE(watch());
  const EndOfMigration end = failure();
  expect_words(end, "vault.json cannot be replaced; it will be retried");
  EXPECT_TRUE(end.is_retried);
  volume_->hindered = false;
  await_end();
  while (!watch_->end().failure.empty()) std::this_thread::yield();
  EXPECT_GE(volume_->ends, 2);
}

TEST_F(MigrationWatchTest, AReadOnlyMountDoesNotEndIt) {
  unmount();
  options.read_only = true;
  mount();
  volume_ = std::make_unique<MovedVolume>(*device);
  ASSERT_NO_FATAL_FAILURE(watch());
  const EndOfMigration end = failure();
  expect_words(end, "mount it again without");
  EXPECT_FALSE(end.is_retried);
  EXPECT_EQ(volume_->ends, 0);
}

TEST_F(MigrationWatchTest, ABackupThatFailsKeepsItFromEnding) {
  device->fail_writes(true);
  ASSERT_NO_FATAL_FAILURE(watch());
  const EndOfMigration end = failure();
  expect_words(end, "the names must be backed up first, but that fails: Input/output error");
  EXPECT_TRUE(end.is_retried);
  EXPECT_EQ(volume_->ends, 0);
  device->fail_writes(false);
  await_end();
}

TEST_F(MigrationWatchTest, WithoutRoomForTheNamesItSaysWhatToDo) {
  device->fill_up(true);
  ASSERT_NO_FATAL_FAILURE(watch());
  expect_words(failure(), "there is no room: delete files");
  device->fill_up(false);
  await_end();
}

// An unmount does not wait until all names are backed up.
TEST_F(MigrationWatchTest, LeavesTheFilesInTheMiddleOfABackup) {
  for (unsigned i = 0; i < 2000; ++i) create(std::to_string(i) + std::string(200, 'n'));
  ASSERT_TRUE(fs->sync_all());
  device->hold_writes(true);
  ASSERT_NO_FATAL_FAILURE(watch());
  ASSERT_TRUE(device->wait_held_writes(3));
  std::atomic<bool> left = false;
  std::thread leaves([&] {
    watch_->leave_files();
    left = true;
  });
  // Releases one block after the other, so slowly that the thread begins long before the last one.
  for (; !left; device->release_write()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  leaves.join();
  device->hold_writes(false);
  EXPECT_FALSE(fs->status().backup.exists);
  EXPECT_EQ(volume_->ends, 0);
  EXPECT_EQ(watch_->end().failure, "");
}

}  // namespace
}  // namespace s3oram
