// Tests the positions of names in directories.
#include "fused/files/listings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

namespace s3oram {
namespace {

constexpr DirPosition kLargest32 = std::numeric_limits<std::int32_t>::max();

std::vector<DirectoryEntry> all_of(const Listing& listing) {
  std::vector<DirectoryEntry> entries;
  listing.read(0, std::numeric_limits<std::size_t>::max(), entries);
  return entries;
}

/// A hash that many names share.
DirPosition coarse(std::string_view name) { return 3 + usual_position(name) % 16; }
DirPosition same(std::string_view) { return 7; }

std::vector<DirectoryEntry> numbered(int count) {
  std::vector<DirectoryEntry> entries;
  for (int i = 0; i < count; ++i)
    entries.push_back({"name " + std::to_string(i), static_cast<Ino>(i + 2), S_IFREG});
  return entries;
}

TEST(Listings, PositionsNeverChange) {  // clients keep them
  EXPECT_EQ(usual_position("a"), 916'517'967u);
  EXPECT_EQ(usual_position("a file with a longer name"), 199'095'512u);
}

TEST(Listings, PositionsFitThirtyTwoBitProgramsAndAreUnique) {
  constexpr int kNames = 1'000'000;  // some hundred pairs of them have the same hash
  const auto entries = all_of(Listing(numbered(kNames)));
  ASSERT_EQ(entries.size(), std::size_t{kNames});
  DirPosition last = kPositionOfParent;
  for (const DirectoryEntry& entry : entries) {
    ASSERT_GT(entry.position, last);
    last = entry.position;
  }
  EXPECT_LE(last, kLargest32);
}

TEST(Listings, OfNamesWithOneHashTheOlderInodeComesFirst) {
  const Listing listing({{"young", 9, S_IFREG}, {"old", 4, S_IFREG}}, same);
  const auto entries = all_of(listing);
  EXPECT_EQ(entries[0].name, "old");
  EXPECT_EQ(entries[0].position, 7u);
  EXPECT_EQ(entries[1].position, 8u);
}

TEST(Listings, AReplacedNameKeepsItsPosition) {
  Listing listing(numbered(20), same);
  const auto before = all_of(listing);
  listing.erase(before[3].name);
  listing.put(before[9].name, 77, S_IFDIR);
  const auto after = all_of(listing);
  ASSERT_EQ(after.size(), 19u);
  EXPECT_EQ(after[8].name, before[9].name);
  EXPECT_EQ(after[8].position, before[9].position);
  EXPECT_EQ(after[8].ino, 77u);
  EXPECT_EQ(after[8].type, std::uint32_t{S_IFDIR});
}

// Names come and go between two reads.
TEST(Listings, WhatIsThereAllTheTimeIsReadOnce) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    const auto below = [&](unsigned bound) { return static_cast<int>(dice() % bound); };
    Listing listing(numbered(100), coarse);  // the names with even numbers stay
    std::multiset<std::string> seen;
    for (DirPosition at = 0;;) {
      std::vector<DirectoryEntry> some;
      listing.read(at, static_cast<std::size_t>(1 + below(4)), some);
      if (some.empty()) break;
      for (const DirectoryEntry& entry : some) seen.insert(entry.name);
      at = some.back().position;
      for (int i = 0; i < 10; ++i) {
        const int which = below(200);
        const std::string name = "name " + std::to_string(which);
        const bool stays = which < 100 && which % 2 == 0;
        if (!stays && below(2) == 0)
          listing.erase(name);
        else if (!stays || below(2) == 0)  // another file takes the place of a name that stays
          listing.put(name, static_cast<Ino>(1000 + below(1000)), S_IFREG);
      }
    }
    for (int i = 0; i < 100; i += 2)
      EXPECT_EQ(seen.count("name " + std::to_string(i)), 1u) << "name " << i;
  }
}

TEST(Listings, OpenOnesAreKeptAndOthersForAWhile) {
  Listings listings;
  const Timing::Time start{};
  EXPECT_TRUE(listings.opened(1));
  EXPECT_FALSE(listings.opened(1));
  listings.keep(1, Listing(numbered(10)), start);
  listings.keep(2, Listing(numbered(10)), start);  // no directory is open
  listings.trim(start + Listings::kIdle);
  EXPECT_TRUE(listings.find(1));
  EXPECT_FALSE(listings.find(2));
  listings.closed(1, start);
  listings.trim(start + Listings::kIdle);
  EXPECT_TRUE(listings.find(1)) << "it is still open once";
  listings.closed(1, start);
  listings.trim(start + Listings::kIdle / 2);
  EXPECT_TRUE(listings.find(1));
  EXPECT_TRUE(listings.opened(1)) << "nobody else has it open";
  listings.trim(start + Listings::kIdle);
  EXPECT_TRUE(listings.find(1));
}

TEST(Listings, AsManyNamesAsMayRestAreKeptAndAtLeastTheLastDirectory) {
  Listings listings;
  const int half = static_cast<int>(Listings::kMostIdleNames / 2);
  for (Ino ino = 1; ino <= 3; ++ino) listings.keep(ino, Listing(numbered(half)), {});
  EXPECT_FALSE(listings.find(1));
  EXPECT_TRUE(listings.find(2) && listings.find(3));
  listings.keep(4, Listing(numbered(3 * half)), {});
  EXPECT_FALSE(listings.find(3));
  EXPECT_TRUE(listings.find(4));
}

}  // namespace
}  // namespace s3oram
