// Choosing a volume's numbers by what an access costs (docs/parameters.md has the formulas).
#pragma once

#include <optional>
#include <string>

#include "oramcore/protocol/params.h"

namespace s3oram {

/// What an access costs in slots, evictions amortised, in a full tree of some height.
struct AccessCost {
  double read = 0;     // by each server, in its retrieval
  double sent = 0;     // between servers, by all together
  double written = 0;  // by each server, to its disk
};
AccessCost access_cost(const VolumeParams& params, unsigned height);
/// Slots on the disks of all servers together for each block of data, in a full tree. Just after
/// the tree has grown it is twice as many.
std::uint64_t disk_expansion(const VolumeParams& params);
/// Bytes in all stores together for each byte of data when the tree is full; just after it has
/// grown, twice as many.
double stored_per_byte(const VolumeParams& params);
/// How much data, in bytes, fits on a disk that holds the stores of so many servers and has so many
/// bytes for them.
std::uint64_t data_that_fits(const VolumeParams& params, unsigned stores, std::uint64_t bytes);
/// The least height of a tree that holds so many blocks.
unsigned height_for(std::uint64_t blocks, unsigned evict_every);
/// The height that the tree of a volume with so many bytes of data has grown to.
unsigned height_with(const VolumeParams& params, std::uint64_t data);

/// What is given; the rest is chosen.
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
};

struct Choice {
  VolumeParams params;
  std::string why;  // lines for a person
};

/// Errors (usage) name the wish that cannot be fulfilled.
Result<Choice> choose_params(const Wishes& wishes);

}  // namespace s3oram
