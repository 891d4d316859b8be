// Tests that a vault.db of another volume or key, or with other numbers, is refused.
#include "oramcore/client/owner.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

class OwnerTest : public testing::Test {
 protected:
  OwnerTest() {
    auto opened = Database::open((directory_ / "vault.db").string(), Database::Mode::create);
    EXPECT_TRUE(opened);
    database_ = std::move(*opened);
    owner_.volume = {1, 2, 3};
    owner_.params.block_size = 4096;
    owner_.params.evict_every = 20;
  }

  /// Returns why the vault is refused; empty if it is not.
  std::string refusal(const Owner& owner) {
    const auto other = other_owner(database_, owner);
    EXPECT_TRUE(other);
    return other ? *other : other.error().message;
  }

  TemporaryDirectory directory_;
  Database database_;
  Owner owner_;
};

TEST_F(OwnerTest, OtherVolumesNumbersAndKeysAreRefusedByName) {
  owner_.sealing = Seed{7};
  EXPECT_EQ(refusal(owner_), "") << "nothing is known yet";
  ASSERT_TRUE(keep_owner(database_, owner_));
  Owner other = owner_;
  other.volume = {9};
  EXPECT_NE(refusal(other).find("another vault than vault.json"), std::string::npos);
  other = owner_;
  other.params.evict_every = 21;
  EXPECT_NE(refusal(other).find("evict_every 21 instead of 20"), std::string::npos);
  other = owner_;
  other.sealing = Seed{8};
  EXPECT_NE(refusal(other).find("vault.key belongs to another vault"), std::string::npos);
  other.sealing.reset();
  EXPECT_EQ(refusal(other), "") << "the caller does not know the key";
  EXPECT_EQ(refusal(owner_), "");
}

TEST_F(OwnerTest, WithoutTheKeyAtFirstNoneIsRefused) {
  ASSERT_TRUE(keep_owner(database_, owner_));
  for (const std::uint8_t key : {1, 2}) {
    owner_.sealing = Seed{key};
    EXPECT_EQ(refusal(owner_), "");
  }
}

TEST_F(OwnerTest, ADamagedRowIsMadeAnew) {
  ASSERT_TRUE(keep_owner(database_, owner_));
  ASSERT_TRUE(database_.execute("UPDATE owner SET checksum = x'00'"));
  owner_.params.evict_every = 21;
  EXPECT_EQ(refusal(owner_), "");
  ASSERT_TRUE(keep_owner(database_, owner_));
  owner_.params.evict_every = 20;
  EXPECT_NE(refusal(owner_).find("evict_every 20 instead of 21"), std::string::npos);
}

TEST(Difference, NamesTheFirstNumber) {
  VolumeParams params, right;
  EXPECT_EQ(difference(params, right), "");
  right.scheme.servers = params.scheme.servers + 1;
  params.evictor = Evictor::shuffle;
  right.evictor = Evictor::matrix;
  EXPECT_EQ(difference(params, right),
            fmt::format("servers {} instead of {}", params.scheme.servers, right.scheme.servers));
  params.scheme = right.scheme;
  EXPECT_EQ(difference(params, right), "evictor shuffle instead of matrix");
}

}  // namespace
}  // namespace s3oram
