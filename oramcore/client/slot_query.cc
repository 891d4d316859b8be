// Sends queries in shares, and adds up the answers.
#include "oramcore/client/slot_query.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oramcore/client/agreement.h"
#include "oramcore/client/overdue.h"
#include "oramcore/field/gf256.h"
#include "oramcore/sharing/decoder.h"
#include "oramcore/sharing/seeded.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

/// Returns the error to act on: a final one if there is any, then one that a newer tree version
/// resolves, then one that healing resolves, then one that passes.
Error gravest(const std::vector<Result<Payload>>& answers) {
  const auto gravity = [](const Error& error) {
    if (error.code == Errc::need_open || error.code == Errc::unreachable) return 1;
    if (Troubles::may_pass(error.code)) return 0;
    return error.code == Errc::corrupt ? 2 : error.code == Errc::former_view ? 3 : 4;
  };
  std::optional<Error> found;
  for (const auto& answer : answers)
    if (!answer && (!found || gravity(answer.error()) > gravity(*found))) found = answer.error();
  return *found;
}

// Longer than any sum under way can take.
constexpr Duration kSumPatience = std::chrono::minutes(1);

/// Ends an attempt at the aggregator.
Task<void> withdraw(Servers& servers, Party aggregator, WithdrawRequest request) {
  static_cast<void>(co_await servers.ask(aggregator, WithdrawRequest::kType, encode(request)));
}

/// Resizes an answer, so that one of another size is a wrong answer like any other.
Bytes of_size(ByteSpan answer, std::size_t size) {
  Bytes bytes(answer.begin(), answer.end());
  bytes.resize(size);
  return bytes;
}

}  // namespace

RetrieveRequest SlotQuery::request_for(WriteNumber write_number, Leaf leaf,
                                       const PathSlots& path) const {
  return {.epoch = state_.session.epoch,
          .tree_version = state_.versions.read.tree_version,
          .height = static_cast<std::uint8_t>(path.height()),
          .written = state_.tree.written,
          .write_number = write_number,
          .leaf = leaf & ((Leaf{1} << path.height()) - 1),
          .query = {},
          .query_seed = {},
          .sum = {}};
}

Task<Result<Bytes>> SlotQuery::ask(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                                   std::size_t index) {
  const RetrieveRequest request = request_for(write_number, leaf, path);
  return state_.params.privacy == Privacy::computational
             ? ask_for_sum(request, path.count(), index)
             : ask_for_shares(request, path.count(), index);
}

/// A product of two shares has degree 2t, so t wrong answers can be found among 4t + 1.
bool SlotQuery::can_ask_each() const {
  const Scheme& scheme = state_.params.scheme;
  return !state_.params.is_mirror() &&
         can_find_wrong_shares(scheme.servers, scheme.quorum(), scheme.threshold);
}

Task<Result<SlotQuery::Named>> SlotQuery::ask_each(WriteNumber write_number, Leaf leaf,
                                                   const PathSlots& path, std::size_t index) {
  const Scheme& scheme = state_.params.scheme;
  const RetrieveRequest request = request_for(write_number, leaf, path);
  S3O_CO_ASSIGN(const auto shares,
                co_await shares_of_product(request, path.count(), index, scheme.servers));
  co_return co_await offload(state_.environment.pool, shares.size() * shares[0].size(), [&] {
    Bytes points;
    for (Party server = 1; server <= scheme.servers; ++server) points.push_back(server);
    const std::vector<ByteSpan> spans = spans_of(shares);
    const auto wrong = wrong_shares(scheme.quorum(), points, spans, scheme.threshold)
                           .value_or(std::vector<std::size_t>());
    Named answer;
    Bytes right;
    std::vector<ByteSpan> of_right;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (std::ranges::find(wrong, i) != wrong.end()) {
        answer.liars.push_back(points[i]);
      } else if (right.size() < scheme.quorum()) {
        right.push_back(points[i]);
        of_right.push_back(spans[i]);
      }
    answer.slot = recover(right, of_right);
    return answer;
  });
}

/// Works as in the paper: every server gets its share of the query and returns its share of the
/// product.
Task<Result<Bytes>> SlotQuery::ask_for_shares(RetrieveRequest request, std::size_t slots,
                                              std::size_t index) {
  const auto quorum = static_cast<unsigned>(state_.params.scheme.quorum());
  S3O_CO_ASSIGN(const auto shares, co_await shares_of_product(request, slots, index, quorum));
  co_return recover(quorum_points(state_.params.scheme), spans_of(shares));
}

/// Returns the shares of the product from servers 1 to `servers`, in this order.
Task<Result<std::vector<Bytes>>> SlotQuery::shares_of_product(RetrieveRequest request,
                                                              std::size_t slots, std::size_t index,
                                                              unsigned servers) {
  const auto queries = state_.scheme->queries(request.write_number, slots, index);
  auto answers = co_await for_all(servers, [&](Party server) {
    request.query_seed = queries[server - 1].seed;
    request.query = queries[server - 1].given;
    return state_.servers.ask_once(server, RetrieveRequest::kType, encode(request));
  });
  for (const auto& answer : answers)
    if (!answer) co_return fail(gravest(answers));
  std::vector<Bytes> shares;
  for (const auto& answer : answers)
    shares.push_back(of_size(answer->body(), state_.params.slot_size()));
  co_return shares;
}

/// The answers of one attempt, by server; an error for a server that has not answered. The
/// aggregator's answer is the sum; the others only say that they have done their part.
struct SlotQuery::SumAttempt {
  explicit SumAttempt(std::size_t workers) : unanswered(workers) {
    while (answers.size() < workers) answers.push_back(fail(Errc::failed, "no answer yet"));
  }
  auto failures() const {
    return std::ranges::count_if(answers, [](const auto& answer) { return !answer; });
  }
  std::vector<Result<Payload>> answers;
  std::size_t unanswered;
  bool hopeless = false;  // the aggregator is away
  bool withheld = false;  // it was ended, because a part did not come that was said to be sent
  Event answered;
  const std::shared_ptr<Servers::JointAttempt> joint = std::make_shared<Servers::JointAttempt>();
};

/// Returns the servers that answer together. In a mirror any servers in step can do so, so they
/// take turns.
Bytes SlotQuery::workers_of(std::uint64_t request_id) const {
  return state_.in_step.workers(state_.params.is_mirror() ? request_id : 0,
                                state_.params.workers());
}

/// Downloads only one block: t servers get their share of the query as a seed, and the servers add
/// up their masked products. Each attempt has fresh seeds.
Task<Result<Bytes>> SlotQuery::ask_for_sum(RetrieveRequest request, std::size_t slots,
                                           std::size_t index) {
  const auto queries = state_.scheme->queries(request.write_number, slots, index);
  const std::uint64_t request_id = state_.request_ids.begin();
  const Bytes workers = workers_of(request_id);
  const std::size_t adding = request_id % workers.size();
  request.sum = SumOrder{.request_id = request_id,
                         .oldest = state_.request_ids.oldest(),
                         .aggregator = workers[adding],
                         .mask = {}};
  const bool named = workers.size() < state_.servers.count() && state_.params.is_mirror();
  const auto message = [&] {
    return named ? encode(SharedRetrieveRequest{request, workers}) : encode(request);
  };
  Bytes masks(state_.params.slot_size());
  const auto attempt = std::make_shared<SumAttempt>(workers.size());
  for (std::size_t nth = 0; nth < workers.size(); ++nth) {
    request.query_seed = queries[nth].seed;
    request.query = queries[nth].given;
    request.sum->mask.reset();
    if (nth != adding) {
      request.sum->mask = state_.environment.random.seed();
      gf::multiply_add(1, expand(*request.sum->mask, "answer", request_id, masks.size()), masks);
    }
    state_.start(ask_for_masked_share(workers[nth], nth, message(), *request.sum, attempt));
  }
  // A server may say that it has done its part without having done it.
  when_overdue(state_.environment.clock, kSumPatience, attempt,
               [this, late = std::weak_ptr(attempt), workers, adding, aggregator = workers[adding],
                epoch = request.epoch, request_id] {
                 const auto there = late.lock();
                 if (!there || there->answers[adding] || state_.dead) return;
                 there->withheld = there->failures() == 1;
                 note_late(workers, adding, *there);
                 // That the aggregator fails now says nothing about it.
                 there->joint->failed = true;
                 state_.start(withdraw(state_.servers, aggregator, {epoch, request_id}));
               });
  while (attempt->unanswered > 0 && !attempt->answers[adding] && !attempt->hopeless)
    co_await attempt->answered.wait();
  state_.request_ids.end(request_id);
  const auto& sum = attempt->answers[adding];
  if (!sum && attempt->withheld && sum.error().code == Errc::failed)
    co_return fail(withheld(workers, adding, sum.error()));
  if (!sum) co_return fail(gravest(attempt->answers));
  gf::multiply_add(1, of_size(sum->body(), masks.size()), masks);
  co_return masks;
}

/// Notes which servers have not even said that they have done their part.
void SlotQuery::note_late(const Bytes& workers, std::size_t adding, const SumAttempt& attempt) {
  for (std::size_t nth = 0; nth < workers.size(); ++nth)
    if (nth != adding && !attempt.answers[nth])
      state_.servers.troubles().failed(
          workers[nth], MessageType::retrieve,
          {Errc::failed, fmt::format("server {} takes more than a minute for its part of an answer",
                                     workers[nth])},
          state_.now());
}

/// Returns the error for a sum that was never complete. Notes it at all servers that take part,
/// because any of them may be at fault.
Error SlotQuery::withheld(const Bytes& workers, std::size_t adding, const Error& said) {
  Error error{Errc::servers_disagree,
              fmt::format("one of servers {} is faulty or lies: all others say that they have sent "
                          "server {} their parts of an answer, and after a minute it lacks some "
                          "({})",
                          fmt::join(workers, ", "), workers[adding], said.message)};
  for (const Party server : workers) state_.servers.troubles().lied(server, error, state_.now());
  return error;
}

/// A failure at any server ends the attempt at the aggregator, which would otherwise wait for that
/// server.
Task<void> SlotQuery::ask_for_masked_share(Party server, std::size_t nth, Bytes message,
                                           SumOrder order, std::shared_ptr<SumAttempt> attempt) {
  auto answer = co_await state_.servers.ask_once(server, RetrieveRequest::kType, std::move(message),
                                                 attempt->joint);
  if (!answer && server != order.aggregator && !state_.dead) {
    const WithdrawRequest withdraw{state_.session.epoch, order.request_id};
    auto withdrawn =
        co_await state_.servers.ask(order.aggregator, WithdrawRequest::kType, encode(withdraw));
    if (!withdrawn) answer = std::move(withdrawn);
  }
  attempt->hopeless = attempt->hopeless || (server == order.aggregator && !answer &&
                                            answer.error().code == Errc::unreachable);
  attempt->answers[nth] = std::move(answer);
  --attempt->unanswered;
  attempt->answered.notify_all();
}

}  // namespace s3oram
