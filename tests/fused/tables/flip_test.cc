// Flips single bits in vault.db, and tears sectors. Whatever is damaged, a mount gives the truth or
// an error, and reports that something is wrong if anything is lost.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "fused/tables/heal.h"
#include "tests/fused/fixture.h"
#include "tests/fused/whole_listing.h"
#include "tests/harness/repetitions.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

constexpr unsigned kDirectories = 3, kFiles = 60;  // directories, and files in each
constexpr std::size_t kSector = 512;

/// The content and attributes of a file, as users see them.
struct Seen {
  std::uint32_t mode = 0, uid = 0, nlink = 0;
  std::int64_t size = 0, mtime = 0, blocks = 0;
  std::string content, target;
  std::map<std::string, std::string> xattrs;
  friend bool operator==(const Seen&, const Seen&) = default;
};
using Truth = std::map<std::string, Seen>;

struct Outcome {
  bool wrong = false;   // an answer is not the truth
  bool errors = false;  // there were errors instead of answers
  std::string what;     // the first of them
};

class FlipTest : public testing::Test {
 protected:
  FlipTest() {
    make_files();
    read_layout();
    auto dump = dump_of(original());
    EXPECT_TRUE(dump) << dump.error().message;
    dump_ = *dump;
    mount(original());
    truth_ = walk("/", kRootIno);
    unmount();
    EXPECT_EQ(truth_.size(), kDirectories * (kFiles + 1) + 2);
  }

  stdfs::path original() const { return folder_.path() / "original.db"; }
  stdfs::path damaged() const { return folder_.path() / "damaged.db"; }

  bool mount(const stdfs::path& database) {
    FileSystemOptions options;
    options.commit_every = std::chrono::hours(1);
    options.update_atime = false;
    options.own_ticker = false;
    device_ = std::make_unique<MemoryDevice>(database.string(), kTestBlock);
    auto mounted = FileSystem::mount(*device_, database.string(), options);
    if (mounted) fs_ = std::move(*mounted);
    if (!mounted) device_.reset();
    return mounted.has_value();
  }
  void unmount() {
    static_cast<void>(fs_->unmount());  // if it is damaged, not everything need become durable
    device_->stop();
    fs_.reset();
    device_.reset();
  }

  void make_files() {
    ASSERT_TRUE(mount(original()));
    const auto fill = [&](Ino ino, unsigned seed, std::size_t size) {
      ASSERT_TRUE(fs_->write(ino, 0, as_bytes(pattern(size, seed)), false));
    };
    for (unsigned d = 0; d < kDirectories; ++d) {
      const auto directory =
          fs_->make({}, kRootIno, fmt::format("directory {}", d), {S_IFDIR | 0755, 0, {}});
      for (unsigned f = 0; f < kFiles; ++f) {
        const std::string name = fmt::format("file {} of {}", f, d);
        const bool link = f % 10 == 9;
        const auto made = fs_->make({}, directory->st_ino, name,
                                    {link ? S_IFLNK | 0777u : S_IFREG | 0644u, 0,
                                     link ? pattern(40 * f + 1, f) : std::string()});
        ASSERT_TRUE(made);
        if (!link) fill(made->st_ino, f, f % 7 == 0 ? 3 * kTestBlock + 10 : 100 + f);
        if (f % 5 == 0) {
          ASSERT_TRUE(fs_->set_xattr(made->st_ino, "user.note", pattern(10 + 300 * f, f), 0));
        }
      }
    }
    ASSERT_TRUE(fs_->make({}, kRootIno, "gone", {S_IFREG | 0644, 0, {}}));
    ASSERT_TRUE(fs_->unlink(kRootIno, "gone"));
    const auto second = fs_->lookup(kRootIno, "directory 0");
    ASSERT_TRUE(fs_->link(fs_->lookup(second->st_ino, "file 1 of 0")->st_ino, kRootIno, "second"));
    unmount();
    auto database = Database::open(original().string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->fold_log());
  }

  /// Reads the numbers of the pages, except those of the files' contents, which servers hold.
  void read_layout() {
    auto database = Database::open(original().string(), Database::Mode::read_write);
    auto pages = database->prepare(
        "SELECT pageno FROM dbstat WHERE name NOT LIKE 'memory_%' ORDER BY pageno");
    ASSERT_TRUE(pages) << pages.error().message;
    while (*pages->step()) pages_.push_back(static_cast<std::uint64_t>(pages->integer(0)));
    EXPECT_GT(pages_.size(), 25u);
  }

  static Result<Bytes> dump_of(const stdfs::path& database) {
    auto dump = TablesDump::open(database.string(), system_disk(), TablesDump::Damaged::refused);
    if (!dump) return fail(dump.error());
    S3O_TRY(dump->check_file());
    return dump->next(1 << 24);
  }

  Seen see(Ino ino, Outcome* outcome) {
    Seen seen;
    const auto got = fs_->getattr(ino);
    if (!got) {
      outcome->errors = true;
      return seen;
    }
    seen.mode = got->st_mode;
    seen.uid = got->st_uid;
    seen.nlink = got->st_nlink;
    seen.size = got->st_size;
    seen.mtime = got->st_mtim.tv_sec * 1'000'000'000 + got->st_mtim.tv_nsec;
    seen.blocks = got->st_blocks;
    if (S_ISLNK(got->st_mode)) seen.target = fs_->readlink(ino).value_or("?");
    if (S_ISREG(got->st_mode)) {
      Bytes bytes(4 * kTestBlock);
      const auto read = fs_->read(ino, 0, bytes);
      if (read) seen.content.assign(bytes.begin(), bytes.begin() + static_cast<long>(*read));
      outcome->errors |= !read;
    }
    const auto names = fs_->list_xattrs(ino);
    outcome->errors |= !names;
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      const auto value = fs_->get_xattr(ino, name);
      outcome->errors |= !value;
      if (value) seen.xattrs[name] = *value;
    }
    return seen;
  }

  /// Returns what a sound vault shows.
  Truth walk(const std::string& path, Ino directory) {
    Outcome none;
    Truth tree{{path, see(directory, &none)}};
    const auto entries = fs_->list(directory);
    EXPECT_TRUE(entries);
    for (const DirectoryEntry& entry : *entries) {
      if (entry.name == "." || entry.name == "..") continue;
      const auto found = fs_->lookup(directory, entry.name);
      const std::string name = path + (path == "/" ? "" : "/") + entry.name;
      if (S_ISDIR(found->st_mode))
        tree.merge(walk(name, found->st_ino));
      else
        tree[name] = see(found->st_ino, &none);
    }
    EXPECT_FALSE(none.errors);
    return tree;
  }

  void note(Outcome& outcome, const std::string& what) {
    outcome.wrong = true;
    if (outcome.what.empty()) outcome.what = what;
  }

  /// Compares everything that can be asked for with the truth. Files below a directory that gives
  /// an error cannot be reached.
  void compare(Outcome& outcome, const std::string& path, Ino ino) {
    Outcome here;
    const Seen seen = see(ino, &here);
    outcome.errors |= here.errors;
    if (!here.errors && !(seen == truth_.at(path))) note(outcome, path + " is another");
    if (!S_ISDIR(truth_.at(path).mode)) {
      const auto none = fs_->get_xattr(ino, "user.none");
      if (none || (none.error() != ENODATA && none.error() != EIO)) note(outcome, path + ": xattr");
      return;
    }
    const auto [entries, all] = read_listing(*fs_, ino);
    outcome.errors |= !all;
    const std::string inside = path == "/" ? path : path + "/";
    std::set<std::string> listed;
    for (const DirectoryEntry& entry : entries) listed.insert(inside + entry.name);
    for (const auto& [name, truth] : truth_) {
      if (!name.starts_with(inside) || name == path ||
          name.find('/', inside.size()) != std::string::npos)
        continue;
      if (all && !listed.contains(name)) note(outcome, name + " is not listed");
      const auto found = fs_->lookup(ino, name.substr(inside.size()));
      outcome.errors |= !found;
      if (found)
        compare(outcome, name, found->st_ino);
      else if (found.error() != EIO)
        note(outcome, fmt::format("{}: error {}", name, found.error()));
    }
    if (all)
      for (const std::string& name : listed)
        if (!truth_.contains(name) && name != inside + "." && name != inside + "..")
          note(outcome, name + " is listed");
    const auto none = fs_->lookup(ino, "none");
    if (none || (none.error() != ENOENT && none.error() != EIO)) note(outcome, path + "/none");
  }

  /// Returns in one word the outcome for the damaged file. Fails the test if nothing reports the
  /// damage.
  std::string judge(const std::string& damage) {
    const auto healed = heal_database(damaged(), HealFor::order);
    if (!healed) return "refused at mount";
    const auto dump = dump_of(damaged());
    const bool dumped = dump && *dump == dump_;
    EXPECT_TRUE(!dump || dumped) << damage << ": a backup of damaged tables";
    if (!mount(damaged())) return "refused at mount";
    Outcome outcome;
    compare(outcome, "/", kRootIno);
    const FileSystemStatus status = fs_->status();
    const bool told = status.damage > 0 || status.lost_blocks > 0;
    unmount();
    EXPECT_FALSE(outcome.wrong) << damage << ": " << outcome.what;
    EXPECT_TRUE(told || !outcome.errors) << damage << ": errors, and nothing is reported";
    EXPECT_TRUE(dumped || told) << damage << ": no backup, and nothing is reported";
    if (outcome.errors) return *healed ? "errors, after healing" : "errors";
    if (told) return "said, and nothing was lost";
    return *healed ? "put right" : "not used";
  }

  void copy() const {
    for (const char* suffix : {"", "-wal", "-shm"}) stdfs::remove(damaged().string() + suffix);
    stdfs::copy_file(original(), damaged());
    for (unsigned n = 1; n < 4; ++n)
      stdfs::remove(damaged().string() + ".damaged" + (n > 1 ? fmt::format("-{}", n) : ""));
  }
  template <class Change>
  void change(std::uint64_t at, std::size_t count, Change change_bytes) const {
    std::fstream file(damaged(), std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes(count, '\0');
    file.seekg(static_cast<std::streamoff>(at));
    file.read(bytes.data(), static_cast<std::streamsize>(count));
    change_bytes(bytes);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  void print(const char* what, const std::map<std::string, unsigned>& outcomes) {
    for (const auto& [outcome, count] : outcomes)
      std::printf("%s: %-28s %5u\n", what, outcome.c_str(), count);
  }

  TemporaryDirectory folder_;
  std::unique_ptr<MemoryDevice> device_;
  std::unique_ptr<FileSystem> fs_;
  std::vector<std::uint64_t> pages_;
  Bytes dump_;
  Truth truth_;
};

TEST_F(FlipTest, NoSingleBitIsSilent) {
  std::map<std::string, unsigned> outcomes;
  std::mt19937_64 random(1);
  for (unsigned seed = 0; seed < test::repetitions(480) && !HasFailure(); ++seed) {
    copy();
    const std::uint64_t page = pages_[seed % pages_.size()];
    // In every third case, takes a byte of the page's header or of the pointers after it.
    const std::size_t byte = random() % (seed % 3 == 0 ? 64 : 4096);
    const unsigned bit = random() % 8;
    change((page - 1) * 4096 + byte, 1,
           [&](std::string& bytes) { bytes[0] = static_cast<char>(bytes[0] ^ 1 << bit); });
    ++outcomes[judge(fmt::format("page {} byte {} bit {}", page, byte, bit))];
  }
  print("bits", outcomes);
}

TEST_F(FlipTest, NoTornSectorIsSilent) {
  std::map<std::string, unsigned> outcomes;
  std::mt19937_64 random(2);
  for (unsigned seed = 0; seed < test::repetitions(120) && !HasFailure(); ++seed) {
    copy();
    const std::uint64_t page = pages_[seed % pages_.size()], sector = random() % 8;
    change((page - 1) * 4096 + sector * kSector, kSector, [&](std::string& bytes) {
      for (char& byte : bytes) byte = seed % 2 == 0 ? '\0' : static_cast<char>(random());
    });
    ++outcomes[judge(fmt::format("page {} sector {}", page, sector))];
  }
  print("sectors", outcomes);
}

// Run by hand, for docs/performance.md: --gtest_also_run_disabled_tests; FILES may be given.
TEST(LargeVault, DISABLED_IsLookedAtInSeconds) {
  using Clock = std::chrono::steady_clock;
  const char* wanted = std::getenv("FILES");
  const unsigned files = wanted ? static_cast<unsigned>(std::atoi(wanted)) : 1'000'000;
  const TemporaryDirectory folder;
  const std::string path = (folder.path() / "vault.db").string();
  FileSystemOptions options;
  options.commit_every = std::chrono::hours(1);
  options.own_ticker = false;
  const auto mount = [&](MemoryDevice& device) {
    auto mounted = FileSystem::mount(device, path, options);
    EXPECT_TRUE(mounted);
    return std::move(*mounted);
  };
  {
    MemoryDevice device(path, kTestBlock);
    const auto fs = mount(device);
    Ino directory = 0;
    for (unsigned i = 0; i < files; ++i) {
      if (i % 1000 == 0)
        directory =
            fs->make({}, kRootIno, fmt::format("directory {}", i), {S_IFDIR | 0755, 0, {}})->st_ino;
      const auto made =
          fs->make({}, directory, fmt::format("file number {}", i), {S_IFREG | 0644, 0, {}});
      ASSERT_TRUE(made);
      ASSERT_TRUE(fs->write(made->st_ino, 0, as_bytes("content"), false));
      fs->forget(made->st_ino, 1);
    }
    ASSERT_TRUE(fs->unmount());
    device.stop();
  }
  const auto timed = [](const char* what, const auto& work) {
    const auto begun = Clock::now();
    work();
    std::printf("%s: %.2f s\n", what, std::chrono::duration<double>(Clock::now() - begun).count());
  };
  timed("heal_database", [&] {
    const auto healed = heal_database(path, HealFor::order);
    EXPECT_TRUE(healed && !*healed);
  });
  timed("Metadata::examine", [&] {
    Metadata metadata;
    EXPECT_TRUE(metadata.open(path));
    EXPECT_TRUE(metadata.examine());
    EXPECT_FALSE(metadata.damage.any()) << metadata.damage.first();
  });
  MemoryDevice device(path, kTestBlock);
  std::unique_ptr<FileSystem> fs;
  timed("FileSystem::mount", [&] { fs = mount(device); });
  EXPECT_TRUE(fs->unmount());
  device.stop();
}

}  // namespace
}  // namespace s3oram
