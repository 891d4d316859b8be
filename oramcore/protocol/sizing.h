// Chooses a volume's numbers by what an access costs (docs/parameters.md has the formulas).
#pragma once

#include <optional>
#include <string>

#include "oramcore/protocol/line_prediction.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

/// The cost of an access in slots, with its share of an eviction, in a full tree of some height.
struct AccessCost {
  double read = 0;     // by each server, in its retrieval
  double sent = 0;     // between servers, by all together
  double written = 0;  // by each server, to its disk
  double masked = 0;   // by a mirror's client: the masks that it takes off a slot, and checks
};
AccessCost access_cost(const VolumeParams& params, unsigned height);
/// Returns what an access moves over the lines of client and servers.
AccessTraffic access_traffic(const VolumeParams& params, unsigned height);
/// Returns the bytes in all stores together for each byte of data when the tree is full; just after
/// it has grown there are twice as many.
double stored_per_byte(const VolumeParams& params);
/// Returns how many bytes of data fit on a disk that holds `stores` servers' stores and has `bytes`
/// bytes for them.
std::uint64_t data_that_fits(const VolumeParams& params, unsigned stores, std::uint64_t bytes);
/// Returns how many bytes of data the tree holds beyond those that fit at its present `height`, if
/// the stores of so many servers share a disk with `free` bytes: the tree grows by whole levels.
std::uint64_t growth_that_fits(const VolumeParams& params, unsigned stores, unsigned height,
                               std::uint64_t free);
/// Returns the least height of a tree that holds so many blocks.
unsigned height_for(std::uint64_t blocks, unsigned evict_every);
/// Returns the height to which the tree of a volume with so many bytes of data has grown.
unsigned height_with(const VolumeParams& params, std::uint64_t data);

/// The numbers that are given; the rest is chosen.
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
  // Of ring:
  std::optional<std::uint64_t> top_cache = {};  // bytes that top.cache may take; else chosen,
  std::optional<std::uint64_t> free = {};       // also by what is free on the vault's disk
};

/// The block size that is chosen for so many bytes of data.
std::uint32_t block_size_for(std::uint64_t expect);
/// Says why it is so, in a line. `blocks` are expected.
std::string size_reason(const Wishes& wishes, const VolumeParams& params, std::uint64_t blocks);

struct Choice {
  VolumeParams params;
  std::string why;  // lines for a person
};

/// For s3oram and mirror; schemes/registry.h has all schemes. Errors (usage) name the wish that
/// cannot be fulfilled.
Result<Choice> choose_params(const Wishes& wishes);

}  // namespace s3oram
