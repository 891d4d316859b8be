// Chooses a volume's numbers by the cost of an access (docs/parameters.md has the formulas).
#pragma once

#include <optional>
#include <string>

#include "oramcore/protocol/line_prediction.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

/// The cost of an access in slots, including its share of an eviction, in a full tree of some
/// height.
struct AccessCost {
  double read = 0;     // what each server reads in its retrieval
  double sent = 0;     // what all servers together send each other
  double written = 0;  // what each server writes to its disk
  double masked = 0;   // the masks that a mirror's client takes off a slot, and checks
};
AccessCost access_cost(const VolumeParams& params, unsigned height);
/// Returns what an access transfers over the lines of the client and the servers.
AccessTraffic access_traffic(const VolumeParams& params, unsigned height);
/// Returns the total bytes in all stores for each byte of data when the tree is full; just after it
/// has grown, they are twice as many.
double stored_per_byte(const VolumeParams& params);
/// Returns how many bytes of data fit on a disk that holds `stores` servers' stores and has `bytes`
/// bytes for them.
std::uint64_t data_that_fits(const VolumeParams& params, unsigned stores, std::uint64_t bytes);
/// Returns how many more bytes of data the tree can hold than those that fit at its current
/// `height`, if `stores` servers' stores share a disk with `free` bytes. The tree grows by whole
/// levels.
std::uint64_t growth_that_fits(const VolumeParams& params, unsigned stores, unsigned height,
                               std::uint64_t free);
/// Returns the lowest height of a tree that holds this many blocks (VolumeParams::filling).
unsigned height_for(std::uint64_t blocks, unsigned filling);
/// Returns the height to which the tree of a volume with this many bytes of data has grown.
unsigned height_with(const VolumeParams& params, std::uint64_t data);

/// The numbers that the user gives; the others are chosen.
struct Wishes {
  SchemeKind kind = SchemeKind::s3oram;
  Scheme scheme;
  bool local = false;  // all servers on one machine
  Privacy privacy = Privacy::computational;
  std::uint64_t expect = std::uint64_t{8} << 30;  // bytes of data
  std::optional<Evictor> evictor = {};
  std::optional<std::uint32_t> block_size = {};
  std::optional<std::uint16_t> bucket_size = {}, evict_every = {};
  bool allow_overflow = false;
  Lines lines = {};
  // For ring:
  std::optional<std::uint64_t> top_cache = {};  // bytes that top.cache may take; otherwise chosen
  std::optional<std::uint64_t> free = {};       // free bytes on the vault's disk
};

/// Returns the block size to try first: the largest that may be chosen.
std::uint32_t first_block_size(const Wishes& wishes);
/// Returns whether half the block size is to be tried, because this machine's line is slow: a small
/// change of a file transfers a whole block. `seconds` is what an access takes of the line with
/// blocks of `block_size` bytes.
bool wants_smaller_blocks(const Wishes& wishes, std::uint32_t block_size, double seconds);
/// Returns a line that explains the block size. `blocks` is the number of blocks expected.
std::string size_reason(const Wishes& wishes, const VolumeParams& params, std::uint64_t blocks);

struct Choice {
  VolumeParams params;
  std::string why;  // lines for the user
};

/// Chooses the numbers for s3oram and mirror; schemes/registry.h covers all schemes. Errors: usage,
/// naming the wish that cannot be fulfilled.
Result<Choice> choose_params(const Wishes& wishes);

}  // namespace s3oram
