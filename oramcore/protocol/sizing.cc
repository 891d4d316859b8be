// Chooses a volume's numbers by their cost, and explains the choice.
#include "oramcore/protocol/sizing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "oramcore/base/human.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/bounds.h"
#include "oramcore/protocol/mirror_layers.h"
#include "oramcore/protocol/store_size.h"

namespace s3oram {
namespace {

// Bytes per second that two cores of an ordinary machine reach: reading slots from memory, sending
// between servers (with and without encryption, both ends), and writing to an SSD.
constexpr double kReading = 20e9, kSendingFar = 0.5e9, kSendingNear = 1.5e9, kWriting = 0.4e9;
// Bytes of masks per second that a mirror's client computes.
constexpr double kMasking = 2e9;
// Seconds that an eviction of any size takes for syncs and messages.
constexpr double kEvicting = 10e-3;

// On a fast line, blocks below kSmallestBlock make large files slow. On a line that needs longer
// than kShort for an access, blocks may have as few bytes as kSmallestOnSlowLine.
constexpr std::uint32_t kSmallestOnSlowLine = 16 << 10, kSmallestBlock = 64 << 10,
                        kLargestBlock = 1 << 20;
constexpr double kShort = 0.1;
constexpr std::uint64_t kMostBlocks = 4 << 20;
constexpr std::uint64_t kMemoryPerBlock = 40;
struct Pair {
  std::uint16_t bucket_size, evict_every;
};

/// Returns the pairs worth trying: those with a bound in Ring ORAM's table, or the lowest Z for
/// some values of A.
std::vector<Pair> candidates(Evictor evictor) {
  if (evictor != Evictor::matrix) return {{8, 8}, {16, 20}, {32, 46}};
  std::vector<Pair> pairs;
  for (const std::uint16_t every : {16, 32, 64, 128})
    pairs.push_back({min_bucket_size(every), every});
  return pairs;
}

/// Returns the seconds that the machines need for an access if they do one thing after the other.
double computing(const VolumeParams& params, const AccessCost& cost, bool local) {
  const double servers = params.scheme.servers;
  return params.slot_size() * (cost.masked / kMasking + servers * cost.read / kReading +
                               cost.sent / (local ? kSendingNear : kSendingFar) +
                               (local ? servers : 1) * cost.written / kWriting);
}

Status set_pair(const Wishes& wishes, Pair pair, VolumeParams& params) {
  params.bucket_size = wishes.bucket_size.value_or(pair.bucket_size);
  params.evict_every = wishes.evict_every.value_or(pair.evict_every);
  const auto too_small = [&](std::string_view needed) {
    return fail(Errc::usage,
                "--bucket-size {} overflows too often with --evict-every {}, which the servers can "
                "see: {}; --allow-overflow accepts that",
                params.bucket_size, params.evict_every, needed);
  };
  if (params.evictor == Evictor::matrix) {
    const std::uint16_t least = min_bucket_size(params.evict_every);
    if (!wishes.bucket_size) params.bucket_size = least;
    if (params.bucket_size < least && !wishes.allow_overflow)
      return too_small(fmt::format("{} slots are enough", least));
    return {};
  }
  if (!wishes.bucket_size)
    while (min_stash_slots(params.bucket_size, params.evict_every) == 0) ++params.bucket_size;
  params.stash_slots = min_stash_slots(params.bucket_size, params.evict_every);
  if (params.stash_slots == 0) {
    if (!wishes.allow_overflow)
      return too_small(
          "pairs with fewer than about 2.3 accesses per slot, such as 16 and 20, have a bound");
    params.stash_slots = static_cast<std::uint16_t>(params.bucket_size);
  }
  return {};
}

/// A choice, and the seconds of an access with it: with the lines, and without them.
struct Fit {
  VolumeParams params;
  double seconds, computing;
};

Fit fit(const VolumeParams& params, unsigned height, bool local, const Lines& lines) {
  const double alone =
      kEvicting / params.evict_every + computing(params, access_cost(params, height), local);
  const double over_lines = seconds_between_accesses(access_traffic(params, height), lines);
  return {params, local ? alone : std::max(alone, over_lines), alone};
}

std::uint64_t blocks_of(const Wishes& wishes, std::uint32_t block_size) {
  return (wishes.expect + block_size - 1) / block_size;
}

/// Returns the choices for the block size of `params`, at least one. Errors: usage (none fits).
Result<std::vector<Fit>> fits_of(const Wishes& wishes, const VolumeParams& params) {
  const std::uint64_t blocks = blocks_of(wishes, params.block_size);
  std::vector<Fit> fits;
  std::optional<Error> unfit;
  for (const Pair pair : candidates(params.evictor)) {
    VolumeParams tried = params;
    if (Status set = set_pair(wishes, pair, tried); set)
      fits.push_back(fit(tried, height_for(blocks, tried.filling()), wishes.local, wishes.lines));
    else if (!unfit)
      unfit = std::move(set).error();
  }
  if (fits.empty()) return fail(std::move(*unfit));
  return fits;
}

const Fit& best_of(const std::vector<Fit>& fits) {
  // If a line makes choices equal, the machines decide.
  const auto cost = [](const Fit& each) { return std::pair(each.seconds, each.computing); };
  return *std::ranges::min_element(fits, {}, cost);
}

/// Returns the seconds that an access takes of this machine's line. The servers' lines do not
/// count, because an access does not wait for evictions.
double seconds_on_own_line(const Wishes& wishes, const VolumeParams& params) {
  Lines own = wishes.lines;
  own.between = 0;
  const unsigned height = height_for(blocks_of(wishes, params.block_size), params.filling());
  return seconds_between_accesses(access_traffic(params, height), own);
}

/// Returns the fewest bytes of a block with which so much data has at most kMostBlocks.
std::uint64_t least_block(std::uint64_t expect) {
  return std::bit_ceil((expect + kMostBlocks - 1) / kMostBlocks);
}

// ---- explains the choice, one line for each number ---------------------------------------------

std::string pair_reason(const Wishes& wishes, const std::vector<Fit>& fits,
                        const VolumeParams& best) {
  std::string reason = "as asked";
  if (!wishes.bucket_size || !wishes.evict_every) {
    std::string others;
    for (const auto& [params, seconds, alone] : fits) {
      if (params == best)
        reason = fmt::format("an access takes about {:.1f} ms then", seconds * 1e3);
      else
        others += fmt::format(", {:.1f} with {} and {}", seconds * 1e3, params.bucket_size,
                              params.evict_every);
    }
    reason += others;
  }
  return fmt::format("Buckets of {} slots, an eviction every {} accesses: {}.\n", best.bucket_size,
                     best.evict_every, reason);
}

std::string evictor_reason(const Wishes& wishes, const VolumeParams& params) {
  if (params.is_mirror()) return {};
  return fmt::format("The {} evictor: {}; privacy: {}.\n", name_of(kEvictors, params.evictor),
                     wishes.evictor ? "as asked"
                     : params.evictor == Evictor::shuffle
                         ? "the faster one"
                         : "shuffle needs three servers and computational privacy",
                     name_of(kPrivacies, params.privacy));
}

std::string cost_of(const Wishes& wishes, const VolumeParams& params, std::uint64_t blocks) {
  const unsigned height = height_for(blocks, params.filling());
  const AccessCost cost = access_cost(params, height);
  const double mib = params.block_size / 1024.0 / 1024.0;
  const std::uint64_t store = store_bytes(params, height_with(params, wishes.expect));
  return fmt::format(
             "With {:.1f} GiB of data (a tree of height {}) an access costs each server {:.1f} MiB "
             "read "
             "and {:.1f} MiB written, and {:.1f} MiB between the servers.\n"
             "That much data takes {} of each server's disk, {} in all.\n",
             static_cast<double>(wishes.expect) / (1u << 30), height, cost.read * mib,
             cost.written * mib, cost.sent * mib, human_size(store),
             human_size(params.scheme.servers * store)) +
         (wishes.local ? "" : to_text(predict(access_traffic(params, height), wishes.lines)));
}

/// Returns what S3ORAM protects against and needs, and what a mirror on the same servers would
/// change.
std::string s3oram_reason(const VolumeParams& params) {
  const unsigned threshold = params.scheme.threshold, servers = params.scheme.servers;
  const unsigned spare = servers - threshold - 1;
  std::string reason = fmt::format(
      "S3ORAM on {0} servers: any {1} of them may be curious, or work together, and learn nothing; "
      "all {0} must be up; any {2} that are left can give all data back.\n",
      servers, threshold, threshold + 1);
  if (servers <= kMostMirrors)
    reason += fmt::format(
        "--scheme mirror would go on with any {} of them away, and need less disk and traffic "
        "between the servers, but nobody else has reviewed its security argument yet.\n",
        spare);
  return reason;
}

/// Returns what the scheme protects against, and what it needs.
std::string scheme_reason(const VolumeParams& params) {
  if (!params.is_mirror()) return s3oram_reason(params);
  const unsigned threshold = params.scheme.threshold, servers = params.scheme.servers;
  const unsigned spare = servers - params.workers();
  // A mount needs most of them to begin (InStep::least()), and then only the workers.
  const unsigned at_mount =
      servers - std::max({servers / 2 + 1, servers - threshold, params.workers()});
  return fmt::format(
      "Mirror on {} servers: any {} of them may be curious, lie, or work together, and learn "
      "nothing; {}; any one that is left can give all data back.\n",
      servers, threshold,
      spare == 0          ? fmt::format("all {} must be up", servers)
      : spare == at_mount ? fmt::format("any {} may be away, and everything goes on", spare)
                          : fmt::format("any {} may be away while it is mounted, and {} when it is "
                                        "mounted",
                                        spare, at_mount));
}

}  // namespace

AccessCost access_cost(const VolumeParams& params, unsigned height) {
  const double z = params.bucket_size, a = params.evict_every, h = height;
  const double path = h * z + params.stash_slots;
  AccessCost cost{.read = path + 1.5 * a, .sent = 0, .written = 1};
  if (params.is_mirror()) {
    const double servers = params.scheme.servers, workers = params.workers();
    cost.read /= 2;                                                 // the rows that a query selects
    cost.sent = (2 * (workers - 1) + servers - workers) * path / a  // evictions
                + servers - 1 + workers - 1;                        // relayed, and summed up
    cost.written += path / a;
    cost.masked = workers * (most_layers(height) + path / a);
  } else if (params.evictor == Evictor::shuffle) {
    cost.sent = (2 * (path + a) + 2 * path) / a;
    if (params.security == Security::malicious) cost.sent += (a + 1) / a;
    cost.written += path / a;
  } else {
    const double multiplying = static_cast<double>(params.scheme.quorum());
    cost.sent = multiplying * (params.scheme.servers - 1) * (h + 1) * z / a;
    cost.written += (h + 1) * z / a;
  }
  return cost;
}

AccessTraffic access_traffic(const VolumeParams& params, unsigned height) {
  const double slot = params.slot_size();
  const bool apart = params.privacy == Privacy::information_theoretic;
  const unsigned every = params.maintain_every();
  const double more = every > 0 ? 1 + 1.0 / every : 1;  // turns for maintenance
  const AccessCost cost = access_cost(params, height);
  // The masked products, and a relayed share.
  const double summed =
      params.is_mirror() || apart ? 0 : static_cast<double>(params.scheme.quorum());
  // The traffic between servers without evictions.
  const double first_sent =
      params.is_mirror() ? params.scheme.servers + params.workers() - 2.0 : summed;
  AccessTraffic traffic{.block = params.block_size,
                        .up = slot * (apart ? params.scheme.servers : 1),
                        .down = slot * (apart ? static_cast<double>(params.scheme.quorum()) : 1),
                        .between = more * slot * (cost.sent + summed),
                        .servers = params.scheme.servers,
                        .evict_every = params.evict_every};
  traffic.first_up = traffic.up;
  traffic.first_down = traffic.down;
  traffic.evicting =
      kEvicting / params.evict_every + computing(params, {.written = cost.written - 1}, false);
  traffic.computing = kEvicting / params.evict_every + computing(params, cost, false);
  const double layers = params.is_mirror() ? params.workers() * most_layers(height) : 0;
  traffic.first_computing = computing(
      params, {.read = cost.read, .sent = first_sent, .written = 1, .masked = layers}, false);
  traffic.up *= more;
  traffic.down *= more;
  return traffic;
}

double stored_per_byte(const VolumeParams& params) {
  const auto stores = static_cast<double>(params.scheme.servers * store_bytes(params, kMaxHeight));
  return stores / static_cast<double>(capacity(kMaxHeight, params.filling())) / params.block_size;
}

std::uint64_t data_that_fits(const VolumeParams& params, unsigned stores, std::uint64_t bytes) {
  std::uint64_t blocks = 0;
  for (unsigned height = params.first_height;
       height <= kMaxHeight && stores * store_bytes(params, height) <= bytes; ++height)
    blocks = capacity(height, params.filling());
  return (blocks - std::min<std::uint64_t>(blocks, params.root_buffer_slots())) * params.block_size;
}

std::uint64_t growth_that_fits(const VolumeParams& params, unsigned stores, unsigned height,
                               std::uint64_t free) {
  const std::uint64_t taken = stores * store_bytes(params, height);
  const std::uint64_t now = data_that_fits(params, stores, taken);
  return data_that_fits(params, stores, taken + free) - now;
}

unsigned height_with(const VolumeParams& params, std::uint64_t data) {
  const std::uint64_t blocks = (data + params.block_size - 1) / params.block_size;
  return std::max<unsigned>(params.first_height,
                            height_for(blocks + params.root_buffer_slots(), params.filling()));
}

unsigned height_for(std::uint64_t blocks, unsigned filling) {
  unsigned height = 1;
  while (height < kMaxHeight && capacity(height, filling) < blocks) ++height;
  return height;
}

std::uint32_t first_block_size(const Wishes& wishes) {
  return wishes.block_size.value_or(static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(least_block(wishes.expect), kSmallestBlock, kLargestBlock)));
}

bool wants_smaller_blocks(const Wishes& wishes, std::uint32_t block_size, double seconds) {
  if (wishes.local || wishes.block_size || seconds <= kShort) return false;
  return block_size / 2 >= std::max<std::uint64_t>(kSmallestOnSlowLine, least_block(wishes.expect));
}

std::string size_reason(const Wishes& wishes, const VolumeParams& params, std::uint64_t blocks) {
  const bool few = blocks <= kMostBlocks;
  return fmt::format(
      "Blocks of {} KiB: {}{}.\n", params.block_size >> 10,
      wishes.block_size                     ? "as asked"
      : params.block_size < kSmallestBlock  ? "small, so that small changes are fast on this line"
      : params.block_size == kSmallestBlock ? "the smallest with which large files are fast"
      : few ? "so that there are at most 4 million, because each takes memory of this machine"
            : "the largest",
      few ? ""
          : fmt::format("; {:.1f} GiB of this machine's memory for {} million of them",
                        static_cast<double>(blocks * kMemoryPerBlock) / (1u << 30),
                        blocks / 1'000'000));
}

Result<Choice> choose_params(const Wishes& wishes) {
  const bool can_shuffle =
      wishes.scheme == Scheme{1, 3} && wishes.privacy == Privacy::computational;
  VolumeParams params{.scheme = wishes.scheme};
  params.privacy = wishes.privacy;
  params.evictor = wishes.kind == SchemeKind::mirror
                       ? Evictor::selection
                       : wishes.evictor.value_or(can_shuffle ? Evictor::shuffle : Evictor::matrix);
  params.block_size = first_block_size(wishes);
  S3O_ASSIGN(auto fits, fits_of(wishes, params));
  while (wants_smaller_blocks(wishes, params.block_size,
                              seconds_on_own_line(wishes, best_of(fits).params))) {
    params.block_size /= 2;
    S3O_ASSIGN(fits, fits_of(wishes, params));
  }
  const VolumeParams best = best_of(fits).params;
  const std::uint64_t blocks = blocks_of(wishes, best.block_size);
  S3O_TRY(check_params(best));
  return Choice{best, scheme_reason(best) + size_reason(wishes, best, blocks) +
                          pair_reason(wishes, fits, best) + evictor_reason(wishes, best) +
                          cost_of(wishes, best, blocks)};
}

}  // namespace s3oram
