// One server's part in retrievals.
#include <algorithm>
#include <mutex>

#include "oramcore/base/rules.h"
#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"
#include "serverd/oram/server.h"

namespace s3oram {

struct Server::PathPart {
  BucketIndex bucket;
  BucketVersionRef ref;
  ByteSpan query;
};

/// The inner product of a path, to which several threads add.
struct Server::PathProduct {
  explicit PathProduct(std::size_t slot_size) : answer(Rpc::kHeaderSize + slot_size) {}
  MutableByteSpan sum() { return MutableByteSpan(answer).subspan(Rpc::kHeaderSize); }

  std::mutex mutex;  // guards what follows; the store's is never taken under it
  Bytes answer;
  Status status;
  std::vector<BucketIndex> damaged;
};

void Server::add_parts(PathProduct& to, std::span<const PathPart> parts) {
  for (const PathPart& part : parts) {
    auto bucket_version = bucket_store_->read(part.ref, depth_of(part.bucket));
    std::lock_guard lock(to.mutex);
    if (bucket_version) {
      scheme_->add_product(part.query, rows_of(*bucket_version, part.ref.slots).rows, to.sum());
    } else {
      to.damaged.push_back(part.bucket);
      to.status = fail(bucket_version.error());
    }
  }
}

Task<Result<Bytes>> Server::product(const RetrieveRequest& request, ByteSpan query) {
  const PathSlots path(params(), request.tree_version, request.written, request.height);
  const ByteSpan of_root_buffer = query.first(path.writes());
  query = query.subspan(path.writes());
  std::vector<PathPart> parts;
  for (const BucketIndex bucket : path_buckets(params(), request.leaf, request.height)) {
    S3O_CO_ASSIGN(auto ref, control_.bucket(bucket, request.tree_version));
    if (ref.bucket_version != 0) parts.push_back({bucket, ref, query.first(ref.slots)});
    query = query.subspan(params().bucket_size);
  }
  S3O_CO_ASSIGN(auto root_buffer, root_buffer_rows(path));
  record_retrieval(request);

  ++retrievals_[request.tree_version];
  // Buckets in memory are one piece of work. All others are read at the same time, and each is
  // dropped once its product is computed, so that every reader holds at most one.
  const auto in_memory = std::partition(parts.begin(), parts.end(), [&](const PathPart& part) {
    return bucket_store_->cached(part.ref);
  });
  PathProduct total(params().slot_size());
  std::vector<Task<bool>> work;
  work.push_back(offload(pool_, [&] {
    {
      std::lock_guard lock(total.mutex);
      scheme_->add_product(of_root_buffer, root_buffer.rows, total.sum());
    }
    add_parts(total, {parts.begin(), in_memory});
    return true;
  }));
  for (auto part = in_memory; part != parts.end(); ++part)
    work.push_back(offload(readers_, [this, &total, part] {
      add_parts(total, {part, part + 1});
      return true;
    }));
  co_await all(std::move(work));
  if (--retrievals_[request.tree_version] == 0) retrievals_.erase(request.tree_version);
  last_retrieval_ = clock_.now();
  handler_ended_.notify_all();
  if (request.tree_version == control_.tree_version())
    damaged_.insert(total.damaged.begin(), total.damaged.end());
  if (!total.status) co_return fail(total.status.error());
  co_return std::move(total.answer);
}

AccessLoad Server::load() const {
  return {next_write_number_,
          retrievals_.empty() ? clock_.now() - last_retrieval_ : Duration::zero()};
}

std::optional<Bytes> Server::summands(const Bytes& workers) const {
  Bytes all = scheme_->summands();
  if (workers.empty()) return all;  // a client that does not name them
  Bytes sorted = workers;
  std::ranges::sort(sorted);
  const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
  if (sorted.size() != params().workers() || !distinct || !std::ranges::includes(all, sorted) ||
      !std::ranges::binary_search(sorted, self_))
    return std::nullopt;
  return sorted;
}

Task<Result<Bytes>> Server::retrieve(SharedRetrieveRequest request, Payload&) {
  const unsigned every = params().evict_every;
  if (request.height > kMaxHeight ||
      request.written < first_write_number(request.tree_version, every) ||
      request.written > end_write_number(request.tree_version, every))
    co_return malformed();
  S3O_CO_TRY(check_evictions_until(request.tree_version));
  if (request.write_number < end_write_number(request.tree_version, every))
    next_write_number_ = std::max(next_write_number_, request.write_number + 1);
  const std::size_t slots =
      PathSlots(params(), request.tree_version, request.written, request.height).count();
  const auto coefficients = scheme_->coefficients(request, slots);
  auto from = summands(request.workers);
  if (!coefficients || !from || (request.sum && !scheme_->adds_up())) co_return malformed();
  if (request.sum) forget_sums_before(request.sum->oldest);
  auto found = co_await product(request, *coefficients);
  if (!found || !request.sum) co_return found;
  co_return co_await add_up(request.epoch, *request.sum, std::move(*from), std::move(*found));
}

Task<Result<Bytes>> Server::add_up(std::uint64_t epoch, SumOrder order, Bytes summands,
                                   Bytes product) {
  const std::uint8_t weight = scheme_->weight();
  const ByteSpan own = ByteSpan(product).subspan(Rpc::kHeaderSize);
  if (order.aggregator != self_) {
    if (!order.mask) co_return malformed();
    if (auto answer = begin_masked_share(order.request_id)) co_return std::move(*answer);
    Bytes masked = co_await offload(pool_, own.size(), [&] {
      Bytes mask = expand(*order.mask, "answer", order.request_id, own.size());
      gf::multiply_add(weight, own, mask);
      return mask;
    });
    S3O_CO_TRY(
        co_await send_masked_share(order.aggregator, epoch, order.request_id, std::move(masked)));
    co_return end_masked_share(order.request_id);
  }
  Bytes sum(product.size());
  const MutableByteSpan out = MutableByteSpan(sum).subspan(Rpc::kHeaderSize);
  gf::multiply_add(weight, own, out);
  S3O_CO_TRY(co_await add_masked_shares(epoch, order.request_id, std::move(summands),
                                        params().workers() - 1, out));
  co_return sum;
}

// Two masked shares under one mask would reveal their difference, if a slot was healed in between.
std::optional<Result<Bytes>> Server::begin_masked_share(std::uint64_t request_id) {
  const auto [masked_share, first] = masked_shares_.try_emplace(request_id, false);
  if (!rule_holds(Rule::computed_once)) return {};
  if (masked_share->second) return done();
  if (!first || request_id < oldest_sum_) return fail(Errc::failed, "this attempt is over");
  return {};
}

Bytes Server::end_masked_share(std::uint64_t request_id) {
  if (const auto masked_share = masked_shares_.find(request_id);
      masked_share != masked_shares_.end())
    masked_share->second = true;
  return done();
}

Task<Status> Server::send_masked_share(Party to, std::uint64_t epoch, std::uint64_t request_id,
                                       Bytes masked_share) {
  const MaskedShareRequest message{epoch, request_id, masked_share};
  auto answer = co_await rpc_.call(to, MaskedShareRequest::kType, encode(message), kPeerPatience);
  if (!answer) co_return fail(Errc::failed, "adding up: {}", answer.error().message);
  co_return Status{};
}

Task<Status> Server::add_masked_shares(std::uint64_t epoch, std::uint64_t request_id, Bytes from,
                                       std::size_t count, MutableByteSpan sum) {
  std::erase(from, self_);
  for (;;) {
    if (!goes_on(epoch)) co_return fail(Errc::need_open, "the session is over");
    if (request_id < oldest_sum_ || sums_[request_id].withdrawn)
      co_return fail(Errc::failed, "this attempt is over");
    const auto& there = sums_[request_id].masked_shares;
    Bytes present;
    std::ranges::copy_if(from, std::back_inserter(present),
                         [&](Party each) { return there.contains(each); });
    if (present.size() >= count) {
      from.assign(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(count));
      break;
    }
    co_await parts_changed_.wait();
  }
  for (const Party each : from)
    gf::multiply_add(
        1,
        decode<MaskedShareRequest>(sums_[request_id].masked_shares.at(each).body())->masked_share,
        sum);
  co_return Status{};
}

Task<Result<Bytes>> Server::masked_share(Party from, Payload& payload) {
  const auto request = decode<MaskedShareRequest>(payload.body());
  if (!request) co_return malformed();
  S3O_CO_TRY(check_session(request->epoch));
  if (from > params().scheme.servers || request->masked_share.size() != params().slot_size())
    co_return malformed();
  if (request->request_id < oldest_sum_) co_return done();  // no request waits for it any more
  const auto of_sender = std::ranges::count_if(
      sums_, [from](const auto& sum) { return sum.second.masked_shares.contains(from); });
  if (!sums_.contains(request->request_id) &&
      static_cast<std::size_t>(of_sender) >= most_under_way() / (params().scheme.servers - 1u))
    co_return fail(Errc::bad_request, "too many addends of server {} for unknown tickets", from);
  sums_[request->request_id].masked_shares.try_emplace(from, std::move(payload));
  parts_changed_.notify_all();
  co_return done();
}

Task<Result<Bytes>> Server::withdraw(WithdrawRequest request, Payload&) {
  if (request.request_id >= oldest_sum_) sums_[request.request_id].withdrawn = true;
  parts_changed_.notify_all();
  co_return done();
}

void Server::forget_sums_before(std::uint64_t oldest) {
  if (oldest <= oldest_sum_) return;
  oldest_sum_ = oldest;
  sums_.erase(sums_.begin(), sums_.lower_bound(oldest));
  masked_shares_.erase(masked_shares_.begin(), masked_shares_.lower_bound(oldest));
  parts_changed_.notify_all();
}

}  // namespace s3oram
