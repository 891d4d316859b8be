// Tests a file system that ends while the kernel keeps the mount, and the next one, which takes
// over.
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class SuspendTest : public FileSystemFixture {
 protected:
  /// Does what happens between a lock and an unlock.
  void resume() {
    auto kept = fs->suspend();
    ASSERT_TRUE(kept) << kept.error().message;
    crash();
    options.references = std::move(*kept);
    mount();
    options.references = {};
  }
};

TEST_F(SuspendTest, TheKernelsNumbersGoOn) {
  const Ino directory = create("d", S_IFDIR | 0755), file = create("f", S_IFREG | 0644, directory);
  write(file, 0, "content");
  resume();
  EXPECT_EQ(read(file), "content");
  EXPECT_TRUE(fs->getattr(directory));
  write(file, 7, "s");
  fs->forget(file, 1);
  EXPECT_EQ(fs->getattr(file).error(), ESTALE);
  remount();
  EXPECT_EQ(fs->getattr(file).error(), ESTALE);
  EXPECT_EQ(read(find("f", find("d"))), "contents");
}

TEST_F(SuspendTest, AnUnlinkedFileKeepsItsDataUntilItIsForgotten) {
  const Ino file = create("f");
  write(file, 0, "content");
  ASSERT_TRUE(fs->unlink(kRootIno, "f"));
  write(file, 7, pattern(3 * kTestBlock));
  resize(file, 10 * kTestBlock);
  const std::string before = read(file);
  resume();
  EXPECT_EQ(read(file), before);
  EXPECT_EQ(fs->getattr(file)->st_size, 10 * kTestBlock);
  EXPECT_EQ(fs->getattr(file)->st_nlink, 0u);
  resume();  // again, with nothing in memory
  EXPECT_EQ(read(file), before);
  EXPECT_GT(device->mapped().size(), 0u);
  fs->forget(file, 1);
  remount();
  EXPECT_EQ(device->mapped().size(), 0u);
}

TEST_F(SuspendTest, AnUnlinkedFileThatWasForgottenMeanwhileIsFreed) {
  const Ino file = create("f");
  write(file, 0, "content");
  ASSERT_TRUE(fs->unlink(kRootIno, "f"));
  auto kept = fs->suspend();
  ASSERT_TRUE(kept);
  crash();
  kept->counts.erase(file);
  options.references = std::move(*kept);
  mount();
  options.references = {};
  EXPECT_EQ(fs->getattr(file).error(), ESTALE);
  remount();
  EXPECT_EQ(device->mapped().size(), 0u);
}

TEST_F(SuspendTest, AFileWithoutANameMayStillGetOne) {
  const auto unnamed = fs->make_unnamed({}, kRootIno, S_IFREG | 0600);
  const Ino unlinked = create("gone");
  ASSERT_TRUE(unnamed && fs->unlink(kRootIno, "gone"));
  write(unnamed->st_ino, 0, "content");
  resume();
  EXPECT_EQ(fs->link(unlinked, kRootIno, "again").error(), ENOENT);
  ASSERT_TRUE(fs->link(unnamed->st_ino, kRootIno, "named"));
  remount();
  EXPECT_EQ(read(find("named")), "content");
}

TEST_F(SuspendTest, AnOrdinaryMountFreesWhatWasKept) {
  const Ino file = create("f");
  write(file, 0, "content");
  ASSERT_TRUE(fs->unlink(kRootIno, "f"));
  ASSERT_TRUE(fs->suspend());
  crash();
  mount();
  remount();
  EXPECT_EQ(device->mapped().size(), 0u);
}

}  // namespace
}  // namespace s3oram
