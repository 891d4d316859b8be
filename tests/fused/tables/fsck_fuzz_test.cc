// Random damage, by seed. fsck never fails or loops, one repair is enough, rows that were not
// touched stay, and a mount of the damaged vault gives errors rather than wrong bytes.
#include <random>

#include "tests/fused/tables/sample_vault.h"
#include "tests/fused/whole_listing.h"
#include "tests/harness/repetitions.h"

namespace s3oram {
namespace {

struct Column {
  const char* table;
  const char* name;
};

constexpr Column kFileColumns[] = {
    {"inodes", "ino"},    {"inodes", "mode"},   {"inodes", "uid"},      {"inodes", "nlink"},
    {"inodes", "rdev"},   {"inodes", "size"},   {"inodes", "blocks"},   {"inodes", "mtime"},
    {"inodes", "parent"}, {"inodes", "target"}, {"dentries", "parent"}, {"dentries", "name"},
    {"dentries", "ino"},  {"dentries", "type"}, {"extents", "ino"},     {"extents", "idx"},
    {"extents", "block"}, {"extents", "valid"}, {"xattrs", "ino"},      {"xattrs", "name"},
    {"xattrs", "value"}};
constexpr Column kBlockColumns[] = {{"positions", "block"},
                                    {"positions", "position"},
                                    {"positions", "version"},
                                    {"buckets", "bucket"},
                                    {"buckets", "blocks"}};

class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  /// Returns a statement that changes, removes or adds a row.
  std::string damage(bool blocks) {
    const Column& column = blocks ? kBlockColumns[below(std::size(kBlockColumns))]
                                  : kFileColumns[below(std::size(kFileColumns))];
    const std::string which = fmt::format("({0}) = (SELECT {0} FROM {1} LIMIT 1 OFFSET {2})",
                                          key(column.table), column.table, below(12));
    if (below(8) == 0) return fmt::format("DELETE FROM {} WHERE {}", column.table, which);
    return fmt::format("UPDATE OR REPLACE {} SET {} = {} WHERE {}", column.table, column.name,
                       value(column), which);
  }

 private:
  static std::string key(const std::string& table) {
    return table == "inodes"      ? "ino"
           : table == "dentries"  ? "parent, name"
           : table == "extents"   ? "ino, idx"
           : table == "positions" ? "block"
           : table == "buckets"   ? "bucket"
                                  : "ino, name";
  }
  std::string value(const Column& column) {
    const std::string table = column.table;
    const bool is_key = (table == "positions" || table == "buckets") && key(table) == column.name;
    const bool is_ino = std::string(column.table) == "inodes" && column.name == std::string("ino");
    switch (below(is_key || is_ino ? 5 : 9)) {
      case 0:
        return std::to_string(static_cast<std::int64_t>(below(20)) - 2);
      case 1:
        return fmt::format("(SELECT {} FROM {} LIMIT 1 OFFSET {})", column.name, column.table,
                           below(12));
      case 2:
        return fmt::format("CAST({} AS INTEGER) | 1 << {}", column.name, below(64));
      case 3:
        return fmt::format("CAST({0} AS INTEGER) & ~(1 << {1})", column.name, below(64));
      case 4:
        return std::to_string(static_cast<std::int64_t>(random_()));
      case 5:
        return "'text'";
      case 6:
        return "x'00ff2f'";
      case 7:
        return "zeroblob(300)";
      default:
        return "1.5e300";
    }
  }

  std::mt19937_64 random_;
};

/// Reads everything that can be reached. Returns the content of the files that can be read whole.
std::map<Ino, std::string> walk(FileSystem& fs) {
  std::map<Ino, std::string> contents;
  std::vector<Ino> todo{kRootIno};
  std::set<Ino> seen{kRootIno};
  while (!todo.empty()) {
    const Ino directory = todo.back();
    todo.pop_back();
    for (const DirectoryEntry& entry : read_listing(fs, directory).entries) {
      if (entry.name == "." || entry.name == "..") continue;
      const auto found = fs.lookup(directory, entry.name);
      if (!found) continue;
      if (S_ISDIR(found->st_mode) && seen.insert(found->st_ino).second)
        todo.push_back(found->st_ino);
      if (!S_ISREG(found->st_mode) || found->st_size > 10'000) continue;
      Bytes bytes(10'000);
      const auto got = fs.read(found->st_ino, 0, bytes);
      if (got)
        contents[found->st_ino].assign(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(*got));
    }
  }
  return contents;
}

void expect_mended(const DamagedVault& vault, const std::string& what) {
  auto report = vault.check(false);
  ASSERT_TRUE(report) << what << report.error().message;
  report = vault.check(true);
  ASSERT_TRUE(report) << what << report.error().message;
  EXPECT_EQ(report->left(), 0u) << what << text_of(report->findings);
  const auto again = vault.check(false);
  ASSERT_TRUE(again) << what << again.error().message;
  for (const Finding& finding : again->findings)
    EXPECT_TRUE(finding.harmless) << what << text_of({finding}) << "after\n"
                                  << text_of(report->findings);
}

/// Returns the inodes that a row names, in any of its columns.
std::set<Ino> named_by(const Dump& before, const Dump& after) {
  std::set<Ino> inodes = changed(before, after);
  for (const auto* dump : {&before, &after}) {
    const auto* other = dump == &before ? &after : &before;
    for (const DumpedRow& row : *dump) {
      if (other->contains(row)) continue;
      // The directory of a name, and the files that claim the same block.
      if (row.table == "dentries") inodes.insert(std::strtoull(row.text.c_str(), nullptr, 10));
      if (row.table != "extents") continue;
      const auto block_of = [](const std::string& text) {
        unsigned long long ino = 0, index = 0;
        long long block = 0;
        std::sscanf(text.c_str(), "%llu %llu %lld", &ino, &index, &block);
        return block;
      };
      for (const DumpedRow& one : after)
        if (one.table == "extents" && block_of(one.text) == block_of(row.text))
          inodes.insert(one.inodes.begin(), one.inodes.end());
    }
  }
  // Directories count the directories in them.
  for (const DumpedRow& row : before)
    if (row.table == "dentries" && inodes.contains(*row.inodes.begin()))
      inodes.insert(std::strtoull(row.text.c_str(), nullptr, 10));
  return inodes;
}

TEST(FsckFuzz, OneDamageTouchesNothingElse) {
  Ino largest = 0;
  for (const auto& [name, ino] : sample_vault().inodes()) largest = std::max(largest, ino);
  for (unsigned seed = 1; seed <= test::repetitions(150); ++seed) {
    Fuzz fuzz(seed);
    const DamagedVault vault;
    const Dump sound = vault.dump();
    const std::string sql = fuzz.damage(false);
    const std::string what = fmt::format("seed {}: {}\n", seed, sql);
    // A row that a constraint refuses is not damage.
    static_cast<void>(vault.open().execute(sql));
    const std::set<Ino> touched = named_by(sound, vault.dump());
    expect_mended(vault, what);
    for (const Ino ino : changed(sound, vault.dump()))
      EXPECT_TRUE(touched.contains(ino) || ino == kRootIno || ino > largest)
          << what << "inode " << ino << " was changed";
    if (HasFailure()) return;
  }
}

TEST(FsckFuzz, ManyDamagesAreMendedAtOnce) {
  for (unsigned seed = 1; seed <= test::repetitions(150); ++seed) {
    Fuzz fuzz(1000 + seed);
    const DamagedVault vault;
    std::string what = fmt::format("seed {}:\n", seed);
    for (auto damages = 2 + fuzz.below(10); damages > 0; --damages) {
      const std::string sql = fuzz.damage(fuzz.below(4) == 0);
      static_cast<void>(vault.open().execute(sql));  // a refused statement is not damage
      what += "  " + sql + "\n";
    }
    expect_mended(vault, what);
    if (HasFailure()) return;
  }
}

TEST(FsckFuzz, ADamagedVaultMountsAndGivesNoWrongBytes) {
  const std::map<Ino, std::string> sound = [] {
    std::map<Ino, std::string> contents;
    for (const char* name : {"/a", "/b", "/dir/sub/deep"})
      contents[sample_vault().ino(name)] = SampleVault::content(name);
    return contents;
  }();
  for (unsigned seed = 1; seed <= test::repetitions(150); ++seed) {
    Fuzz fuzz(2000 + seed);
    const DamagedVault vault;
    const Dump before = vault.dump();
    const std::string sql = fuzz.damage(false);
    static_cast<void>(vault.open().execute(sql));  // a refused statement is not damage
    const std::set<Ino> touched = named_by(before, vault.dump());
    FileSystemOptions options;
    options.commit_every = std::chrono::hours(1);
    options.read_only = seed % 2 == 0;
    auto device = std::make_unique<MemoryDevice>(vault.database().string(), kTestBlock);
    auto mounted = FileSystem::mount(*device, vault.database().string(), options);
    ASSERT_TRUE(mounted) << seed << ": " << sql << ": " << mounted.error().message;
    const auto found = walk(**mounted);
    for (const auto& [ino, content] : sound) {
      const bool in_touched = ino == sample_vault().ino("/dir/sub/deep") &&
                              (touched.contains(sample_vault().ino("/dir")) ||
                               touched.contains(sample_vault().ino("/dir/sub")));
      if (touched.contains(ino) || in_touched) continue;
      ASSERT_TRUE(found.contains(ino)) << seed << ": " << sql << ": inode " << ino << " is gone";
      EXPECT_EQ(found.at(ino), content) << seed << ": " << sql;
    }
    EXPECT_TRUE((*mounted)->unmount()) << seed << ": " << sql;
    device.reset();
  }
}

}  // namespace
}  // namespace s3oram
