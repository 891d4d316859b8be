// Compares files in a FileSystem with a model.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class FileTest : public FileSystemFixture {};

TEST_F(FileTest, SmallFileSurvivesARemount) {
  write(create("a"), 0, "hello");
  remount();
  const Ino ino = find("a");
  EXPECT_EQ(read(ino), "hello");
  EXPECT_EQ(fs->getattr(ino)->st_blocks, 1);
}

TEST_F(FileTest, BeyondTheValidBytesReadsZero) {
  const Ino ino = create("a");
  write(ino, 0, std::string(3 * kTestBlock, 'x'));
  sync(ino);
  resize(ino, kTestBlock + 10);
  resize(ino, 3 * kTestBlock);
  const std::string expected =
      std::string(kTestBlock + 10, 'x') + std::string(2 * kTestBlock - 10, '\0');
  EXPECT_EQ(read(ino), expected);
  remount();
  EXPECT_EQ(read(find("a")), expected);
  write(find("a"), kTestBlock + 20, "y");
  std::string changed = expected;
  changed[kTestBlock + 20] = 'y';
  remount();
  EXPECT_EQ(read(find("a")), changed);
}

TEST_F(FileTest, TruncatingToThePresentSizeMovesNoTimes) {
  const Ino ino = create("a");
  write(ino, 0, "text");
  const auto times = [&] {
    const auto found = *fs->getattr(ino);
    return std::pair(found.st_mtim.tv_sec, found.st_ctim.tv_sec);
  };
  AttributeChange back;
  back.mtime = back.ctime = 1'000'000'000;
  ASSERT_TRUE(fs->setattr(ino, back));
  resize(ino, 4);
  EXPECT_EQ(times(), std::pair(time_t{1}, time_t{1}));
  resize(ino, 3);
  EXPECT_GT(times().first, 1);
  EXPECT_GT(times().second, 1);
}

TEST_F(FileTest, TruncatingWhileTheBlockIsWrittenKeepsItShort) {
  const Ino ino = create("a");
  write(ino, 0, std::string(2 * kTestBlock, 'x'));
  device->hold_writes(true);
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(2));
  resize(ino, 100);
  resize(ino, 2 * kTestBlock);
  device->hold_writes(false);
  syncing.join();
  const std::string expected = std::string(100, 'x') + std::string(2 * kTestBlock - 100, '\0');
  EXPECT_EQ(read(ino), expected);
  remount();
  EXPECT_EQ(read(find("a")), expected);
  EXPECT_EQ(fs->getattr(find("a"))->st_blocks, kTestBlock / 512);
}

TEST_F(FileTest, ChangesDuringAWriteAreWrittenAgain) {
  const Ino ino = create("a");
  write(ino, 0, "first");
  device->hold_writes(true);
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(1));
  write(ino, 0, "other");
  device->hold_writes(false);
  syncing.join();
  remount();
  EXPECT_EQ(read(find("a")), "other");
}

TEST_F(FileTest, RemovingAFileWhileItIsWrittenFreesItsBlocks) {
  const Ino ino = create("a");
  write(ino, 0, std::string(2 * kTestBlock, 'x'));
  device->hold_writes(true);
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(2));
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  resize(ino, 0);
  device->hold_writes(false);
  syncing.join();
  fs->forget(ino, 1);
  remount();
  EXPECT_TRUE(device->mapped().empty());
}

/// The content of a file, as a string.
struct Model {
  std::string text;
  void write(std::size_t at, const std::string& in) {
    if (text.size() < at + in.size()) text.resize(at + in.size());
    text.replace(at, in.size(), in);
  }
  void zero(std::size_t at, std::size_t length) {
    for (std::size_t i = at; i < std::min(text.size(), at + length); ++i) text[i] = '\0';
  }
};

TEST_F(FileTest, RandomOperationsMatchAModel) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::map<std::string, Model> models;
    const std::size_t longest = 12 * kTestBlock;
    for (int step = 0; step < 1500; ++step) {
      const std::string name = "f" + std::to_string(below(4));
      if (!models.contains(name)) {
        create(name);
        models[name];
      }
      Model& model = models[name];
      const Ino ino = find(name);
      const std::size_t at = below(longest), length = 1 + below(3 * kTestBlock);
      switch (below(12)) {
        case 0:
        case 1:
        case 2:
        case 3: {
          const std::string text = pattern(length, random());
          write(ino, at, text);
          model.write(at, text);
          break;
        }
        case 4:
          resize(ino, at);
          model.text.resize(at);
          break;
        case 5:
          EXPECT_TRUE(fs->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length));
          model.zero(at, length);
          break;
        case 6:
          EXPECT_TRUE(fs->fallocate(ino, FALLOC_FL_ZERO_RANGE, at, length));
          if (model.text.size() < at + length) model.text.resize(at + length);
          model.zero(at, length);
          break;
        case 7:
          sync(ino);
          break;
        case 8:
          EXPECT_TRUE(fs->sync_all());
          break;
        case 9:
          if (below(4) == 0) {
            EXPECT_TRUE(fs->unlink(kRootIno, name));
            fs->forget(ino, ~std::uint64_t{0});
            models.erase(name);
          }
          break;
        case 10:
          if (below(10) == 0) remount();
          break;
        default:
          ASSERT_EQ(read(ino, at, length),
                    at < model.text.size() ? model.text.substr(at, length) : "");
      }
    }
    remount();
    for (const auto& [name, model] : models) {
      ASSERT_EQ(read(find(name)), model.text) << name;
      EXPECT_TRUE(fs->unlink(kRootIno, name));
      fs->forget(find(name), 1);
    }
    remount();
    EXPECT_TRUE(device->mapped().empty());
    EXPECT_EQ(fs->status().inodes, 1u);
  }
}

TEST_F(FileTest, ManyThreadsOnManyFiles) {
  unmount();
  options.commit_every = std::chrono::milliseconds(2);
  options.cache.limit = 64 * kTestBlock;
  mount();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const std::string name = "f" + std::to_string(t);
      const Ino ino = create(name);
      std::mt19937 random(t);
      Model model;
      for (int step = 0; step < 300; ++step) {
        const std::size_t at = random() % (40 * kTestBlock);
        const std::string text = pattern(1 + random() % (2 * kTestBlock), random());
        write(ino, at, text);
        model.write(at, text);
        if (step % 50 == 49) {
          const std::size_t size = random() % (40 * kTestBlock);
          resize(ino, size);
          model.text.resize(size);
        }
        if (step % 20 == 0) sync(ino);
        const std::size_t from = random() % (40 * kTestBlock);
        EXPECT_EQ(read(ino, from, 5000),
                  from < model.text.size() ? model.text.substr(from, 5000) : "");
      }
      EXPECT_EQ(read(ino), model.text);
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(FileTest, SeekFindsDataAndHoles) {
  const Ino ino = create("a");
  write(ino, 2 * kTestBlock, std::string(kTestBlock, 'x'));
  write(ino, 5 * kTestBlock, std::string(100, 'x'));
  resize(ino, 8 * kTestBlock);
  for (int flushed = 0; flushed < 2; ++flushed) {
    EXPECT_EQ(*fs->seek(ino, 0, SEEK_DATA), 2 * kTestBlock);
    EXPECT_EQ(*fs->seek(ino, 0, SEEK_HOLE), 0u);
    EXPECT_EQ(*fs->seek(ino, 2 * kTestBlock + 5, SEEK_HOLE), 3 * kTestBlock);
    EXPECT_EQ(*fs->seek(ino, 3 * kTestBlock, SEEK_DATA), 5 * kTestBlock);
    EXPECT_EQ(*fs->seek(ino, 5 * kTestBlock, SEEK_HOLE), 5 * kTestBlock + 100);
    EXPECT_EQ(fs->seek(ino, 5 * kTestBlock + 100, SEEK_DATA).error(), ENXIO);
    EXPECT_EQ(fs->seek(ino, 8 * kTestBlock, SEEK_DATA).error(), ENXIO);
    sync(ino);
  }
}

TEST_F(FileTest, NamesFollowPosix) {
  const Ino dir = create("dir", S_IFDIR | 02755);
  const Ino inner = create("inner", S_IFDIR | 0755, dir);
  EXPECT_TRUE((fs->getattr(inner)->st_mode & S_ISGID) != 0);
  EXPECT_EQ(fs->getattr(kRootIno)->st_nlink, 3u);
  EXPECT_EQ(fs->rmdir(kRootIno, "dir").error(), ENOTEMPTY);
  EXPECT_EQ(fs->unlink(kRootIno, "dir").error(), EISDIR);
  EXPECT_EQ(fs->lookup(kRootIno, std::string(256, 'n')).error(), ENAMETOOLONG);
  EXPECT_EQ(fs->getattr(99).error(), ESTALE);
  const Ino file = create("file");
  EXPECT_EQ(fs->rmdir(kRootIno, "file").error(), ENOTDIR);
  EXPECT_EQ(fs->lookup(file, "x").error(), ENOTDIR);
  EXPECT_EQ(fs->rename(kRootIno, "file", kRootIno, "dir", 0).error(), EISDIR);
  EXPECT_EQ(fs->rename(kRootIno, "dir", kRootIno, "file", 0).error(), ENOTDIR);
  EXPECT_EQ(fs->rename(kRootIno, "file", kRootIno, "dir", RENAME_NOREPLACE).error(), EEXIST);
  EXPECT_EQ(*fs->rename(dir, "inner", kRootIno, "moved", 0), std::vector{inner});
  EXPECT_EQ(fs->getattr(kRootIno)->st_nlink, 4u);
  EXPECT_EQ(fs->getattr(dir)->st_nlink, 2u);
  EXPECT_TRUE(fs->rename(kRootIno, "moved", kRootIno, "file", RENAME_EXCHANGE));
  remount();
  EXPECT_EQ(find("moved"), file);
  EXPECT_EQ(find("file"), inner);
  EXPECT_TRUE(fs->rename(kRootIno, "file", kRootIno, "dir", 0));
  EXPECT_EQ(find("dir"), inner);
  EXPECT_EQ(fs->getattr(kRootIno)->st_nlink, 3u);
  EXPECT_EQ(fs->status().inodes, 3u);
}

}  // namespace
}  // namespace s3oram
