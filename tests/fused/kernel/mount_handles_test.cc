// Tests what outlives the kernel's memory of a file: file handles and positions in directories, as
// NFS servers keep them. Includes files without a name.
#include <dirent.h>
#include <sys/syscall.h>

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "tests/fused/kernel/mount_fixture.h"

namespace s3oram {
namespace {

class HandleTest : public MountTest {
 protected:
  struct Handle {
    alignas(file_handle) std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ> bytes{};
    file_handle* get() { return reinterpret_cast<file_handle*>(bytes.data()); }
  };

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root may open files by their handles";
    MountTest::SetUp();
  }
  Handle handle_of(const stdfs::path& path) {
    Handle handle;
    handle.get()->handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    EXPECT_EQ(::name_to_handle_at(AT_FDCWD, path.c_str(), handle.get(), &mount, 0), 0)
        << path << ": " << std::strerror(errno);
    return handle;
  }
  /// Returns a descriptor, or a negative error number.
  int open(Handle& handle, int flags = O_RDONLY) {
    const OpenFile mount(root, O_RDONLY | O_DIRECTORY);
    const int fd = ::open_by_handle_at(mount, handle.get(), flags);
    return fd < 0 ? -errno : fd;
  }
  std::string read(Handle& handle) {
    const Descriptor file(open(handle));
    std::array<char, 100> text{};
    const auto got = ::read(file.get(), text.data(), text.size());
    return got < 0 ? std::strerror(errno) : std::string(text.data(), static_cast<std::size_t>(got));
  }
  /// Makes the kernel forget all inodes that nobody uses.
  void make_kernel_forget() {
    ::sync();
    put("/proc/sys/vm/drop_caches", "2");
  }
};

TEST_F(HandleTest, AFileIsFoundWhenTheKernelHasForgottenIt) {
  stdfs::create_directories(root / "a/b");
  put(root / "a/b/f", "text");
  Handle file = handle_of(root / "a/b/f"), directory = handle_of(root / "a/b");
  make_kernel_forget();
  EXPECT_EQ(read(file), "text");
  make_kernel_forget();
  const Descriptor opened(open(directory, O_RDONLY | O_DIRECTORY));
  ASSERT_GE(opened.get(), 0);
  const std::string link = "/proc/self/fd/" + std::to_string(opened.get());
  EXPECT_EQ(stdfs::read_symlink(link), root / "a/b") << "its place in the tree is known again";
}

TEST_F(HandleTest, AFileIsFoundAfterARemountUnderAnotherName) {
  stdfs::create_directories(root / "a/b");
  stdfs::create_directory(root / "c");
  put(root / "a/b/f", "text");
  Handle file = handle_of(root / "a/b/f"), directory = handle_of(root / "a/b");
  Handle top = handle_of(root);
  stdfs::rename(root / "a/b/f", root / "c/g");
  stdfs::rename(root / "a/b", root / "c/d");
  remount_kernel();
  EXPECT_EQ(read(file), "text");
  const Descriptor opened(open(directory, O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(stdfs::read_symlink("/proc/self/fd/" + std::to_string(opened.get())), root / "c/d");
  EXPECT_GE(Descriptor(open(top, O_RDONLY | O_DIRECTORY)).get(), 0);
}

TEST_F(HandleTest, ADeletedFileIsNotFoundNorIsAnotherInItsPlace) {
  put(root / "f", "old");
  stdfs::create_directory(root / "d");
  Handle file = handle_of(root / "f"), directory = handle_of(root / "d");
  stdfs::remove(root / "f");
  stdfs::remove(root / "d");
  EXPECT_EQ(open(file), -ESTALE);
  EXPECT_EQ(open(directory), -ESTALE);
  for (int mounts = 0; mounts < 2; ++mounts) {
    put(root / "f", "new");
    stdfs::create_directory(root / "d");
    EXPECT_EQ(open(file), -ESTALE);
    EXPECT_EQ(open(directory), -ESTALE);
    stdfs::remove(root / "f");
    stdfs::remove(root / "d");
    remount_kernel();
  }
}

TEST_F(HandleTest, AnOpenFileThatWasDeletedIsFoundUntilItIsClosed) {
  put(root / "f", "text");
  Handle file = handle_of(root / "f");
  {
    const OpenFile held(root / "f", O_RDONLY);
    stdfs::remove(root / "f");
    EXPECT_EQ(read(file), "text");
  }
  make_kernel_forget();
  EXPECT_EQ(open(file), -ESTALE);
}

TEST_F(HandleTest, NumbersOfFilesThatACrashLostAreNotGivenAgain) {
  put(root / "kept", "kept");
  {
    const OpenFile file(root / "kept", O_RDONLY);
    ASSERT_EQ(::fsync(file), 0);
  }
  put(root / "lost", "lost");
  Handle lost = handle_of(root / "lost"), kept = handle_of(root / "kept");
  crash_kernel();
  mount();
  mount_kernel();
  put(root / "other", "other");
  EXPECT_EQ(open(lost), -ESTALE);
  EXPECT_EQ(read(kept), "kept");
}

TEST_F(HandleTest, NumbersStaySmall) {
  for (int mounts = 0; mounts < 5; ++mounts) {
    put(root / "f", "x");
    EXPECT_LT(info(root / "f").st_ino, 100u);
    stdfs::remove(root / "f");
    remount_kernel();
  }
}

// ---- positions ---------------------------------------------------------------------------------

class PositionTest : public MountTest {
 protected:
  using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;
  Directory open() { return {::opendir((root / "d").c_str()), ::closedir}; }
  void make(const std::string& name) {
    EXPECT_GE(::close(::open((root / "d" / name).c_str(), O_CREAT | O_WRONLY, 0600)), 0) << name;
  }
  void make_names(int count) {
    stdfs::create_directory(root / "d");
    for (int i = 0; i < count; ++i) make("name " + std::to_string(i));
  }
  /// Makes the last change so old that the kernel may remember the listing.
  void let_grow_old() {
    unmount_kernel();
    unmount();
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->execute("UPDATE inodes SET ctime = 1000, checksum = NULL"));
    mount();
    mount_kernel();
  }
  /// Reads at most `most` names from the directory's current position.
  static std::vector<std::string> names(const Directory& directory, int most = 1'000'000) {
    std::vector<std::string> all;
    for (const dirent* entry; most > 0 && (entry = ::readdir(directory.get())); --most)
      all.emplace_back(entry->d_name);
    return all;
  }
};

TEST_F(PositionTest, AThirtyTwoBitProgramCanTakeThem) {
  make_names(3000);
  const auto directory = open();
  std::set<long> positions;
  while (const dirent* entry = ::readdir(directory.get())) {
    EXPECT_GT(entry->d_off, 0);
    EXPECT_LE(entry->d_off, std::numeric_limits<std::int32_t>::max());
    EXPECT_LE(entry->d_ino, std::numeric_limits<std::uint32_t>::max());
    EXPECT_TRUE(positions.insert(entry->d_off).second);
  }
  EXPECT_EQ(positions.size(), 3002u);
}

TEST_F(PositionTest, EveryPositionLeadsBackToItsPlace) {
  make_names(300);
  const auto directory = open();
  std::map<long, std::string> next;  // by position
  for (long at = ::telldir(directory.get());; at = ::telldir(directory.get())) {
    const dirent* entry = ::readdir(directory.get());
    if (!entry) break;
    next[at] = entry->d_name;
  }
  ASSERT_EQ(next.size(), 302u);
  for (const auto& [position, name] : next) {
    ::seekdir(directory.get(), position);
    EXPECT_EQ(names(directory, 1).front(), name);
  }
  ::rewinddir(directory.get());
  EXPECT_EQ(names(directory).size(), 302u);
}

// Works as an NFS server does, and opens the directory again for every few names. Other programs
// read it meanwhile, and the name that was read last is removed.
TEST_F(PositionTest, AListingGoesOnInADirectoryThatWasOpenedAgain) {
  constexpr int kNames = 1000;
  make_names(kNames);
  for (const bool old : {true, false}) {
    SCOPED_TRACE(old);
    if (old) let_grow_old();
    std::multiset<std::string> seen;
    std::set<std::string> removed;
    long position = 0;
    for (int round = 0;; ++round) {
      std::string last;
      {
        const auto directory = open();
        ::seekdir(directory.get(), position);
        const auto some = names(directory, 20);
        if (some.empty()) break;
        for (const std::string& name : some) seen.insert(last = name);
        position = ::telldir(directory.get());
      }
      if (last.starts_with("name")) {
        stdfs::remove(root / "d" / last);
        removed.insert(last);
      }
      make("other " + std::to_string(round));
      EXPECT_GE(names(open()).size(), kNames - removed.size());  // the kernel may remember it now
      if (round == 10 || round == 20) remount_kernel();
    }
    for (int i = 0; i < kNames; ++i)
      EXPECT_EQ(seen.count("name " + std::to_string(i)), 1u) << "name " << i;
    for (const std::string& name : removed) make(name);
  }
}

TEST_F(PositionTest, APositionOutlivesItsNameInADirectoryThatIsReadAgain) {
  make_names(1000);
  let_grow_old();
  const auto directory = open();
  const auto before = names(directory, 500);
  const long position = ::telldir(directory.get());
  const auto after = names(directory);
  stdfs::remove(root / "d" / before.back());
  for (int i = 0; i < 2; ++i) {
    ::rewinddir(directory.get());
    EXPECT_EQ(names(directory).size(), 1001u);
    ::seekdir(directory.get(), position);
    EXPECT_EQ(names(directory), after);
  }
}

TEST_F(PositionTest, ARememberedListingIsNeverOld) {
  make_names(100);
  let_grow_old();
  EXPECT_EQ(names(open()).size(), 102u);
  EXPECT_EQ(names(open()).size(), 102u);
  stdfs::remove(root / "d/name 7");
  EXPECT_EQ(names(open()).size(), 101u);
}

// ---- files without a name ----------------------------------------------------------------------

class UnnamedTest : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    const int fd = ::open(root.c_str(), O_TMPFILE | O_RDWR, 0600);
    if (fd < 0 && errno == EOPNOTSUPP) GTEST_SKIP() << "this kernel does not ask FUSE for them";
    ASSERT_GE(::close(fd), 0);
    EXPECT_TRUE(only_root_is_left());
  }
  std::uint64_t inodes() { return fs->status().inodes; }
  /// Waits, because close() returns before the kernel says that it has forgotten the file.
  bool only_root_is_left() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inodes() > 1 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return inodes() == 1;
  }
  static int give_name(int fd, const stdfs::path& name) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    return ::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0
                                                                                            : errno;
  }
};

TEST_F(UnnamedTest, OneGetsAName) {
  {
    const OpenFile file(root, O_TMPFILE | O_RDWR);
    ASSERT_EQ(::write(file, "text", 4), 4);
    struct stat attributes {};
    ASSERT_EQ(::fstat(file, &attributes), 0);
    EXPECT_EQ(attributes.st_nlink, 0u);
    EXPECT_TRUE(stdfs::is_empty(root));
    ASSERT_EQ(::fsync(file), 0);
    ASSERT_EQ(give_name(file, root / "f"), 0);
    ASSERT_EQ(give_name(file, root / "g"), 0);
  }
  remount_kernel();
  EXPECT_EQ(content(root / "f"), "text");
  EXPECT_EQ(info(root / "f").st_nlink, 2u);
}

TEST_F(UnnamedTest, OneThatGetsNoneIsGone) {
  {
    const OpenFile file(root, O_TMPFILE | O_RDWR | O_EXCL);
    ASSERT_EQ(::write(file, "text", 4), 4);
    EXPECT_EQ(give_name(file, root / "f"), ENOENT) << "O_EXCL forbids it";
    ASSERT_EQ(::fsync(file), 0);
    EXPECT_EQ(inodes(), 2u);
  }
  EXPECT_TRUE(only_root_is_left());
  remount_kernel();
  EXPECT_EQ(inodes(), 1u);
}

TEST_F(UnnamedTest, OneThatACrashFindsOpenIsFreed) {
  {
    const OpenFile file(root, O_TMPFILE | O_RDWR);
    ASSERT_EQ(::write(file, "text", 4), 4);
    ASSERT_EQ(::fsync(file), 0);
    EXPECT_EQ(inodes(), 2u);
    crash_kernel();
  }
  mount();
  mount_kernel();
  EXPECT_EQ(inodes(), 1u);
}

TEST_F(UnnamedTest, AFileThatWasDeletedGetsNoNameAgain) {
  put(root / "f", "x");
  const OpenFile file(root / "f", O_RDONLY);
  stdfs::remove(root / "f");
  EXPECT_EQ(give_name(file, root / "g"), ENOENT);
}

TEST_F(MountTest, AWhiteoutIsLeftInThePlaceOfTheOldName) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may make devices";
  put(root / "f", "new");
  put(root / "g", "old");
  const auto rename2 = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, (root / "f").c_str(), AT_FDCWD, (root / "g").c_str(), flags) == 0
               ? 0
               : errno;
  };
  EXPECT_EQ(rename2(RENAME_WHITEOUT | RENAME_EXCHANGE), EINVAL);
  EXPECT_EQ(rename2(RENAME_WHITEOUT | RENAME_NOREPLACE), EEXIST);
  ASSERT_EQ(rename2(RENAME_WHITEOUT), 0);
  remount_kernel();
  EXPECT_EQ(content(root / "g"), "new");
  EXPECT_TRUE(S_ISCHR(info(root / "f").st_mode));
  EXPECT_EQ(info(root / "f").st_rdev, 0u);
}

}  // namespace
}  // namespace s3oram
