// Finds, at mount time, which blocks are in use, free or lost.
#include "fused/files/block_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace s3oram {
namespace {

/// Registers the pieces that lie in packs, and adds the blocks of all extents to `owned`.
void own_places(DataCache& cache, const std::vector<OwnedPlace>& places, std::set<BlockId>& owned) {
  for (const OwnedPlace& each : places) {
    owned.insert(block_of(each.place));
    if (!is_packed(each.place)) continue;
    const bool good = cache.held.good(each.place);
    if (good) cache.packs.add(each.place, each.valid);
    // Unknown pieces may lie in the pack. Counting one more use, which is never released, keeps the
    // pack from being freed.
    if (!good || cache.extents.damaged) cache.packs.add(each.place, 0);
  }
}

/// Frees the blocks without an owner. `lost`: whether blocks are missing.
void free_unowned(FilesState& state, const std::vector<BlockId>& unowned, bool lost) {
  // If tables are damaged, a block without an owner may belong to a lost row. If blocks are
  // missing, it may be one of them under another number.
  if (!unowned.empty() && (state.cache.extents.damaged || state.metadata.damage.any() || lost)) {
    spdlog::error(
        "{} blocks belong to no file, as far as can be told: they are kept until "
        "s3oramfs fsck --repair has mended the extents",
        unowned.size());
    return;
  }
  for (const BlockId block : unowned)
    if (state.cache.numbers.release(block)) state.device.discard(block);
  if (!unowned.empty()) spdlog::info("freed {} blocks of the last mount", unowned.size());
}

}  // namespace

Result<std::uint64_t> check_blocks(FilesState& state, const Backups& backups,
                                   const std::vector<BlockId>& mapped) {
  DataCache& cache = state.cache;
  auto places = state.metadata.owned_places();
  if (!places) {
    cache.held.reset(mapped, {}, cache.block_size());
    return fail(places.error());
  }
  cache.held.reset(mapped, *places, cache.block_size());
  const std::vector<BlockId> of_backups = backups.blocks();
  for (const BlockId block : of_backups) cache.held.released(block);  // they belong to no file
  std::set<BlockId> owned(of_backups.begin(), of_backups.end());
  S3O_ASSIGN(const auto counted,
             state.metadata.number("SELECT CAST(TOTAL(blocks) AS INTEGER) FROM inodes"));
  cache.extents.damaged = static_cast<std::uint64_t>(counted) > places->size() ||
                          (!places->empty() && places->back().place == kImpossibleBlock);
  if (cache.held.any_bad())
    state.metadata.damage.note("vault.db, table extents: two files claim the same block");
  own_places(cache, *places, owned);
  std::vector<BlockId> lost, unowned;
  std::set_difference(owned.begin(), owned.end(), mapped.begin(), mapped.end(),
                      std::back_inserter(lost));
  cache.numbers.reset(mapped, {lost.begin(), lost.end()},
                      backups.any() || state.options.back_up_every.count() > 0);
  std::erase(lost, block_of(kImpossibleBlock));
  if (!lost.empty())
    spdlog::error("{} blocks of files are lost, and reading them will fail: run s3oramfs fsck",
                  lost.size());
  if (state.options.read_only) return lost.size();
  std::set_difference(mapped.begin(), mapped.end(), owned.begin(), owned.end(),
                      std::back_inserter(unowned));
  free_unowned(state, unowned, !lost.empty());
  return lost.size();
}

}  // namespace s3oram
