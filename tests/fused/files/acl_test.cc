// Tests access control lists through FileSystem: their format, their modes, and their inheritance.
#include "fused/files/acl.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>

#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

const std::string kAccess(kAccessAcl), kDefault(kDefaultAcl);

struct Part {
  unsigned tag, permissions;
  std::uint32_t id = ~0u;
};

std::string list_of(const std::vector<Part>& parts) {
  std::string text("\2\0\0\0", 4);
  for (const Part& part : parts) {
    for (const unsigned number : {part.tag, part.permissions}) {
      text.push_back(static_cast<char>(number));
      text.push_back(static_cast<char>(number >> 8));
    }
    for (int i = 0; i < 32; i += 8) text.push_back(static_cast<char>(part.id >> i));
  }
  return text;
}

std::string extended(unsigned user, unsigned mask, std::uint32_t id = 1000) {
  return list_of({{1, 7}, {2, user, id}, {4, 5}, {0x10, mask}, {0x20, 1}});
}

class AclTest : public FileSystemFixture {
 protected:
  std::uint32_t mode_of(Ino ino) { return fs->getattr(ino)->st_mode & 07777; }
  /// Returns the list, or "" if there is none.
  std::string list(Ino ino, const std::string& name) {
    const auto found = fs->get_xattr(ino, name);
    if (found) return *found;
    EXPECT_EQ(found.error(), ENODATA);
    return {};
  }
};

TEST_F(AclTest, AnAttributeIsReadAndWrittenAsItIs) {
  const std::string text = extended(6, 4, 0x01020304);
  EXPECT_EQ(Acl::parse(text)->attribute(), text);
  EXPECT_FALSE(Acl::parse(text)->is_minimal());
  EXPECT_EQ(Acl::parse(text)->mode(S_IFREG | 04000), S_IFREG | 04741u);
}

TEST_F(AclTest, NoPartOfAnAttributeIsOne) {
  const std::string text = extended(6, 4);
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(Acl::parse(text.substr(0, size))) << size;
  EXPECT_FALSE(Acl::parse(text + '\0'));
}

TEST_F(AclTest, NoFlippedBitGoesBeyondTheRules) {
  const std::string text = extended(6, 4);
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    const auto acl = Acl::parse(changed);
    EXPECT_EQ(acl ? acl->attribute().size() : text.size(), text.size());
    if (!acl) {
      EXPECT_EQ(acl.error(), EINVAL);
    }
  }
}

TEST_F(AclTest, AMinimalListIsKeptInTheModeAlone) {
  const Ino ino = create("a");
  ASSERT_TRUE(fs->set_xattr(ino, kAccess, extended(6, 6), 0));
  EXPECT_EQ(mode_of(ino), 0761u);
  EXPECT_EQ(list(ino, kAccess), extended(6, 6));
  ASSERT_TRUE(fs->set_xattr(ino, kAccess, list_of({{1, 6}, {4, 4}, {0x20, 0}}), 0));
  EXPECT_EQ(mode_of(ino), 0640u);
  EXPECT_EQ(list(ino, kAccess), "");
  EXPECT_TRUE(fs->list_xattrs(ino)->empty());
}

TEST_F(AclTest, ChangingTheModeChangesTheMask) {
  const Ino ino = create("a");
  ASSERT_TRUE(fs->set_xattr(ino, kAccess, extended(7, 7), 0));
  AttributeChange change;
  change.mode = 0640;
  ASSERT_TRUE(fs->setattr(ino, change));
  remount();
  EXPECT_EQ(list(find("a"), kAccess),
            list_of({{1, 6}, {2, 7, 1000}, {4, 5}, {0x10, 4}, {0x20, 0}}));
  EXPECT_EQ(mode_of(find("a")), 0640u);
}

TEST_F(AclTest, NewNodesInheritInsteadOfTheUmask) {
  const Ino directory = create("d", S_IFDIR | 0755);
  ASSERT_TRUE(fs->set_xattr(directory, kDefault, extended(6, 7), 0));
  remount();
  const Caller caller{0, 0, 077};
  const Ino parent = find("d");
  const auto file = fs->make(caller, parent, "f", {S_IFREG | 0666, 0, {}});
  const auto inner = fs->make(caller, parent, "d", {S_IFDIR | 0777, 0, {}});
  const auto link = fs->make(caller, parent, "l", {S_IFLNK | 0777, 0, "x"});
  const auto unnamed = fs->make_unnamed(caller, parent, S_IFREG | 0600);
  ASSERT_TRUE(file && inner && link && unnamed);
  ASSERT_TRUE(fs->link(unnamed->st_ino, parent, "u"));
  remount();
  const Ino in = find("d");
  EXPECT_EQ(mode_of(find("f", in)), 0660u);
  EXPECT_EQ(list(find("f", in), kAccess),
            list_of({{1, 6}, {2, 6, 1000}, {4, 5}, {0x10, 6}, {0x20, 0}}));
  EXPECT_EQ(list(find("f", in), kDefault), "");
  EXPECT_EQ(mode_of(find("d", in)), 0771u);
  EXPECT_EQ(list(find("d", in), kDefault), extended(6, 7));
  EXPECT_EQ(mode_of(find("l", in)), 0777u);
  EXPECT_EQ(mode_of(find("u", in)), 0600u);
  EXPECT_EQ(list(find("u", in), kAccess),
            list_of({{1, 6}, {2, 6, 1000}, {4, 5}, {0x10, 0}, {0x20, 0}}));
}

TEST_F(AclTest, WithoutADefaultTheUmaskHolds) {
  const auto made = fs->make({0, 0, 027}, kRootIno, "f", {S_IFREG | 0666, 0, {}});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->st_mode & 07777, 0640u);
}

TEST_F(AclTest, WhatCannotHaveAListIsRefused) {
  const Ino file = create("f"),
            link = fs->make({}, kRootIno, "l", {S_IFLNK | 0777, 0, "f"})->st_ino;
  EXPECT_EQ(fs->set_xattr(file, kDefault, extended(6, 6), 0).error(), EACCES);
  EXPECT_EQ(fs->set_xattr(link, kAccess, extended(6, 6), 0).error(), EOPNOTSUPP);
  EXPECT_EQ(fs->set_xattr(file, kAccess, "v", 0).error(), EINVAL);
  EXPECT_EQ(fs->set_xattr(file, "system.other", "v", 0).error(), EOPNOTSUPP);
  EXPECT_TRUE(fs->remove_xattr(file, kAccess));
}

TEST_F(AclTest, AStrangerToTheGroupClearsItsBit) {
  const Ino ino = create("f", S_IFREG | 02771);
  ASSERT_TRUE(fs->set_xattr(ino, kAccess, extended(6, 6), 0, true));
  EXPECT_EQ(mode_of(ino), 02761u);
  ASSERT_TRUE(fs->set_xattr(ino, kAccess, extended(6, 6), 0, false));
  EXPECT_EQ(mode_of(ino), 0761u);
}

TEST_F(AclTest, IdsAreTranslatedAndStrangersDropped) {
  auto acl =
      *Acl::parse(list_of({{1, 7}, {2, 6, 1}, {2, 5, 2}, {4, 5}, {8, 4, 3}, {0x10, 7}, {0x20, 0}}));
  const auto user = [](std::uint32_t id) { return id == 1 ? 1001u : ~0u; };
  const auto group = [](std::uint32_t id) { return id + 10; };
  EXPECT_TRUE(acl.translate(user, group));
  EXPECT_EQ(acl.attribute(),
            list_of({{1, 7}, {2, 6, 1001}, {4, 5}, {8, 4, 13}, {0x10, 7}, {0x20, 0}}));
}

}  // namespace
}  // namespace s3oram
