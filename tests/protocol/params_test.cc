// Tests which numbers of a volume are accepted, and what follows from them.
#include "oramcore/protocol/params.h"

#include <gtest/gtest.h>

#include "oramcore/oram/geometry.h"

namespace s3oram {
namespace {

VolumeParams shuffle() {
  return {.scheme = {1, 3},
          .block_size = 32768,
          .bucket_size = 16,
          .evict_every = 20,
          .evictor = Evictor::shuffle,
          .stash_slots = 96,
          .privacy = Privacy::computational};
}
VolumeParams matrix() { return {{2, 5}, 32768, 81, 20}; }

VolumeParams mirror() {
  VolumeParams params = shuffle();
  params.scheme = {1, 2};
  params.evictor = Evictor::selection;
  return params;
}

template <class Change>
std::string refusal(VolumeParams params, Change change) {
  change(params);
  const Status status = check_params(params);
  if (status) return "";
  EXPECT_EQ(status.error().code, Errc::usage);
  return status.error().message;
}

TEST(VolumeParams, CountTheRootsSlots) {
  EXPECT_EQ(shuffle().root_buffer_slots(), 40u);
  EXPECT_EQ(shuffle().root_slots(), 136u);
  EXPECT_EQ(shuffle().stash_buckets(), 6u);
  EXPECT_EQ(matrix().root_slots(), 40u);
  EXPECT_EQ(matrix().stash_buckets(), 0u);
}

TEST(VolumeParams, PossibleOnesAreAccepted) {
  const auto nothing = [](VolumeParams&) {};
  EXPECT_EQ(refusal(shuffle(), nothing), "");
  EXPECT_EQ(refusal(matrix(), nothing), "");
  EXPECT_EQ(refusal(matrix(), [](VolumeParams& p) { p.privacy = Privacy::computational; }), "");
  EXPECT_EQ(refusal(matrix(), [](VolumeParams& p) { p.scheme = {1, 4}; }), "");
  EXPECT_EQ(refusal(matrix(), [](VolumeParams& p) { p.bucket_size = p.evict_every; }), "");
  EXPECT_EQ(refusal(shuffle(), [](VolumeParams& p) { p.stash_slots = 16; }), "");
  EXPECT_EQ(refusal(shuffle(), [](VolumeParams& p) { p.first_height = kMaxHeight; }), "");
  for (const Scheme scheme : {Scheme{1, 2}, Scheme{1, 6}, Scheme{2, 3}, Scheme{5, 6}})
    EXPECT_EQ(refusal(mirror(), [&](VolumeParams& p) { p.scheme = scheme; }), "");
}

TEST(VolumeParams, ImpossibleOnesAreRefusedByName) {
  using Change = void (*)(VolumeParams&);
  const struct {
    VolumeParams params;
    Change change;
    const char* named;
  } cases[] = {
      {matrix(), [](VolumeParams& p) { p.scheme.threshold = 0; }, "at least 1"},
      {matrix(), [](VolumeParams& p) { p.scheme.servers = 4; }, "4 servers are too few"},
      {matrix(), [](VolumeParams& p) { p.block_size = 0; }, "block size of 0"},
      {matrix(), [](VolumeParams& p) { p.block_size = kLeastBlockSize - 1; }, "block size"},
      {matrix(), [](VolumeParams& p) { p.block_size = kMostBlockSize + 1; }, "block size"},
      {matrix(), [](VolumeParams& p) { p.evict_every = 0; }, "not 0"},
      {matrix(), [](VolumeParams& p) { p.evict_every = 4097; }, "not 4097"},
      {matrix(), [](VolumeParams& p) { p.bucket_size = 19; }, "19 slots"},
      {matrix(), [](VolumeParams& p) { p.bucket_size = 1025; }, "1 to 1024 slots, not 1025"},
      {matrix(), [](VolumeParams& p) { p.stash_slots = 81; }, "no stash slots"},
      {matrix(), [](VolumeParams& p) { p.first_height = 0; }, "height 0 is"},
      {matrix(), [](VolumeParams& p) { p.first_height = kMaxHeight + 1; }, "height 31 is"},
      {matrix(), [](VolumeParams& p) { p.evictor = Evictor{4}; }, "evictor"},
      {matrix(), [](VolumeParams& p) { p.privacy = Privacy{2}; }, "privacy"},
      {shuffle(),
       [](VolumeParams& p) {
         p.scheme = {1, 4};
       },
       "needs 3 servers"},
      {shuffle(),
       [](VolumeParams& p) {
         p.scheme = {2, 5};
       },
       "needs 3 servers"},
      {mirror(),
       [](VolumeParams& p) {
         p.scheme = {2, 2};
       },
       "3 to 6 servers"},
      {mirror(),
       [](VolumeParams& p) {
         p.scheme = {1, 7};
       },
       "2 to 6 servers"},
      {mirror(),
       [](VolumeParams& p) {
         p.scheme = {0, 2};
       },
       "1 to 6 servers"},
      {mirror(), [](VolumeParams& p) { p.privacy = {}; }, "computational"},
      {mirror(), [](VolumeParams& p) { p.block_size = 1000; }, "multiples of 16"},
      {mirror(), [](VolumeParams& p) { p.stash_slots = 65; }, "65 stash slots"},
      {mirror(),
       [](VolumeParams& p) {
         p.bucket_size = 256;
         p.stash_slots = 256;
       },
       "paths of more than 4096"},
      {shuffle(), [](VolumeParams& p) { p.privacy = {}; }, "not information-theoretic"},
      {shuffle(), [](VolumeParams& p) { p.stash_slots = 0; }, "0 stash slots"},
      {shuffle(), [](VolumeParams& p) { p.stash_slots = 65; }, "65 stash slots"},
      {shuffle(), [](VolumeParams& p) { p.stash_slots = 0xfff0; }, "root of 65560"},
      {shuffle(), [](VolumeParams& p) { p.bucket_size = 0; }, "slots, not 0"},
  };
  for (const auto& test : cases) {
    const std::string message = refusal(test.params, test.change);
    EXPECT_NE(message.find(test.named), std::string::npos)
        << test.named << ": " << (message.empty() ? "accepted" : message);
  }
}

// Shamir shares of degree t, or replicas, any one of which gives the slot.
TEST(VolumeParams, HowManyServersAreEnough) {
  EXPECT_EQ(matrix().enough(), 3u);
  EXPECT_EQ(matrix().workers(), 5u);
  EXPECT_EQ(mirror().enough(), 1u);
  EXPECT_EQ(mirror().workers(), 2u);
  EXPECT_EQ(mirror().slot_size(), mirror().block_size + 80 + 1024);
  EXPECT_EQ(shuffle().slot_size(), shuffle().block_size + 64);
  EXPECT_EQ(shuffle().maintain_every(), 0u);
}

TEST(VolumeParams, NamesOfKinds) {
  EXPECT_EQ(name_of(kEvictors, Evictor::shuffle), "shuffle");
  EXPECT_EQ(name_of(kPrivacies, Privacy::information_theoretic), "information-theoretic");
  EXPECT_EQ(name_of(kEvictors, Evictor{9}), "unknown");
}

}  // namespace
}  // namespace s3oram
