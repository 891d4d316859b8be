// Tests of the table of share marks, in its database and over growth.
#include "oramcore/client/mark_table.h"

#include <gtest/gtest.h>

#include "oramcore/protocol/layout.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

MarkRow row_of(std::uint64_t eviction, unsigned height) {
  MarkRow row{eviction, height, {}};
  for (std::uint8_t server = 1; server <= 3; ++server) {
    row.marks.emplace_back(Mark{});
    row.marks.back()->fill(static_cast<std::uint8_t>(16 * server + eviction));
  }
  return row;
}

class MarkTableTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened =
        Database::open((directory_ / "marks.db").string(), Database::Mode::create, system_disk());
    ASSERT_GOOD(opened);
    database_ = std::move(*opened);
    ASSERT_GOOD(database_.execute(MarkTable::kCreate));
    ASSERT_GOOD(table_.open(database_));
  }
  void TearDown() override { table_ = MarkTable(); }  // before the database

  /// Writes the rows of an eviction.
  void evict(std::uint64_t eviction, unsigned height) {
    for (unsigned level = 1; level <= height; ++level)
      ASSERT_GOOD(table_.put(bucket_on_path(eviction, level), row_of(eviction, height)));
    ASSERT_GOOD(table_.put(kStashBucket, row_of(eviction, height)));
  }
  /// Returns the eviction whose marks hold for the bucket; std::nullopt if none do.
  std::optional<std::uint64_t> holds(BucketIndex bucket, unsigned height) {
    const auto found = table_.find(bucket, height);
    EXPECT_TRUE(found);
    if (!found || !*found) return std::nullopt;
    EXPECT_EQ(**found, row_of((*found)->eviction, (*found)->height));
    return (*found)->eviction;
  }
  std::int64_t rows() {
    auto count = database_.prepare("SELECT count(*) FROM marks");
    EXPECT_TRUE(count && count->step());
    return count->integer(0);
  }

  const TemporaryDirectory directory_;
  Database database_;
  MarkTable table_;
};

TEST(MarkRows, AreReadAsTheyWereWritten) {
  MarkRow row = row_of(5, 3);
  row.marks[1].reset();
  const Bytes bytes = encode_marks(9, row);
  EXPECT_EQ(bytes.size(), 8u + 1 + 3 * 16 + 8);
  EXPECT_EQ(decode_marks(9, bytes), row);
  EXPECT_FALSE(decode_marks(8, bytes)) << "it is another bucket's";
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= 4;
    EXPECT_FALSE(decode_marks(9, damaged)) << at;
    EXPECT_FALSE(decode_marks(9, ByteSpan(bytes).first(at))) << at;
  }
}

TEST_F(MarkTableTest, TheLastEvictionCounts) {
  for (std::uint64_t eviction = 0; eviction < 6; ++eviction) evict(eviction, 2);
  EXPECT_EQ(holds(bucket_on_path(0, 1), 2), 4u);
  EXPECT_EQ(holds(bucket_on_path(1, 1), 2), 5u);
  EXPECT_EQ(holds(bucket_on_path(0, 2), 2), 4u);
  EXPECT_EQ(holds(bucket_on_path(2, 2), 2), 2u);
  EXPECT_EQ(holds(bucket_on_path(3, 2), 2), 3u);
  EXPECT_EQ(holds(kStashBucket, 2), 5u);
  EXPECT_EQ(holds(kStashBucket + 1, 2), std::nullopt);
}

// Compares with a model in which every bucket has its content, through several growths.
TEST_F(MarkTableTest, MarksStayWithTheContentWhenTheTreeGrows) {
  std::map<BucketIndex, std::uint64_t> model;
  unsigned height = 1;
  std::uint64_t eviction = 0;
  const auto check = [&] {
    for (BucketIndex bucket = 2; bucket <= bucket_count(height); ++bucket) {
      const auto found = model.find(bucket);
      EXPECT_EQ(holds(bucket, height),
                found == model.end() ? std::nullopt : std::optional(found->second))
          << "bucket " << bucket << " after " << eviction << " evictions, height " << height;
    }
  };
  for (const unsigned before_growth : {1, 1, 3, 0, 0, 7, 2}) {
    for (unsigned i = 0; i < before_growth; ++i, ++eviction) {
      ASSERT_NO_FATAL_FAILURE(evict(eviction, height));
      for (unsigned level = 1; level <= height; ++level)
        model[bucket_on_path(eviction, level)] = eviction;
      check();
    }
    for (BucketIndex leaf = BucketIndex{1} << height; leaf < BucketIndex{2} << height; ++leaf) {
      const auto content = model.extract(leaf);
      if (content)
        for (const unsigned edge : {0u, 1u}) model[child_of(leaf, edge)] = content.mapped();
    }
    ++height;
    check();
  }
}

// What replaces the shares of a bucket replaces those of all buckets with the same content.
TEST_F(MarkTableTest, ErasingForgetsAllThatShareTheContent) {
  for (std::uint64_t eviction = 0; eviction < 2; ++eviction) evict(eviction, 1);
  // The tree grows twice, and an eviction copies the rows of the first leaf.
  evict(2, 3);
  const auto others = [&] {
    EXPECT_EQ(holds(bucket_on_path(1, 3), 3), 1u) << "it has another content";
    EXPECT_EQ(holds(bucket_on_path(2, 3), 3), 2u);
    EXPECT_EQ(holds(bucket_on_path(2, 1), 3), 2u);
  };
  for (const Leaf leaf : {0, 4, 6}) EXPECT_EQ(holds(bucket_on_path(leaf, 3), 3), 0u);
  others();
  ASSERT_GOOD(table_.erase(bucket_on_path(4, 3), 3));
  for (const Leaf leaf : {0, 4, 6}) EXPECT_EQ(holds(bucket_on_path(leaf, 3), 3), std::nullopt);
  others();
  ASSERT_GOOD(table_.erase(bucket_on_path(5, 3), 3));
  for (const Leaf leaf : {1, 3, 5, 7}) EXPECT_EQ(holds(bucket_on_path(leaf, 3), 3), std::nullopt);
  ASSERT_GOOD(table_.erase(bucket_on_path(2, 3), 3));
  EXPECT_EQ(holds(bucket_on_path(2, 3), 3), std::nullopt);
  EXPECT_EQ(holds(bucket_on_path(2, 2), 3), 2u);
  ASSERT_GOOD(table_.erase(kStashBucket, 3));
  EXPECT_EQ(holds(kStashBucket, 3), std::nullopt);
  EXPECT_EQ(rows(), 2);
}

TEST_F(MarkTableTest, ADamagedRowIsNone) {
  evict(0, 1);
  ASSERT_GOOD(database_.execute("UPDATE marks SET marks = zeroblob(65) WHERE bucket = 2"));
  EXPECT_EQ(holds(2, 1), std::nullopt);
  evict(2, 2);
  EXPECT_EQ(holds(2, 2), 2u);
  EXPECT_EQ(holds(bucket_on_path(0, 2), 2), std::nullopt);
}

}  // namespace
}  // namespace s3oram
