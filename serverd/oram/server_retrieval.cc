// One server's part in retrievals.
#include "serverd/oram/server_retrieval.h"

#include <algorithm>
#include <mutex>

#include "oramcore/base/rules.h"
#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {

struct ServerRetrieval::PathPart {
  BucketIndex bucket;
  BucketVersionRef ref;
  ByteSpan query;
};

/// The inner product of a path, to which several threads add.
struct ServerRetrieval::PathProduct {
  explicit PathProduct(std::size_t slot_size) : answer(Rpc::kHeaderSize + slot_size) {}
  MutableByteSpan sum() { return MutableByteSpan(answer).subspan(Rpc::kHeaderSize); }

  std::mutex mutex;  // guards the members below; the store's lock is never taken under it
  Bytes answer;
  Status status;
  std::vector<BucketIndex> damaged;
};

void ServerRetrieval::add_parts(PathProduct& to, std::span<const PathPart> parts) {
  for (const PathPart& part : parts) {
    auto bucket_version = state_.bucket_store->read(part.ref, depth_of(part.bucket));
    std::lock_guard lock(to.mutex);
    if (bucket_version) {
      state_.scheme->add_product(part.query, rows_of(*bucket_version, part.ref.slots).rows,
                                 to.sum());
    } else {
      to.damaged.push_back(part.bucket);
      to.status = fail(bucket_version.error());
    }
  }
}

Task<Result<Bytes>> ServerRetrieval::product(const RetrieveRequest& request, ByteSpan query) {
  const PathSlots path(state_.params(), request.tree_version, request.written, request.height);
  const ByteSpan of_root_buffer = query.first(path.writes());
  query = query.subspan(path.writes());
  std::vector<PathPart> parts;
  for (const BucketIndex bucket : path_buckets(state_.params(), request.leaf, request.height)) {
    S3O_CO_ASSIGN(auto ref, state_.control.bucket(bucket, request.tree_version));
    if (ref.bucket_version != 0) parts.push_back({bucket, ref, query.first(ref.slots)});
    query = query.subspan(state_.params().bucket_size);
  }
  S3O_CO_ASSIGN(auto root_buffer, state_.root_buffer.rows(path));
  state_.record.retrieval(request);

  ++retrievals_[request.tree_version];
  // Buckets in memory are one piece of work. All others are read at the same time, and each is
  // dropped once its product is computed, so that every reader holds at most one bucket.
  const auto in_memory = std::partition(parts.begin(), parts.end(), [&](const PathPart& part) {
    return state_.bucket_store->cached(part.ref);
  });
  PathProduct total(state_.params().slot_size());
  std::vector<Task<bool>> work;
  work.push_back(offload(state_.pool, [&] {
    {
      std::lock_guard lock(total.mutex);
      state_.scheme->add_product(of_root_buffer, root_buffer.rows, total.sum());
    }
    add_parts(total, {parts.begin(), in_memory});
    return true;
  }));
  for (auto part = in_memory; part != parts.end(); ++part)
    work.push_back(offload(state_.readers, [this, &total, part] {
      add_parts(total, {part, part + 1});
      return true;
    }));
  co_await all(std::move(work));
  if (--retrievals_[request.tree_version] == 0) retrievals_.erase(request.tree_version);
  last_retrieval_ = state_.clock.now();
  state_.handler_ended.notify_all();
  if (request.tree_version == state_.control.tree_version())
    state_.damaged.insert(total.damaged.begin(), total.damaged.end());
  if (!total.status) co_return fail(total.status.error());
  co_return std::move(total.answer);
}

AccessLoad ServerRetrieval::load() const {
  return {next_write_number_,
          retrievals_.empty() ? state_.clock.now() - last_retrieval_ : Duration::zero()};
}

std::optional<Bytes> ServerRetrieval::summands(const Bytes& workers) const {
  Bytes all = state_.scheme->summands();
  if (workers.empty()) return all;  // the client does not name them
  Bytes sorted = workers;
  std::ranges::sort(sorted);
  const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
  if (sorted.size() != state_.params().workers() || !distinct ||
      !std::ranges::includes(all, sorted) || !std::ranges::binary_search(sorted, state_.self))
    return std::nullopt;
  return sorted;
}

Task<Result<Bytes>> ServerRetrieval::retrieve(SharedRetrieveRequest request, Payload&) {
  const unsigned every = state_.params().evict_every;
  if (request.height > kMaxHeight ||
      request.written < first_write_number(request.tree_version, every) ||
      request.written > end_write_number(request.tree_version, every))
    co_return malformed();
  S3O_CO_TRY(state_.check_evictions_until(request.tree_version));
  if (request.write_number < end_write_number(request.tree_version, every))
    next_write_number_ = std::max(next_write_number_, request.write_number + 1);
  const std::size_t slots =
      PathSlots(state_.params(), request.tree_version, request.written, request.height).count();
  const auto coefficients = state_.scheme->coefficients(request, slots);
  auto from = summands(request.workers);
  if (!coefficients || !from || (request.sum && !state_.scheme->adds_up())) co_return malformed();
  if (request.sum) sums_.forget_before(request.sum->oldest);
  auto found = co_await product(request, *coefficients);
  if (!found || !request.sum) co_return found;
  co_return co_await add_up(request.epoch, *request.sum, std::move(*from), std::move(*found));
}

Task<Result<Bytes>> ServerRetrieval::add_up(std::uint64_t epoch, SumOrder order, Bytes summands,
                                            Bytes product) {
  const std::uint8_t weight = state_.scheme->weight();
  const ByteSpan own = ByteSpan(product).subspan(Rpc::kHeaderSize);
  if (order.aggregator != state_.self) {
    if (!order.mask) co_return malformed();
    if (auto answer = sums_.begin(order.request_id)) co_return std::move(*answer);
    Bytes masked = co_await offload(state_.pool, own.size(), [&] {
      Bytes mask = expand(*order.mask, "answer", order.request_id, own.size());
      gf::multiply_add(weight, own, mask);
      return mask;
    });
    S3O_CO_TRY(co_await sums_.send(order.aggregator, epoch, order.request_id, std::move(masked)));
    co_return sums_.end(order.request_id);
  }
  Bytes sum(product.size());
  const MutableByteSpan out = MutableByteSpan(sum).subspan(Rpc::kHeaderSize);
  gf::multiply_add(weight, own, out);
  S3O_CO_TRY(co_await sums_.add_up(epoch, order.request_id, std::move(summands),
                                   state_.params().workers() - 1, out));
  co_return sum;
}

Task<void> ServerRetrieval::until_none_reads(std::uint64_t tree_version) {
  while (retrievals_.contains(tree_version)) co_await state_.handler_ended.wait();
}

}  // namespace s3oram
