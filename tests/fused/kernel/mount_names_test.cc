// Tests names, attributes and listings, through the kernel.
#include <dirent.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <array>
#include <set>

#include "tests/fused/kernel/mount_fixture.h"

namespace s3oram {
namespace {

TEST_F(MountTest, RenameInAllItsForms) {
  put(root / "a", "a");
  put(root / "b", "b");
  stdfs::create_directories(root / "d/e");
  const auto rename2 = [&](const char* from, const char* to, unsigned flags) {
    return ::renameat2(AT_FDCWD, (root / from).c_str(), AT_FDCWD, (root / to).c_str(), flags) == 0
               ? 0
               : errno;
  };
  EXPECT_EQ(rename2("a", "b", RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(rename2("a", "b", RENAME_EXCHANGE), 0);
  EXPECT_EQ(content(root / "a"), "b");
  EXPECT_EQ(rename2("a", "b", 0), 0);
  EXPECT_EQ(content(root / "b"), "b");
  EXPECT_FALSE(stdfs::exists(root / "a"));
  EXPECT_EQ(rename2("d", "d/e/f", 0), EINVAL);
  EXPECT_EQ(rename2("b", "d", 0), EISDIR);
  EXPECT_EQ(rename2("d/e", "b", 0), ENOTDIR);
  EXPECT_EQ(rename2("d/e", "e", 0), 0);
  EXPECT_EQ(info(root / "d").st_nlink, 2u);
  EXPECT_EQ(info(root).st_nlink, 4u);
  EXPECT_EQ(rename2("missing", "x", 0), ENOENT);
}

TEST_F(MountTest, LinksAndSymlinks) {
  put(root / "a", "text");
  stdfs::create_hard_link(root / "a", root / "b");
  EXPECT_EQ(info(root / "a").st_nlink, 2u);
  EXPECT_EQ(info(root / "a").st_ino, info(root / "b").st_ino);
  stdfs::create_symlink("a", root / "s");
  EXPECT_EQ(info(root / "s").st_size, 1);
  stdfs::remove(root / "a");
  EXPECT_EQ(info(root / "b").st_nlink, 1u);
  remount_kernel();
  EXPECT_EQ(content(root / "b"), "text");
  EXPECT_EQ(stdfs::read_symlink(root / "s"), "a");
  EXPECT_NE(::link((root / "missing").c_str(), (root / "x").c_str()), 0);
}

TEST_F(MountTest, SpecialFiles) {
  EXPECT_EQ(::mkfifo((root / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(::mknod((root / "socket").c_str(), S_IFSOCK | 0600, 0), 0);
  remount_kernel();
  EXPECT_TRUE(S_ISFIFO(info(root / "fifo").st_mode));
  EXPECT_TRUE(S_ISSOCK(info(root / "socket").st_mode));
}

TEST_F(MountTest, DevicesWorkWhereTheyMay) {
  const dev_t null = makedev(1, 3);
  unmount_kernel();
  mount_kernel({"dev"});
  ASSERT_EQ(::mknod((root / "null").c_str(), S_IFCHR | 0666, null), 0);
  put(root / "null", "gone");
  EXPECT_EQ(content(root / "null"), "");
  remount_kernel();
  EXPECT_TRUE(S_ISCHR(info(root / "null").st_mode));
  EXPECT_EQ(info(root / "null").st_rdev, null);
  EXPECT_EQ(::open((root / "null").c_str(), O_RDONLY), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(MountTest, AListingThatTheKernelRemembersIsNeverOld) {
  const auto names = [this](const char* directory) {
    std::set<std::string> all;
    for (const auto& entry : stdfs::directory_iterator(root / directory))
      all.insert(entry.path().filename());
    return all;
  };
  using Names = std::set<std::string>;
  stdfs::create_directory(root / "d");
  stdfs::create_directory(root / "e");
  EXPECT_EQ(names("d"), Names());
  put(root / "d/a", "1");
  EXPECT_EQ(names("d"), Names({"a"}));
  EXPECT_EQ(names("d"), Names({"a"}));
  stdfs::rename(root / "d/a", root / "d/b");
  EXPECT_EQ(names("d"), Names({"b"}));
  stdfs::create_hard_link(root / "d/b", root / "d/c");
  EXPECT_EQ(names("d"), Names({"b", "c"}));
  EXPECT_EQ(names("e"), Names());
  stdfs::rename(root / "d/b", root / "e/b");
  EXPECT_EQ(names("d"), Names({"c"}));
  EXPECT_EQ(names("e"), Names({"b"}));
  stdfs::rename(root / "d/c", root / "e/b");  // two names of one file: nothing happens
  EXPECT_EQ(info(root / "e/b").st_nlink, 2u);
  stdfs::remove(root / "d/c");
  EXPECT_EQ(names("d"), Names());
  EXPECT_EQ(info(root / "e/b").st_nlink, 1u);
}

TEST_F(MountTest, ADirectoryThatWasMovedNamesItsNewParent) {
  const auto parent = [this](const char* directory) -> ino_t {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir((root / directory).c_str()),
                                                   ::closedir);
    while (const dirent* entry = ::readdir(open.get()))
      if (entry->d_name == std::string("..")) return entry->d_ino;
    return 0;
  };
  for (const char* name : {"a", "b", "a/d", "b/e"}) stdfs::create_directory(root / name);
  const ino_t a = info(root / "a").st_ino, b = info(root / "b").st_ino;
  EXPECT_EQ(parent("a/d"), a);
  EXPECT_EQ(parent("b/e"), b);
  stdfs::rename(root / "a/d", root / "b/d");
  EXPECT_EQ(parent("b/d"), b);
  stdfs::rename(root / "b/d", root / "a/d");
  EXPECT_EQ(parent("a/d"), a);
  ASSERT_EQ(::renameat2(AT_FDCWD, (root / "a/d").c_str(), AT_FDCWD, (root / "b/e").c_str(),
                        RENAME_EXCHANGE),
            0);
  EXPECT_EQ(parent("a/d"), a);
  EXPECT_EQ(parent("b/e"), b);
}

TEST_F(MountTest, ALargeDirectory) {
  std::set<std::string> expected;
  stdfs::create_directory(root / "d");
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "file number " + std::to_string(i) + std::string(i % 200, '-');
    expected.insert(name);
    ASSERT_GE(::close(::open((root / "d" / name).c_str(), O_CREAT | O_WRONLY, 0600)), 0);
  }
  for (int again = 0; again < 2; ++again) {
    std::set<std::string> seen;
    for (const auto& entry : stdfs::directory_iterator(root / "d")) {
      EXPECT_TRUE(seen.insert(entry.path().filename()).second) << entry.path();
      EXPECT_EQ(info(entry.path()).st_mode, S_IFREG | 0600u);
    }
    EXPECT_EQ(seen, expected);
    remount_kernel();
  }
  EXPECT_EQ(stdfs::remove_all(root / "d"), 5001u);
  remount_kernel();
  EXPECT_EQ(fs->status().inodes, 1u);
}

// A reader of a directory gets no name twice, and finds all names that exist all the time, whatever
// happens to the kernel's memory of the listing and to other names meanwhile.
TEST_F(MountTest, AListingGoesOnWhereItWas) {
  constexpr int kNames = 2000;
  const auto made = [this](const std::string& name) {
    EXPECT_GE(::close(::open((root / "d" / name).c_str(), O_CREAT | O_WRONLY, 0600)), 0) << name;
  };
  const auto list = [this] {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : stdfs::directory_iterator(root / "d")) ++count;
    return count;
  };
  enum Disturbance { nothing, forgotten, another_reader, removals, count };
  for (int disturbance = nothing; disturbance < count; ++disturbance) {
    SCOPED_TRACE(disturbance);
    stdfs::create_directory(root / "d");
    for (int i = 0; i < kNames; ++i) made("name " + std::to_string(i));
    ASSERT_EQ(list(), kNames);
    ASSERT_EQ(list(), kNames);  // answered from the kernel's memory
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir((root / "d").c_str()),
                                                        ::closedir);
    std::set<std::string> seen;
    const auto next = [&] {
      const dirent* entry = ::readdir(directory.get());
      if (!entry) return false;
      const bool is_new = entry->d_name[0] == '.' || seen.insert(entry->d_name).second;
      EXPECT_TRUE(is_new) << entry->d_name;
      return true;
    };
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(next());
    if (disturbance == forgotten) {
      ASSERT_EQ(::posix_fadvise(::dirfd(directory.get()), 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    if (disturbance == another_reader) {
      made("other");
      stdfs::remove(root / "d/other");
      stdfs::directory_iterator(root / "d");
    }
    if (disturbance == removals) {
      for (const std::string& name : seen) stdfs::remove(root / "d" / name);
      EXPECT_EQ(list(), kNames - static_cast<int>(seen.size()));
    }
    while (next()) continue;
    EXPECT_EQ(seen.size(), std::size_t{kNames});
    stdfs::remove_all(root / "d");
  }
}

TEST_F(MountTest, TimesAndModes) {
  put(root / "a", "x");
  const timespec times[2] = {{1'000'000'000, 123'456'789}, {-5, 987'654'321}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times, 0), 0);
  ASSERT_EQ(::chmod((root / "a").c_str(), 04751), 0);
  remount_kernel();
  const struct stat now = info(root / "a");
  EXPECT_EQ(now.st_atim.tv_sec, 1'000'000'000);
  EXPECT_EQ(now.st_atim.tv_nsec, 123'456'789);
  EXPECT_EQ(now.st_mtim.tv_sec, -5);
  EXPECT_EQ(now.st_mtim.tv_nsec, 987'654'321);
  EXPECT_EQ(now.st_mode, S_IFREG | 04751u);
  // Writing changes the times.
  { std::ofstream(root / "a") << "y"; }
  remount_kernel();
  EXPECT_GT(info(root / "a").st_mtim.tv_sec, 1'600'000'000);
  EXPECT_GT(info(root / "a").st_ctim.tv_sec, 1'600'000'000);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chmod((root / "a").c_str(), 06755), 0);
    ASSERT_EQ(::chown((root / "a").c_str(), 7, 8), 0);
    EXPECT_EQ(info(root / "a").st_uid, 7u);
    EXPECT_EQ(info(root / "a").st_gid, 8u);
    EXPECT_EQ(info(root / "a").st_mode & 07777, 0755u);  // as chown(2) says
  }
}

TEST_F(MountTest, ExtendedAttributes) {
  put(root / "a", "x");
  const std::string path = root / "a";
  EXPECT_EQ(::getxattr(path.c_str(), "user.none", nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
  ASSERT_EQ(::setxattr(path.c_str(), "user.one", "value", 5, XATTR_CREATE), 0);
  ASSERT_EQ(::setxattr(path.c_str(), "user.two", "", 0, 0), 0);
  EXPECT_EQ(::setxattr(path.c_str(), "user.one", "v", 1, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::setxattr(path.c_str(), "user.three", "v", 1, XATTR_REPLACE), -1);
  EXPECT_EQ(errno, ENODATA);
  remount_kernel();
  char value[10], list[100];
  ASSERT_EQ(::getxattr(path.c_str(), "user.one", value, sizeof value), 5);
  EXPECT_EQ(std::string(value, 5), "value");
  EXPECT_EQ(::getxattr(path.c_str(), "user.one", value, 2), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(::listxattr(path.c_str(), list, sizeof list), 18);
  ASSERT_EQ(::removexattr(path.c_str(), "user.one"), 0);
  EXPECT_EQ(::listxattr(path.c_str(), list, sizeof list), 9);
  EXPECT_EQ(::setxattr(path.c_str(), "system.posix_acl_access", "v", 1, 0), -1);
}

TEST_F(MountTest, TimesThatAreNotKeptAreTheNearest) {
  put(root / "a", "x");
  const std::array<timespec, 2> times{timespec{1 << 30, 0}, timespec{std::int64_t{1} << 34, 5}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times.data(), 0), 0);
  remount_kernel();
  EXPECT_GT(info(root / "a").st_mtim.tv_sec, std::int64_t{1} << 33);
  EXPECT_EQ(info(root / "a").st_atim.tv_sec, 1 << 30);
}

TEST_F(MountTest, WhoReadsQuietlyLeavesNoAccessTime) {
  put(root / "a", "x");
  const std::array<timespec, 2> times{timespec{1, 0}, timespec{1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times.data(), 0), 0);
  char byte = 0;
  for (const int quietly : {O_NOATIME, 0}) {
    remount_kernel();
    const OpenFile file(root / "a", O_RDONLY | quietly);
    ASSERT_EQ(::read(file, &byte, 1), 1);
    remount_kernel();
    EXPECT_EQ(info(root / "a").st_atim.tv_sec == 1, quietly != 0);
  }
}

TEST_F(MountTest, WritingPartOfAPageIsNoAccess) {
  put(root / "a", "xyz");
  const std::array<timespec, 2> times{timespec{1, 0}, timespec{1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times.data(), 0), 0);
  remount_kernel();
  {
    const OpenFile file(root / "a", O_WRONLY);
    ASSERT_EQ(::pwrite(file, "Y", 1, 1), 1);
    ASSERT_EQ(::fsync(file), 0);
  }
  remount_kernel();
  EXPECT_EQ(info(root / "a").st_atim.tv_sec, 1);
  EXPECT_EQ(content(root / "a"), "xYz");
}

TEST_F(MountTest, NamesThatAreTooLongAndMissing) {
  EXPECT_EQ(::open((root / std::string(256, 'n')).c_str(), O_CREAT | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  put(root / std::string(255, 'n'), "x");
  EXPECT_FALSE(stdfs::exists(root / "later"));
  put(root / "later", "x");  // although the kernel remembered that it did not exist
  EXPECT_TRUE(stdfs::exists(root / "later"));
  EXPECT_EQ(::rmdir((root / "later").c_str()), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

}  // namespace
}  // namespace s3oram
