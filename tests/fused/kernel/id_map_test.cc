// Tests the translation of ids inside and outside a user namespace.
#include "fused/kernel/id_map.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

TEST(IdMap, TheFirstNamespaceTranslatesNothing) {
  const IdMap map("         0          0 4294967295\n");
  EXPECT_TRUE(map.is_identity());
  for (const std::uint32_t id : {0u, 1000u, 4'294'967'294u}) {
    EXPECT_EQ(map.inside(id), id);
    EXPECT_EQ(map.outside(id), id);
  }
}

TEST(IdMap, OneUserAsRoot) {  // unshare -Ur
  const IdMap map("         0       1000          1\n");
  EXPECT_EQ(map.inside(1000), 0u);
  EXPECT_EQ(map.outside(0), 1000u);
  for (const std::uint32_t id : {0u, 999u, 1001u, 65'534u, kNoId}) EXPECT_EQ(map.inside(id), kNoId);
  for (const std::uint32_t id : {1u, 1000u, 65'534u, kNoId}) EXPECT_EQ(map.outside(id), kNoId);
}

TEST(IdMap, ARootlessContainer) {
  const IdMap map("0 1000 1\n1 100000 65536\n");
  EXPECT_EQ(map.inside(1000), 0u);
  EXPECT_EQ(map.inside(100'000), 1u);
  EXPECT_EQ(map.outside(33), 100'032u);
  EXPECT_EQ(map.inside(165'535), 65'536u);
  EXPECT_EQ(map.inside(165'536), kNoId);
  EXPECT_EQ(map.outside(65'537), kNoId);
}

TEST(IdMap, RangesMayEndWithTheLargestIds) {
  const IdMap map("0 4294967290 5\n4294967290 0 5\n");
  EXPECT_EQ(map.inside(4'294'967'294u), 4u);
  EXPECT_EQ(map.outside(4'294'967'294u), 4u);
  EXPECT_EQ(map.inside(5), kNoId);
}

TEST(IdMaps, ThisProcessIsWhatItsFilesSay) {
  struct stat attributes {};
  ASSERT_EQ(::stat("/proc/self/status", &attributes), 0);
  const IdMaps maps = IdMaps::of_this_process();
  EXPECT_EQ(maps.users.inside(maps.users.outside(attributes.st_uid)), attributes.st_uid);
}

}  // namespace
}  // namespace s3oram
