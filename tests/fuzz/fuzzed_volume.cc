// Writes and reads the blocks of a small volume, and checks what they hold.
#include "tests/fuzz/fuzzed_volume.h"

namespace s3oram::fuzz {
namespace {

VolumeParams params_of(std::uint8_t kind) {
  switch (kind % 4) {
    case 0:
      return test::safe_volume(Evictor::shuffle, 2);
    case 1:
      return test::safe_volume(Evictor::matrix, 2);
    case 2:
      return test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 2});
    default:
      return test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3});
  }
}

}  // namespace

FuzzedVolume::FuzzedVolume(std::uint8_t kind) : cluster_(params_of(kind), 7) {}

void FuzzedVolume::fill() {
  require(cluster_.open_client().has_value(), "a new volume can be opened");
  for (int round = 0; round < 2; ++round)
    for (BlockId block = 0; block < kBlocks; ++block) write(block);
  require(cluster_.commit().has_value(), "a volume can be committed");
}

void FuzzedVolume::write(BlockId block) {
  if (!cluster_.runs(kClient)) return;
  const std::uint64_t generation = next_generation_++;
  generations_[block].insert(generation);
  // Only a commit ensures that the previous content does not come back.
  if (cluster_.write(block, test::pattern(block, generation, test::kBlockSize)) &&
      cluster_.commit())
    generations_[block] = {generation};
}

void FuzzedVolume::read(BlockId block) {
  if (!cluster_.runs(kClient)) return;
  const auto content = cluster_.read(block);
  if (!content) return;
  for (const std::uint64_t generation : generations_[block])
    if (*content == test::pattern(block, generation, test::kBlockSize)) return;
  require(false, "a block holds what was written");
}

bool FuzzedVolume::reopen() {
  if (cluster_.runs(kClient)) cluster_.kill_client();
  return cluster_.open_client().has_value();
}

void FuzzedVolume::expect_all_there() {
  require(reopen(), "the volume can be opened");
  for (BlockId block = 0; block < kBlocks; ++block) {
    require(cluster_.read(block).has_value(), "every block can be read");
    read(block);
  }
  // The volume can still be used, with evictions.
  for (BlockId block = 0; block < kBlocks; ++block) {
    write(block);
    require(generations_[block].size() == 1, "every block can be written");
  }
  for (BlockId block = 0; block < kBlocks; ++block) read(block);
}

}  // namespace s3oram::fuzz
