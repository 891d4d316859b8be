// A small vault with one of everything, made without servers, for tests that damage copies of it.
#pragma once

#include <fcntl.h>
#include <fmt/args.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "cli/vault_check.h"
#include "oramcore/client/client_state.h"
#include "tests/fused/fixture.h"

namespace s3oram {

/// A row of a file table, and the inodes to which it belongs.
struct DumpedRow {
  std::string table, text;
  std::set<Ino> inodes;
  friend auto operator<=>(const DumpedRow&, const DumpedRow&) = default;
};
using Dump = std::set<DumpedRow>;

class SampleVault {
 public:
  static VolumeParams params() { return {Scheme{1, 3}, kTestBlock, 162, 64}; }

  SampleVault() {
    SystemRandom random;
    VaultConfig config;
    config.params = params();
    config.local = true;
    config.servers.resize(3);
    auto vault = Vault::create(path(), config, {}, random);
    EXPECT_TRUE(vault) << vault.error().message;
    EXPECT_TRUE(vault->mark_ready());
    EXPECT_TRUE(ClientState::create(database()));
    make_files();
    place_blocks();
  }
  SampleVault(const SampleVault&) = delete;
  SampleVault& operator=(const SampleVault&) = delete;

  std::filesystem::path path() const { return folder_.path() / "vault"; }
  std::filesystem::path database() const { return path() / "vault.db"; }
  /// By path, such as "/a".
  const std::map<std::string, Ino>& inodes() const { return inodes_; }
  Ino ino(const std::string& name) const { return inodes_.at(name); }
  static std::string content(const std::string& name) { return pattern(10'000, name.size()); }

 private:
  void make_files() {
    FileSystemOptions options;
    options.commit_every = std::chrono::hours(1);
    auto device = std::make_unique<MemoryDevice>(database().string(), kTestBlock);
    auto mounted = FileSystem::mount(*device, database().string(), options);
    ASSERT_TRUE(mounted) << mounted.error().message;
    FileSystem& fs = **mounted;
    const auto make = [&](const std::string& parent, const std::string& name, std::uint32_t mode,
                          const std::string& target = {}) {
      const auto made = fs.make({}, inodes_.at(parent), name, {mode, 0, target});
      ASSERT_TRUE(made) << name;
      inodes_[(parent == "/" ? "" : parent) + "/" + name] = made->st_ino;
    };
    const auto fill = [&](const std::string& name, std::uint64_t offset = 0) {
      ASSERT_TRUE(fs.write(inodes_.at(name), offset, as_bytes(content(name)), false)) << name;
    };
    inodes_["/"] = kRootIno;
    make("/", "a", S_IFREG | 0644);
    make("/", "b", S_IFREG | 0600);
    make("/", "dir", S_IFDIR | 0755);
    make("/dir", "sub", S_IFDIR | 0755);
    make("/dir", "other", S_IFDIR | 0755);
    make("/dir/sub", "deep", S_IFREG | 0640);
    make("/", "empty", S_IFREG | 0644);
    make("/", "empty-dir", S_IFDIR | 0700);
    make("/", "link", S_IFLNK | 0777, "dir/sub/deep");
    make("/", "fifo", S_IFIFO | 0644);
    make("/", "sparse", S_IFREG | 0644);
    for (const char* name : {"/a", "/b", "/dir/sub/deep"}) fill(name);
    fill("/sparse", 100 * kTestBlock);
    EXPECT_TRUE(fs.link(ino("/b"), ino("/dir"), "b2"));
    EXPECT_TRUE(fs.set_xattr(ino("/a"), "user.note", "kept", 0));
    EXPECT_TRUE((*mounted)->unmount());
    device.reset();
  }

  /// The device of these tests has a table of its own, while the client's has a place for each
  /// block.
  void place_blocks() {
    auto database = Database::open(this->database().string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    EXPECT_TRUE(ClientState::make_missing_tables(*database));
    std::vector<BlockId> blocks;
    {
      auto rows = database->prepare("SELECT block FROM memory_blocks ORDER BY block");
      ASSERT_TRUE(rows);
      while (*rows->step()) blocks.push_back(static_cast<BlockId>(rows->integer(0)));
    }
    EXPECT_EQ(blocks.size(), 10u) << "two whole blocks of each file, and two packs";
    std::map<BucketIndex, BucketRow> buckets;
    for (const BlockId block : blocks) {
      const Position place{Position::Kind::tree, block, 1, static_cast<std::uint16_t>(block),
                           100 + block};
      EXPECT_TRUE(database->execute(fmt::format("INSERT INTO positions VALUES ({}, {}, {})", block,
                                                PositionMap::pack(place, 1), place.version)));
      BucketRow& row = buckets[bucket_on_path(place.leaf, 1)];
      row.at_leaf = true;
      row.blocks.push_back({block, place.slot, 0, place.version});
    }
    auto put = database->prepare("INSERT INTO buckets VALUES (?, ?)");
    ASSERT_TRUE(put);
    for (const auto& [bucket, row] : buckets)
      EXPECT_TRUE(put->bind(0, static_cast<std::int64_t>(bucket))
                      .bind(1, ByteSpan(encode_row(bucket, row)))
                      .run());
  }

  TemporaryDirectory folder_;
  std::map<std::string, Ino> inodes_;
};

/// One sample for the whole program.
inline const SampleVault& sample_vault() {
  static const SampleVault vault;
  return vault;
}

/// A copy of the sample, to be damaged.
class DamagedVault {
 public:
  DamagedVault() {
    std::filesystem::copy(sample_vault().path(), path(), std::filesystem::copy_options::recursive);
  }
  std::filesystem::path path() const { return folder_.path() / "vault"; }
  std::filesystem::path database() const { return path() / "vault.db"; }

  Database open() const {
    auto database = Database::open(this->database().string(), Database::Mode::read_write);
    EXPECT_TRUE(database) << database.error().message;
    return std::move(*database);
  }
  /// Returns `text` with the numbers of /a and /dir/sub for {a} and {dir_sub}.
  static std::string filled(const std::string& text) {
    fmt::dynamic_format_arg_store<fmt::format_context> numbers;
    std::vector<std::string> names;
    names.reserve(sample_vault().inodes().size());
    for (const auto& [path, ino] : sample_vault().inodes()) {
      std::string& name = names.emplace_back(path.substr(1));
      for (char& c : name) c = c == '/' || c == '-' ? '_' : c;
      if (!name.empty()) numbers.push_back(fmt::arg(name.c_str(), ino));
    }
    return fmt::vformat(text, numbers);
  }
  /// Runs SQL with the numbers filled in, then drops the checksums, as if a program had written the
  /// rows.
  void damage(const std::string& sql) const {
    change(sql);
    Database database = open();
    for (const TableSql& table : kTables) {
      if (const auto there = database.has_table(table.name); !there || !*there) continue;
      EXPECT_TRUE(database.execute(fmt::format("UPDATE {} SET checksum = NULL", table.name)));
    }
  }
  /// Runs SQL with the numbers filled in but keeps the checksums, as if the disk had damaged the
  /// rows.
  void change(const std::string& sql) const {
    const Status done = open().execute(filled(sql));
    EXPECT_TRUE(done) << sql << ": " << done.error().message;
  }
  /// Damages the file below SQLite, where it holds `there`, from byte `at` of that place on.
  void put_bytes(const std::string& there, std::size_t at, const std::string& bytes) const {
    std::fstream file(database(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    std::size_t found = content.find(there);
    ASSERT_NE(found, std::string::npos);
    for (; found != std::string::npos; found = content.find(there, found + 1)) {
      file.clear();
      file.seekp(static_cast<std::streamoff>(found + at));
      file << bytes;
    }
  }
  Result<VaultReport> check(bool repair) const {
    auto vault = Vault::find(path());
    if (!vault) return fail(vault.error());
    S3O_TRY(vault->lock());
    return check_vault(*vault, system_disk(), repair, [](const std::string&) {});
  }

  /// Returns SQL that makes one text of the columns.
  static std::string joined(const std::vector<std::string>& columns) {
    std::string sql;
    for (const std::string& column : columns)
      sql += fmt::format("{}quote({})", sql.empty() ? "" : " || ' ' || ", column);
    return sql;
  }
  Dump dump() const {
    Dump rows;
    Database database = open();
    const auto read = [&](const std::string& table, const std::string& sql) {
      auto statement = database.prepare(sql);
      if (!statement) return;  // a test has dropped the table
      while (*statement->step())
        rows.insert({table, statement->text(1), {static_cast<Ino>(statement->integer(0))}});
    };
    const auto quoted = [&](const std::string& table, const std::string& columns) {
      read(table, fmt::format("SELECT ino, {} FROM {}", columns, table));
    };
    quoted("inodes", joined({"ino", "mode", "uid", "gid", "nlink", "rdev", "size", "blocks",
                             "atime", "mtime", "ctime", "parent", "target"}));
    quoted("dentries", joined({"parent", "name", "ino", "type"}));
    quoted("extents", joined({"ino", "idx", "block", "valid"}));
    quoted("xattrs", joined({"ino", "name", "value"}));
    return rows;
  }

 private:
  TemporaryDirectory folder_;
};

/// Returns the inodes about which the two differ.
inline std::set<Ino> changed(const Dump& before, const Dump& after) {
  std::set<Ino> inodes;
  for (const auto& [one, other] : {std::pair(&before, &after), std::pair(&after, &before)})
    for (const DumpedRow& row : *one)
      if (!other->contains(row)) inodes.insert(row.inodes.begin(), row.inodes.end());
  return inodes;
}

inline std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += fmt::format("  {} {}: {} [{}]\n", finding.kind, finding.where, finding.what,
                        finding.repair);
  return text;
}

}  // namespace s3oram
