// A mirror's evictions: private selections from the old path, masked by every worker.
#include "serverd/mirror/selection_eviction.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "oramcore/field/gf256.h"

namespace s3oram {
namespace {

enum Step : std::size_t { kExchange, kSum, kNewRows, kStepCount };

std::size_t evicted_slots(const EvictionInput& input) {
  return PathSlots::evicted(input.volume.params, input.id.eviction, input.height).count();
}

unsigned role_of(Party server, ByteSpan workers) {
  const auto found = std::ranges::find(workers, server);
  return found == workers.end() ? 0 : static_cast<unsigned>(found - workers.begin() + 1);
}

bool are_servers(const std::set<Party>& some, const VolumeParams& params) {
  return !some.empty() && *some.begin() >= 1 && *some.rbegin() <= params.scheme.servers;
}

/// Returns whether the orders are complete: a matrix of the right size, masks only for a worker,
/// and existing servers as workers and takers.
bool complete(const PartialSelectionOrders& orders, const VolumeDescription& volume,
              std::size_t matrix_size) {
  const VolumeParams& params = volume.params;
  const std::set<Party> workers(orders.workers.begin(), orders.workers.end());
  const std::set<Party> takers(orders.takers.begin(), orders.takers.end());
  if (orders.workers.size() != params.workers() || workers.size() != orders.workers.size() ||
      takers.size() != orders.takers.size() || !are_servers(takers, params) ||
      !std::ranges::includes(takers, workers) || !takers.contains(volume.server))
    return false;
  const bool works = workers.contains(volume.server);
  const bool has_matrix = orders.matrix_seed.has_value() != !orders.matrix.empty();
  return orders.mask.has_value() == works && (works ? has_matrix : orders.matrix.empty()) &&
         (orders.matrix.empty() || orders.matrix.size() == matrix_size);
}

}  // namespace

Result<std::shared_ptr<Eviction>> SelectionEviction::make(EvictionInput input,
                                                          const EvictionHost& host) {
  const auto orders = decode_selection_orders(input.orders, input.volume.params.scheme.servers);
  const std::size_t slots = evicted_slots(input);
  const std::size_t kept = slots - input.volume.params.evict_every;
  if (!orders || !complete(*orders, input.volume, kept * gf::bit_row(slots)))
    return fail(Errc::bad_request, "not the orders of server {}", input.volume.server);
  return std::shared_ptr<Eviction>(
      std::make_shared<SelectionEviction>(std::move(input), host, *orders));
}

SelectionEviction::SelectionEviction(EvictionInput input, const EvictionHost& host,
                                     PartialSelectionOrders orders)
    : Eviction(std::move(input), host, evicted_slots(input) - input.volume.params.evict_every,
               kStepCount),
      orders_(std::move(orders)),
      attempt_(mirror::layer_attempt(input_.id.attempt)),
      slots_(evicted_slots(input_)),
      kept_(slots_ - params().evict_every),
      role_(role_of(self(), orders_.workers)),
      zeros_(params().slot_size()) {
  if (role_ == 0) return;
  matrix_.assign(orders_.matrix.begin(), orders_.matrix.end());
  if (!orders_.matrix_seed) return;
  matrix_.resize(kept_ * gf::bit_row(slots_));
  Prg(*orders_.matrix_seed, as_bytes("selection")).fill(matrix_);
}

const std::uint8_t* SelectionEviction::row(std::size_t slot) const {
  const std::size_t dropped = slots_ - kept_;
  if (slot < dropped) return slot < writes_.rows.size() ? writes_.rows[slot] : zeros_.data();
  const std::size_t z = params().bucket_size;
  const PathBucket& bucket = path_[(slot - dropped) / z];
  slot = (slot - dropped) % z;
  return slot < bucket.slots ? bucket.bucket_version->slot(slot) : zeros_.data();
}

void SelectionEviction::keep_headers() {
  headers_.resize(slots_ * mirror::kHeader);
  for (std::size_t slot = 0; slot < slots_; ++slot)
    std::memcpy(headers_.data() + slot * mirror::kHeader, row(slot), mirror::kHeader);
}

void SelectionEviction::shift(std::size_t slot, std::size_t begin, MutableByteSpan to) const {
  const std::uint8_t* const header = headers_.data() + slot * mirror::kHeader;
  const std::size_t end = begin + to.size();
  const std::size_t from = std::max(begin, mirror::kEntry), until = std::min(end, mirror::kHeader);
  if (from < until)
    std::memcpy(to.data() + from - begin, header + from - mirror::kEntry, until - from);
  if (end > mirror::kHeader) {
    const std::size_t body = std::max(begin, mirror::kHeader);
    std::memcpy(to.data() + body - begin, row(slot) + body, end - body);
  }
}

Bytes SelectionEviction::multiply(std::uint32_t tile) const {
  const std::size_t begin = tile_begin(tile), width = tile_width(tile);
  std::vector<const std::uint8_t*> rows(slots_);
  Bytes shifted;
  if (begin < mirror::kHeader) shifted.resize(slots_ * width);
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    if (shifted.empty()) {
      rows[slot] = row(slot) + begin;
      continue;
    }
    const MutableByteSpan to = MutableByteSpan(shifted).subspan(slot * width, width);
    shift(slot, begin, to);
    rows[slot] = to.data();
  }
  Bytes product(kept_ * width);
  std::vector<std::uint8_t*> outs(kept_);
  for (std::size_t place = 0; place < kept_; ++place) outs[place] = product.data() + place * width;
  gf::bit_product(matrix_, rows, outs, width);
  mirror::Mask mask(*orders_.mask);
  for (std::size_t place = 0; place < kept_; ++place)
    mask.add(static_cast<std::uint16_t>(place), begin, {outs[place], width});
  return product;
}

void SelectionEviction::store(std::uint32_t tile, ByteSpan rows) {
  const std::size_t begin = tile_begin(tile), width = tile_width(tile), z = params().bucket_size;
  for (std::size_t place = 0; place < kept_; ++place) {
    std::uint8_t* const to = path_[place / z].bucket_version->slot(place % z) + begin;
    std::memcpy(to, rows.data() + place * width, width);
    if (begin == 0)
      mirror::put_entry(attempt_, static_cast<std::uint16_t>(place), {to, mirror::kEntry});
  }
}

bool SelectionEviction::needs(Party peer) const { return role_of(peer, orders_.workers) != 0; }

Task<Status> SelectionEviction::evict_tile(std::uint32_t tile) {
  return role_ == 0 ? follow(tile) : work(tile);
}

Task<Status> SelectionEviction::add_from(Party from, std::size_t step, std::uint32_t tile,
                                         Bytes& rows) {
  S3O_CO_ASSIGN(const auto theirs, co_await await(from, step, tile, rows.size()));
  co_await offload(host_.pool, [&] { gf::multiply_add(1, theirs, rows); });
  forget(from, step, tile);
  co_return Status{};
}

Task<Status> SelectionEviction::exchange(std::uint32_t tile, Bytes& rows) {
  const Bytes& workers = orders_.workers;
  if (workers.size() == 2) {
    const Party other = workers[2 - role_];
    send(other, kExchange, tile, rows);
    co_return co_await add_from(other, kExchange, tile, rows);
  }
  const Party adding = workers[aggregator(tile) - 1];
  if (adding != self()) {
    send(adding, kExchange, tile, rows);
    std::ranges::fill(rows, std::uint8_t{0});
    co_return co_await add_from(adding, kSum, tile, rows);
  }
  for (const Party worker : workers)
    if (worker != self()) S3O_CO_TRY(co_await add_from(worker, kExchange, tile, rows));
  for (const Party worker : workers)
    if (worker != self()) send(worker, kSum, tile, rows);
  co_return Status{};
}

Task<Status> SelectionEviction::work(std::uint32_t tile) {
  if (headers_.empty()) keep_headers();
  Bytes rows = co_await offload(host_.pool, [&] { return multiply(tile); });
  S3O_CO_TRY(co_await exchange(tile, rows));
  if (role_ == aggregator(tile))
    for (const Party server : orders_.takers)
      if (role_of(server, orders_.workers) == 0) send(server, kNewRows, tile, rows);
  co_await offload(host_.pool, [&] { store(tile, rows); });
  co_return Status{};
}

Task<Status> SelectionEviction::follow(std::uint32_t tile) {
  const Party from = orders_.workers[aggregator(tile) - 1];
  S3O_CO_ASSIGN(const auto rows, co_await await(from, kNewRows, tile, kept_ * tile_width(tile)));
  co_await offload(host_.pool, [&] { store(tile, rows); });
  forget(from, kNewRows, tile);
  co_return Status{};
}

}  // namespace s3oram
