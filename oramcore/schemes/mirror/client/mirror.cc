// Slots, queries, root writes and orders of mirror.
#include "oramcore/schemes/mirror/client/mirror.h"

#include <sodium.h>

#include <algorithm>
#include <numeric>

#include "oramcore/field/gf256.h"
#include "oramcore/protocol/mirror_layers.h"
#include "oramcore/schemes/mirror/client/row_verdict.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {
namespace {

// Peeling a larger slot is shared among threads, in parts that take about half a millisecond.
constexpr std::size_t kPartOfPeeling = 2 << 20, kMostParts = 4;

/// Returns the label's bytes, as they are sealed.
LabelBytes bytes_of(const Label& label) {
  LabelBytes bytes;
  const std::uint64_t back = label_back(label);
  std::memcpy(bytes.data(), &label.block, 8);
  std::memcpy(bytes.data() + 8, &label.version, 8);
  std::memcpy(bytes.data() + kLabelFront, &back, kLabelBack);
  return bytes;
}

/// Returns what follows the header of a slot.
Bytes body_of(ByteSpan slot) { return {slot.begin() + mirror::kHeader, slot.end()}; }

/// Sends the sealed block to one server in step, which relays it to the others.
class Relay final : public RootUpload {
 public:
  Relay(const InStep& servers, const WriteRootRequest& request, Bytes slot)
      : request_(request),
        takers_(servers.takers()),
        giver_(servers.workers(request.write_number, 1).front()),
        slot_(std::move(slot)) {
    const ByteSpan sealed = part();
    crypto_generichash(digest_.data(), digest_.size(), sealed.data(), sealed.size(), nullptr, 0);
  }
  Bytes message(Party server) const override {
    WriteRootRequest message = request_;
    SharePart& own = message.parts.emplace_back();
    own.number = server;
    if (server == giver_)
      own.content = part();
    else
      own.digest = digest_;
    if (server == giver_)
      for (const Party receiver : relayed_by(giver_))
        message.parts.emplace_back().number = receiver;
    return encode(message);
  }
  Bytes whole(Party server) const override {
    WriteRootRequest message = request_;
    SharePart& own = message.parts.emplace_back();
    own.number = server;
    own.content = part();
    return encode(message);
  }
  std::vector<Party> relayed_by(Party server) const override {
    std::vector<Party> others;
    for (const Party each : takers_)
      if (server == giver_ && each != giver_) others.push_back(each);
    return others;
  }

 private:
  ByteSpan part() const { return ByteSpan(slot_).subspan(mirror::kHeader); }

  const WriteRootRequest request_;
  const Bytes takers_;
  const Party giver_;
  const Bytes slot_;
  Digest digest_{};
};

class RowsCheck final : public EvictionCheck {
 public:
  /// Server `lister` is asked for its complete list.
  RowsCheck(mirror::Prescribed prescribed, const mirror::LayerKeys& keys, const Seed& seed,
            const EvictionId& id, std::uint64_t epoch, Party lister)
      : prescribed_(std::move(prescribed)),
        keys_(keys),
        seed_(seed),
        id_(id),
        epoch_(epoch),
        lister_(lister) {}
  Bytes question(Party server) const override {
    return encode(CertifyRequest{epoch_, id_, seed_,
                                 server == lister_ ? RowsAsked::with_list : RowsAsked::digests});
  }
  Bytes question_of_new_rows() const override {
    return encode(CertifyRequest{epoch_, id_, seed_, RowsAsked::new_ones});
  }
  void expect() override { masks_ = mirror::sum_of_masks(prescribed_, keys_, seed_); }
  RowsVerdict verdict(ByteSpan servers, const std::vector<CertifyAnswer>& answers) const override {
    return mirror::judge_rows(prescribed_, masks_, seed_, servers, answers, lister_);
  }

 private:
  const mirror::Prescribed prescribed_;
  const mirror::LayerKeys& keys_;
  const Seed seed_;
  const EvictionId id_;
  const std::uint64_t epoch_;
  const Party lister_;
  gf128::Element masks_;
};

void flip(std::span<std::uint8_t> bits, std::size_t at) {
  bits[at / 8] ^= static_cast<std::uint8_t>(1u << at % 8);
}

}  // namespace

mirror::Selection mirror::selection_of(const VolumeParams& params, const EvictionPlan& plan,
                                       unsigned height, std::uint64_t eviction) {
  const PathSlots slots = PathSlots::evicted(params, eviction, height);
  const Permutation from = inverse(std::get<Permutation>(plan.movement));
  Selection selection(slots.count() - params.evict_every);
  for (const Placement& placement : plan.placements) {
    const std::size_t at = slots.index(placement.level, placement.slot);
    selection[at - params.evict_every] = from[at];
  }
  return selection;
}

Bytes Mirror::seal(const Label& label, ByteSpan content) {
  Bytes slot(mirror::kHeader);
  const Bytes sealed = sealer_.seal(bytes_of(label), content);
  slot.insert(slot.end(), sealed.begin(), sealed.end());
  return slot;
}

Result<OpenedBlock> Mirror::open(ByteSpan slot) const {
  if (slot.size() != params_.slot_size()) return fail(Errc::corrupt, "the slot has the wrong size");
  return opened(peeled(slot));
}

Task<Result<OpenedBlock>> Mirror::open_on(Executor pool, Bytes slot,
                                          std::optional<unsigned> height) const {
  if (slot.size() != params_.slot_size())
    co_return fail(Errc::corrupt, "the slot has the wrong size");
  const unsigned drawn = height ? most_layers(*height) : mirror::kLayers;
  const unsigned workers = params_.workers();
  const std::size_t work = std::size_t{drawn} * workers * slot.size();
  const std::size_t parts = std::clamp<std::size_t>(work / kPartOfPeeling, 1, kMostParts);
  const auto finish = [&](const mirror::Peeling& peeling) {
    Bytes body = body_of(slot);
    return opened(peeling.is_sound() ? std::optional(std::move(body)) : std::nullopt);
  };
  if (parts == 1)
    co_return co_await offload(pool, [&] {
      const mirror::Peeling peeling(layers_, slot, workers, drawn);
      peeling.peel_part(0, 1);
      return finish(peeling);
    });
  const auto peeling = co_await offload(
      pool, [&] { return std::make_unique<mirror::Peeling>(layers_, slot, workers, drawn); });
  std::vector<Task<bool>> work_of_parts;
  for (std::size_t nth = 0; nth < parts; ++nth)
    work_of_parts.push_back(offload(pool, [&peeling, nth, parts] {
      peeling->peel_part(nth, parts);
      return true;
    }));
  co_await all(std::move(work_of_parts));
  co_return co_await offload(pool, [&] { return finish(*peeling); });
}

std::optional<Label> Mirror::label_of(ByteSpan slot) const {
  const auto block_at = peeled(slot);
  if (block_at && is_zero(*block_at)) return Label{};
  const auto block = opened(block_at);
  return block ? std::optional(block->label) : std::nullopt;
}

// Entry 0 names the attempt that wrote the slot, and the place. The stamp is the attempt's first
// bytes plus the bucket's number, or those bytes alone if an older server wrote the slot. A slot
// that was given up holds zeros.
bool Mirror::may_be_at(ByteSpan slot, const SlotPlace& place) const {
  if (is_zero(slot)) return true;
  const mirror::Entry entry = mirror::newest_entry(slot);
  const unsigned bucket = entry.place / params_.bucket_size;
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, entry.attempt.data(), sizeof stamp);
  const bool stamped = !place.stamp || *place.stamp == stamp + bucket || *place.stamp == stamp;
  return entry.place % params_.bucket_size == place.slot && bucket >= place.least &&
         bucket <= place.bucket && stamped;
}

std::optional<Bytes> Mirror::peeled(ByteSpan slot) const {
  Bytes whole(slot.begin(), slot.end());
  const bool sound = layers_.peel(whole, params_.workers());
  Bytes body = body_of(whole);
  return sound ? std::optional(std::move(body)) : std::nullopt;
}

// Takes the same time if the header is not sound, by trying to open bytes that cannot open.
Result<OpenedBlock> Mirror::opened(const std::optional<Bytes>& sealed) const {
  S3O_ASSIGN(auto opened,
             sealer_.open(sealed ? *sealed : Bytes(params_.slot_size() - mirror::kHeader)));
  const auto label = read_label(opened.label);
  if (!label) return fail(Errc::corrupt, "the slot has an impossible label");
  return OpenedBlock{*label, std::move(opened.content)};
}

// A row for which nothing was selected holds only masks, so it is all zeros once they are removed.
std::optional<Label> Mirror::label_in(ByteSpan head) const {
  if (head.size() != mirror::kHead) return std::nullopt;
  const auto inner = peeled(head);
  if (!inner) return std::nullopt;
  if (is_zero(*inner)) return Label{};
  const auto label = sealer_.open_label(*inner);
  return label ? read_label(*label) : std::nullopt;
}

std::vector<ServerQuery> Mirror::queries(WriteNumber write_number, std::size_t slots,
                                         std::size_t index) {
  const std::size_t size = gf::bit_row(slots);
  std::vector<ServerQuery> queries(params_.workers());
  Bytes& last = queries.back().given;
  last.resize(size);
  for (ServerQuery& query : std::span(queries).first(queries.size() - 1)) {
    query.seed = random_.seed();
    gf::multiply_add(1, expand(*query.seed, "select", write_number, size), last);
  }
  if (index < slots) flip(last, index);
  return queries;
}

std::unique_ptr<RootUpload> Mirror::upload(const WriteRootRequest& request, Bytes slot,
                                           const InStep& servers) {
  return std::make_unique<Relay>(servers, request, std::move(slot));
}

// All workers' shares of the matrix are random except the last one's, which makes the sum right.
SchemeOrders Mirror::orders(const EvictionPlan& plan, const EvictionId& id, unsigned height,
                            std::uint64_t, unsigned tries, const InStep& servers, Random& random) {
  const mirror::Selection selection = mirror::selection_of(params_, plan, height, id.eviction);
  const std::size_t row = gf::bit_row(selection.size() + params_.evict_every);
  Bytes matrix(selection.size() * row);
  for (std::size_t place = 0; place < selection.size(); ++place)
    if (selection[place]) flip(std::span(matrix).subspan(place * row, row), *selection[place]);

  const unsigned workers = params_.workers();
  const Bytes chosen = servers.workers(id.eviction + tries, workers);
  PartialSelectionOrders alike;
  alike.workers = chosen;
  alike.takers = servers.takers();
  std::vector<PartialSelectionOrders> orders(servers.count(), alike);
  for (unsigned role = 1; role <= workers; ++role) {
    PartialSelectionOrders& own = orders[chosen[role - 1] - 1u];
    own.mask = layers_.of(role, mirror::layer_attempt(id.attempt));
    if (role == workers) continue;
    own.matrix_seed = random.seed();
    Prg(*own.matrix_seed, as_bytes("selection")).add_to(matrix);
  }
  orders[chosen.back() - 1u].matrix = matrix;
  std::vector<Bytes> encoded;
  for (PartialSelectionOrders& each : orders) {
    Writer writer;
    if (each.takers.size() < servers.count())
      each.fields(writer);
    else
      each.SelectionOrders::fields(writer);
    encoded.push_back(writer.take());
  }
  return {std::move(encoded), nullptr, chosen};
}

std::unique_ptr<EvictionCheck> Mirror::check(const EvictionPlan& plan, const EvictionId& id,
                                             unsigned height, std::uint64_t epoch, unsigned tries,
                                             const InStep& servers) {
  mirror::Prescribed prescribed{
      .selection = mirror::selection_of(params_, plan, height, id.eviction),
      .attempt = mirror::layer_attempt(id.attempt),
      .workers = params_.workers(),
      .rows = PathSlots::evicted(params_, id.eviction, height).count(),
      .slot_size = params_.slot_size()};
  // The server after the workers, which has less to do; another one in each attempt.
  const Party lister = servers.workers(id.eviction + tries + params_.workers(), 1).front();
  return std::make_unique<RowsCheck>(std::move(prescribed), layers_, random_.seed(), id, epoch,
                                     lister);
}

}  // namespace s3oram
