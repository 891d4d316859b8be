// Tests the parts of a file system, each without the parts that it does not need.
#include <sys/xattr.h>

#include "fused/files/directories.h"
#include "fused/files/file_acls.h"
#include "fused/files/inode_allocator.h"
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

// ---- numbers -----------------------------------------------------------------------------------

TEST(InodeAllocator, ANumberIsReadyOnlyAfterTheCommitThatReservesIt) {
  InodeAllocator numbers;
  numbers.reset(7, 0);
  EXPECT_EQ(numbers.next(), 8u);
  EXPECT_FALSE(numbers.is_ready());
  EXPECT_EQ(numbers.begin_commit(false), std::nullopt);  // nobody makes an inode
  numbers.end_commit(true);
  numbers.want();
  EXPECT_EQ(numbers.begin_commit(false), 8 + kReservedAtOnce);
  EXPECT_FALSE(numbers.is_ready());
  numbers.end_commit(false);
  EXPECT_FALSE(numbers.is_ready());
  EXPECT_EQ(numbers.begin_commit(false), 8 + kReservedAtOnce);
  numbers.end_commit(true);
  EXPECT_TRUE(numbers.is_ready());
}

TEST(InodeAllocator, ReservesAgainBeforeTheNumbersRunOut) {
  InodeAllocator numbers;
  numbers.reset(1, 100);
  numbers.want();
  EXPECT_EQ(numbers.next(), 100u);
  EXPECT_EQ(numbers.begin_commit(false), 100 + kReservedAtOnce);
  numbers.end_commit(true);
  EXPECT_EQ(numbers.begin_commit(false), std::nullopt);
  numbers.end_commit(true);
  for (Ino taken = 0; taken <= kReservedAtOnce / 2; ++taken) numbers.take();
  EXPECT_EQ(numbers.begin_commit(false), numbers.next() + kReservedAtOnce);
}

TEST(InodeAllocator, TheLastCommitGivesUnusedNumbersBack) {
  InodeAllocator numbers;
  numbers.reset(1, 0);
  numbers.want();
  std::ignore = numbers.begin_commit(false);
  numbers.end_commit(true);
  numbers.take();
  EXPECT_EQ(numbers.begin_commit(true), 3u);
  numbers.end_commit(true);
  EXPECT_FALSE(numbers.is_ready());
}

// ---- names and attributes, on tables in memory
// ---------------------------------------------------

class PartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string database = (folder.path() / "vault.db").string();
    device.emplace(database, kTestBlock);
    state.emplace(*device, FileSystemOptions());
    backups.emplace(state->mutex, *device, state->cache, state->metadata.damage, state->timing);
    commits.emplace(*state, numbers, *backups);
    inodes.emplace(*state, numbers, *commits);
    auto tables = Database::open(database, Database::Mode::create);
    ASSERT_TRUE(tables);
    ASSERT_TRUE(state->metadata.open(database));
    ASSERT_TRUE(state->metadata.begin_commit()(*tables));
    state->metadata.end_commit(true);
    ASSERT_TRUE(state->metadata.open_tables());
    root = &inodes->make_root();
    state->store(*root);
    numbers.reset(kRootIno, 0);
  }
  void TearDown() override { device->stop(); }

  Inodes::NodePtr make(std::uint32_t mode) {
    const auto node = inodes->make({}, *root, {mode, 0, {}});
    inodes->add(node);
    state->store(*node);
    return node;
  }

  TemporaryDirectory folder;
  std::optional<MemoryDevice> device;
  std::optional<FilesState> state;
  InodeAllocator numbers;
  std::optional<Backups> backups;
  std::optional<CommitQueue> commits;
  std::optional<Inodes> inodes;
  Node* root = nullptr;
};

TEST_F(PartsTest, DirectoriesCountLinksAndForgetRemovedNames) {
  Directories names(*state, *inodes);
  const auto inner = make(S_IFDIR | 0755), file = make(S_IFREG | 0644);
  ASSERT_TRUE(names.add(*root, "d", *inner, 1));
  ASSERT_TRUE(names.add(*inner, "f", *file, 1));
  EXPECT_EQ(root->row.nlink, 3u);
  EXPECT_EQ(*names.child(*inner, "f"), file);
  EXPECT_FALSE(*names.is_empty(*inner));
  EXPECT_EQ(names.check_replaceable(*inner, *inner).error(), ENOTEMPTY);
  names.remove(*inner, "f", *file);
  EXPECT_EQ(file->row.nlink, 0u);
  EXPECT_EQ(names.child(*inner, "f").error(), ENOENT);
  EXPECT_TRUE(*names.is_empty(*inner));
  names.remove(*root, "d", *inner);
  EXPECT_EQ(root->row.nlink, 2u);
  EXPECT_EQ(names.add(*inner, "late", *file, 2).error(), ENOENT);  // it is gone
}

TEST_F(PartsTest, AKeptListingFollowsTheNames) {
  Directories names(*state, *inodes);
  const auto first = make(S_IFREG | 0644), second = make(S_IFREG | 0644);
  ASSERT_TRUE(names.add(*root, "a", *first, 1));
  EXPECT_TRUE(names.open(kRootIno));
  EXPECT_EQ(names.list(*root, 0, 100)->size(), 3u);  // includes "." and ".."
  ASSERT_TRUE(names.add(*root, "b", *second, 1));
  names.remove(*root, "a", *first);
  const auto listed = names.list(*root, kPositionOfParent, 100);
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->front().name, "b");
}

TEST_F(PartsTest, AttributesAreKeptByName) {
  Xattrs xattrs(*state);
  ASSERT_TRUE(xattrs.look_for_labels());
  const auto file = make(S_IFREG | 0644);
  EXPECT_EQ(xattrs.get(*file, "user.a").error(), ENODATA);
  EXPECT_EQ(xattrs.get(*file, "security.selinux").error(), EOPNOTSUPP);  // no file has one
  EXPECT_EQ(xattrs.put(*file, "user.a", "1", XATTR_REPLACE).error(), ENODATA);
  ASSERT_TRUE(xattrs.put(*file, "user.a", "1", XATTR_CREATE));
  EXPECT_EQ(xattrs.put(*file, "user.a", "2", XATTR_CREATE).error(), EEXIST);
  EXPECT_EQ(*xattrs.get(*file, "user.a"), "1");
  EXPECT_EQ(*xattrs.names(*file), std::vector<std::string>{"user.a"});
  ASSERT_TRUE(xattrs.erase(*file, "user.a"));
  EXPECT_EQ(file->xattr_names, 0u);
  EXPECT_EQ(Xattrs::check_name("other.a").error(), EOPNOTSUPP);
}

TEST_F(PartsTest, WithoutADefaultListTheUmaskCounts) {
  Xattrs xattrs(*state);
  FileAcls acls(*state, xattrs);
  Caller caller;
  caller.umask = 027;
  const auto inherited = acls.inherit(caller, *root, S_IFREG | 0666);
  ASSERT_TRUE(inherited);
  EXPECT_EQ(inherited->mode, S_IFREG | 0640u);
  EXPECT_TRUE(inherited->lists.empty());
}

}  // namespace
}  // namespace s3oram
