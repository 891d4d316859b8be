// A vault.db of an older version is sealed when it is mounted. It is sealed whole or not at all,
// and not if anything in it is damaged.
#include "fused/daemon/raise.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "fused/backup/restore_files.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "tests/base/good.h"
#include "tests/base/kill_at.h"
#include "tests/fused/tables/sample_vault.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr Seed kSecret{1, 2, 3};
using Kind = DatabaseHeader::Kind;

Bytes content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class RaiseTest : public testing::Test {
 protected:
  Kind kind() const { return read_header(vault_.database()).kind; }
  Bytes rows() {
    auto dump = dump_files(vault_.database(), disk_);
    EXPECT_TRUE(dump) << dump.error().message;
    return dump ? dump->tables : Bytes();
  }
  Result<std::string> raise(SealedDisk& disk) {
    auto vault = Vault::find(vault_.path());
    if (!vault) return fail(vault.error());
    return raise_database(*vault, disk);
  }

  DamagedVault vault_;
  SealedDisk disk_{kSecret};
};

TEST_F(RaiseTest, SealsWhatIsSound) {
  const Bytes before = rows();
  ASSERT_EQ(kind(), Kind::plain);
  ASSERT_GOOD(raise(disk_));
  EXPECT_EQ(kind(), Kind::sealed);
  EXPECT_EQ(rows(), before);
  for (const auto& entry : fs::directory_iterator(vault_.path())) {
    if (!entry.is_regular_file()) continue;
    const Bytes bytes = content(entry.path());
    const std::string text(bytes.begin(), bytes.end());
    EXPECT_EQ(text.find("empty-dir"), std::string::npos) << entry.path();
    EXPECT_EQ(entry.path().string().find(".sealing"), std::string::npos);
  }
  const Bytes sealed = content(vault_.database());
  ASSERT_GOOD(raise(disk_));
  EXPECT_EQ(content(vault_.database()), sealed) << "it was sealed already";
}

TEST_F(RaiseTest, LeavesWhatIsDamaged) {
  vault_.change("UPDATE inodes SET size = size + 1 WHERE ino = {a}");
  const Bytes before = content(vault_.database());
  ASSERT_GOOD(raise(disk_));
  EXPECT_EQ(kind(), Kind::plain);
  EXPECT_EQ(content(vault_.database()), before);
}

TEST_F(RaiseTest, LeavesADamagedFile) {
  ASSERT_GOOD(fold_log(vault_.database()));
  Bytes bytes = content(vault_.database());
  bytes[5 * 4096 + 3] ^= 0x40;  // the number of cells of a page
  std::ofstream(vault_.database(), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  ASSERT_GOOD(raise(disk_));
  EXPECT_EQ(kind(), Kind::plain);
}

TEST_F(RaiseTest, IsWholeWhereverItIsCutShort) {
  constexpr std::size_t kEvery = 13;  // system calls
  const Bytes before = rows();
  unsigned plain = 0, sealed = 0;
  for (std::size_t n = 1;; n += kEvery) {
    ASSERT_LT(n, 100'000u);
    const DamagedVault copy;
    const test::Outcome outcome = test::kill_at(n, [&] {
      auto vault = Vault::find(copy.path());
      return vault && raise_database(*vault, disk_).has_value();
    });
    ++(read_header(copy.database()).kind == Kind::plain ? plain : sealed);
    auto left = dump_files(copy.database(), disk_);
    ASSERT_TRUE(left) << n << ": " << left.error().message;
    EXPECT_EQ(left->tables, before) << n;
    auto vault = Vault::find(copy.path());
    ASSERT_GOOD(vault);
    ASSERT_GOOD(raise_database(*vault, disk_));
    EXPECT_EQ(read_header(copy.database()).kind, Kind::sealed) << n;
    left = dump_files(copy.database(), disk_);
    ASSERT_TRUE(left) << n << ": " << left.error().message;
    EXPECT_EQ(left->tables, before) << n;
    if (outcome.ended) break;
  }
  EXPECT_GT(plain, 20u);
  EXPECT_GT(sealed, 1u);
}

// ---- fsck of sealed vaults

TEST_F(RaiseTest, FsckMendsASingleBitAndLosesNothing) {
  const Bytes before = rows();
  ASSERT_GOOD(raise(disk_));
  ASSERT_GOOD(fold_log(vault_.database(), disk_));
  const Bytes whole = content(vault_.database());
  std::mt19937_64 random(5);
  auto vault = Vault::find(vault_.path());
  ASSERT_GOOD(vault);
  ASSERT_GOOD(vault->lock());
  for (int i = 0; i < 6; ++i) {
    Bytes bytes = whole;
    // The first three damage page 1, which says what the file is.
    bytes[random() % (i < 3 ? 4096 : bytes.size())] ^= static_cast<std::uint8_t>(1u << i);
    std::ofstream(vault_.database(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    fs::remove(vault_.database().string() + "-wal");
    fs::remove(vault_.database().string() + "-shm");
    const auto found = check_vault(*vault, disk_, true, [](const std::string&) {});
    ASSERT_GOOD(found);
    EXPECT_EQ(found->left(), 0u) << i;
    EXPECT_EQ(rows(), before) << i;
    EXPECT_EQ(kind(), Kind::sealed);
  }
}

TEST_F(RaiseTest, FsckSaysWhatItCannotLookAt) {
  ASSERT_GOOD(raise(disk_));
  const auto without = vault_.check(false);
  ASSERT_GOOD(without);
  EXPECT_GT(without->left(), 0u);
  EXPECT_NE(without->findings.back().what.find("vault.key"), std::string::npos);
  auto vault = Vault::find(vault_.path());
  ASSERT_GOOD(vault);
  SealedDisk other(Seed{9});
  const auto wrong = check_vault(*vault, other, true, [](const std::string&) {});
  ASSERT_GOOD(wrong);
  EXPECT_NE(wrong->findings.back().what.find("vault.key belongs to another vault"),
            std::string::npos);
  EXPECT_EQ(kind(), Kind::sealed);
}

}  // namespace
}  // namespace s3oram
