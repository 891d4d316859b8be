// One server's part in retrievals.
#include <algorithm>
#include <mutex>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"
#include "serverd/s3oram/server.h"

namespace s3oram {

struct Server::PathPart {
  BucketIndex bucket;
  FrameRef ref;
  View query;
};

/// Several threads add to it.
struct Server::PathProduct {
  explicit PathProduct(std::size_t slot_size) : answer(Rpc::kHeaderSize + slot_size) {}
  MutView sum() { return MutView(answer).subspan(Rpc::kHeaderSize); }

  std::mutex mutex;  // guards what follows; the store's is never taken under it
  Bytes answer;
  Status status;
  std::vector<BucketIndex> damaged;
};

void Server::add_parts(PathProduct& to, std::span<const PathPart> parts) {
  for (const PathPart& part : parts) {
    auto frame = frames_->read(part.ref, depth_of(part.bucket));
    std::lock_guard lock(to.mutex);
    if (frame) {
      gf::inner_product(part.query, rows_of(*frame, part.ref.slots).rows, to.sum());
    } else {
      to.damaged.push_back(part.bucket);
      to.status = fail(frame.error());
    }
  }
}

Task<Result<Bytes>> Server::product(const RetrieveRequest& request, View query) {
  const PathSlots path(params(), request.view, request.written, request.height);
  const View of_ring = query.first(path.writes());
  query = query.subspan(path.writes());
  std::vector<PathPart> parts;
  for (const BucketIndex bucket : path_buckets(params(), request.leaf, request.height)) {
    S3O_CO_ASSIGN(auto ref, control_.bucket(bucket, request.view));
    if (ref.frame != 0) parts.push_back({bucket, ref, query.first(ref.slots)});
    query = query.subspan(params().bucket_size);
  }
  S3O_CO_ASSIGN(auto ring, ring_rows(path));

  ++retrievals_[request.view];
  // What is in memory is one piece of work; all that must be read is read at the same time, and a
  // frame is let go when its product is there: the readers never hold more than one each.
  const auto in_memory = std::partition(
      parts.begin(), parts.end(), [&](const PathPart& part) { return frames_->cached(part.ref); });
  PathProduct total(params().slot_size());
  std::vector<Task<bool>> work;
  work.push_back(offload(pool_, [&] {
    {
      std::lock_guard lock(total.mutex);
      gf::inner_product(of_ring, ring.rows, total.sum());
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
  if (--retrievals_[request.view] == 0) retrievals_.erase(request.view);
  last_retrieval_ = clock_.now();
  handler_ended_.notify_all();
  if (request.view == control_.view()) damaged_.insert(total.damaged.begin(), total.damaged.end());
  if (!total.status) co_return fail(total.status.error());
  co_return std::move(total.answer);
}

AccessLoad Server::load() const {
  return {next_turn_, retrievals_.empty() ? clock_.now() - last_retrieval_ : Duration::zero()};
}

Task<Result<Bytes>> Server::retrieve(RetrieveRequest request, Payload&) {
  const unsigned every = params().evict_every;
  if (request.height > kMaxHeight || request.written < first_turn(request.view, every) ||
      request.written > end_turn(request.view, every))
    co_return malformed();
  S3O_CO_TRY(check_evictions_until(request.view));
  if (request.turn < end_turn(request.view, every))
    next_turn_ = std::max(next_turn_, request.turn + 1);
  const std::size_t slots =
      PathSlots(params(), request.view, request.written, request.height).count();
  const Bytes expanded =
      request.query_seed ? expand(*request.query_seed, "select", request.turn, slots) : Bytes();
  const View query = request.query_seed ? View(expanded) : request.query;
  if (query.size() != slots || (request.sum && self_ > params().scheme.quorum()))
    co_return malformed();
  if (request.sum) forget_sums_before(request.sum->oldest);
  auto found = co_await product(request, query);
  if (!found || !request.sum) co_return found;
  co_return co_await add_up(request.epoch, *request.sum, std::move(*found));
}

Task<Result<Bytes>> Server::add_up(std::uint64_t epoch, SumOrder order, Bytes product) {
  const Bytes quorum = quorum_points(params().scheme);
  const std::uint8_t weight = lagrange_at_zero(quorum)[self_ - 1u];
  const View own = View(product).subspan(Rpc::kHeaderSize);
  if (order.adder != self_) {
    if (!order.mask) co_return malformed();
    if (auto answer = begin_addend(order.ticket)) co_return std::move(*answer);
    Bytes masked = co_await offload(pool_, own.size(), [&] {
      Bytes mask = expand(*order.mask, "answer", order.ticket, own.size());
      gf::multiply_add(weight, own, mask);
      return mask;
    });
    S3O_CO_TRY(co_await send_addend(order.adder, epoch, order.ticket, std::move(masked)));
    co_return end_addend(order.ticket);
  }
  Bytes sum(product.size());
  const MutView out = MutView(sum).subspan(Rpc::kHeaderSize);
  gf::multiply_add(weight, own, out);
  S3O_CO_TRY(co_await add_addends(epoch, order.ticket, quorum, out));
  co_return sum;
}

// Two addends under one mask would show their difference, once a slot was healed in between.
std::optional<Result<Bytes>> Server::begin_addend(std::uint64_t ticket) {
  const auto [addend, first] = addends_.try_emplace(ticket, false);
  if (addend->second) return done();
  if (!first || ticket < oldest_sum_) return fail(Errc::failed, "this attempt is over");
  return {};
}

Bytes Server::end_addend(std::uint64_t ticket) {
  if (const auto addend = addends_.find(ticket); addend != addends_.end()) addend->second = true;
  return done();
}

Task<Status> Server::send_addend(Party to, std::uint64_t epoch, std::uint64_t ticket,
                                 Bytes addend) {
  const AddendRequest message{epoch, ticket, addend};
  auto answer = co_await rpc_.call(to, AddendRequest::kType, encode(message), kPeerPatience);
  if (!answer) co_return fail(Errc::failed, "adding up: {}", answer.error().message);
  co_return Status{};
}

Task<Status> Server::add_addends(std::uint64_t epoch, std::uint64_t ticket, Bytes from,
                                 MutView sum) {
  std::erase(from, self_);
  for (;;) {
    if (!goes_on(epoch)) co_return fail(Errc::need_open, "the session is over");
    if (ticket < oldest_sum_ || sums_[ticket].withdrawn)
      co_return fail(Errc::failed, "this attempt is over");
    const auto& there = sums_[ticket].addends;
    if (std::ranges::all_of(from, [&](Party each) { return there.contains(each); })) break;
    co_await parts_changed_.wait();
  }
  for (const Party each : from)
    gf::multiply_add(1, decode<AddendRequest>(sums_[ticket].addends.at(each).body())->addend, sum);
  co_return Status{};
}

Task<Result<Bytes>> Server::addend(Party from, Payload& payload) {
  const auto request = decode<AddendRequest>(payload.body());
  if (!request) co_return malformed();
  S3O_CO_TRY(check_session(request->epoch));
  if (from > params().scheme.servers || request->addend.size() != params().slot_size())
    co_return malformed();
  if (request->ticket < oldest_sum_) co_return done();  // nobody waits for it any more
  if (!sums_.contains(request->ticket) && sums_.size() >= most_under_way())
    co_return fail(Errc::bad_request, "too many addends for unknown tickets");
  sums_[request->ticket].addends.try_emplace(from, std::move(payload));
  parts_changed_.notify_all();
  co_return done();
}

Task<Result<Bytes>> Server::withdraw(WithdrawRequest request, Payload&) {
  if (request.ticket >= oldest_sum_) sums_[request.ticket].withdrawn = true;
  parts_changed_.notify_all();
  co_return done();
}

void Server::forget_sums_before(std::uint64_t oldest) {
  if (oldest <= oldest_sum_) return;
  oldest_sum_ = oldest;
  sums_.erase(sums_.begin(), sums_.lower_bound(oldest));
  addends_.erase(addends_.begin(), addends_.lower_bound(oldest));
  parts_changed_.notify_all();
}

}  // namespace s3oram
