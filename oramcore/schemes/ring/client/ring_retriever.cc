// Asks for the values of a path, judges the answer, and opens the block.
#include "oramcore/schemes/ring/client/ring_retriever.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {
namespace {

constexpr unsigned kAsksAgain = 2;   // the same question, byte for byte, if an answer is wrong
constexpr unsigned kReshuffles = 2;  // reshuffles that one access causes because rows are lost

}  // namespace

/// Returns a verdict on each value: it is what was stored at its point, its rows are lost, or it
/// was altered.
Task<std::vector<RingRetriever::Verdict>> RingRetriever::verdicts(const std::vector<Ask>& asks,
                                                                  const RetrieveAnswer& answer) {
  co_return co_await offload(ring_.environment.pool, [&] {
    std::vector<Verdict> each(asks.size(), Verdict::altered);
    for (std::size_t i = 0; answer.values.size() == asks.size() && i < asks.size(); ++i) {
      const ByteSpan value = answer.values[i];
      const bool fits =
          ring_.codec.fits(asks[i].bucket, asks[i].stamp, asks[i].point, value) ||
          (!rule_holds(Rule::verified_answers) && value.size() == ring_.params.row_size);
      if (fits) each[i] = Verdict::fits;
      if (value.empty()) each[i] = Verdict::lost;
    }
    return each;
  });
}

/// Returns all values, once each of them is right. What it does about a value that is not depends
/// only on the verdict, never on which value is wanted:
///   - altered: the same question is sent again, and then the volume stops. The record is kept, so
///     the question is sent again after the next start.
///   - rows are lost: that bucket is first rewritten with what is left of it, and then the same
///     turn asks along the same path.
Task<Result<Payload>> RingRetriever::values_of(Turn turn, Query& query) {
  for (unsigned altered = 0, reshuffles = 0;;) {
    const std::vector<Ask> asks = query.record.asks;
    const RetrieveRequest request{ring_.session.epoch, turn, asks};
    auto answer = co_await ring_.servers.ask(kServer, RetrieveRequest::kType, encode(request));
    if (ring_.dead) co_return fail(*ring_.dead);
    if (!answer && answer.error().code == Errc::former_view) {
      S3O_CO_TRY(co_await records_.renew(turn, query));
      if (asks == query.record.asks) ring_.die(answer.error());
      continue;
    }
    if (!answer) {
      ring_.die(answer.error());
      co_return fail(*ring_.dead);
    }
    const RetrieveAnswer values = decode<RetrieveAnswer>(answer->body()).value_or(RetrieveAnswer{});
    const auto each = co_await verdicts(asks, values);
    if (ring_.dead) co_return fail(*ring_.dead);
    if (std::ranges::count(each, Verdict::altered) > 0) {
      if (told_.pass(ring_.now()))
        spdlog::error(
            "server {} sent an answer that is not what was stored: it is damaged or altered{}",
            kServer, told_.more());
      if (altered++ == kAsksAgain)
        ring_.die(
            {Errc::corrupt,
             fmt::format("server {} has answered {} times with data that was not stored there: its "
                         "memory is damaged, or it lies; no data is given up; have that server "
                         "checked, then mount the vault again",
                         kServer, altered)});
      if (ring_.dead) co_return fail(*ring_.dead);
      co_await ring_.environment.clock.sleep(Servers::kRetryAfter);
      continue;
    }
    if (std::ranges::count(each, Verdict::lost) == 0) co_return std::move(*answer);
    if (reshuffles++ == kReshuffles)
      ring_.die(
          {Errc::corrupt, fmt::format("server {} loses rows that it has just stored", kServer)});
    for (std::size_t i = 0; i < asks.size(); ++i)
      if (each[i] == Verdict::lost && ring_.held.at(asks[i].bucket).stamp == asks[i].stamp)
        rewriter_.reshuffle(asks[i].bucket);
    S3O_CO_TRY(co_await records_.renew(turn, query));
  }
}

/// Reads a slot of the top's cache: that of the block if it lies there, otherwise a random one.
Task<void> RingRetriever::read_cache(BlockId block, std::optional<Place> place, CacheRead& to) {
  if (place)
    to.found.emplace(co_await top_.read_held(block, *place));
  else
    co_await top_.read_any();
  to.ended = true;
  to.end.notify_all();
}

Task<Result<std::optional<OpenedBlock>>> RingRetriever::retrieve(Turn turn, Query query) {
  const BlockId block = query.record.block;
  // Two slots are read while the answers are in transit. The server must not learn from the time
  // taken whether the block lies in the top. Its own slot was perhaps just written, and is in
  // memory, so a random one is always read, too.
  CacheRead cached, other;
  ring_.start(
      read_cache(block, query.holds_cache ? std::optional(query.place) : std::nullopt, cached));
  ring_.start(read_cache(block, std::nullopt, other));
  const auto answer = co_await values_of(turn, query);
  while (!cached.ended) co_await cached.end.wait();
  while (!other.ended) co_await other.end.wait();
  if (!answer) co_return fail(answer.error());
  // An unwanted value takes equally long, because the server sees how long after its answer the
  // log's write follows.
  const auto values = decode<RetrieveAnswer>(answer->body());
  const ByteSpan sealed = query.wanted ? values->values[*query.wanted].first(ring_.params.slot_size)
                                       : ByteSpan(ring_.blank);
  auto found = opened_block(ring_.sealer, sealed, block, query.place.version);
  if (cached.found && !*cached.found) co_return fail(cached.found->error());
  if (cached.found) co_return std::optional<OpenedBlock>(std::move(**cached.found));
  if (ring_.places.get(block).kind == Place::Kind::lost)
    co_return fail(Errc::corrupt, "block {} is lost: the server's rows were damaged", block);
  if (!query.wanted) co_return std::nullopt;
  if (!found) co_return fail(found.error());
  co_return std::optional<OpenedBlock>(std::move(*found));
}

}  // namespace s3oram::ring
