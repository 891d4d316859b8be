// Collects marks.
#include "oramcore/client/marker.h"

#include <spdlog/spdlog.h>

namespace s3oram {
namespace {

// Marks take much less time than the eviction did.
constexpr Duration kMarksWithin = std::chrono::minutes(1);

}  // namespace

Task<std::map<BucketIndex, MarkRow>> Marker::collect(EvictionId id) {
  std::map<BucketIndex, MarkRow> rows;
  if (!state_.scheme->keeps_marks()) co_return rows;
  const auto buckets = path_buckets(state_.params, id.eviction, state_.tree.height);
  auto answers = co_await for_all(static_cast<unsigned>(state_.servers.count()), [&](Party server) {
    const MarkPreparedRequest question{state_.session.epoch, id,
                                       state_.scheme->mark_key(id.eviction, server)};
    return state_.ask_again(server, MarkPreparedRequest::kType, encode(question), kMarksWithin);
  });
  std::vector<std::optional<MarksAnswer>> given(answers.size());
  for (std::size_t i = 0; i < answers.size() && !state_.dead; ++i) {
    if (answers[i]) given[i] = decode<MarksAnswer>(answers[i]->body());
    if (given[i] && given[i]->marks.size() != buckets.size()) given[i].reset();
    if (!given[i] && told_.pass(state_.now()))
      spdlog::warn(
          "server {} gives no marks of its shares: if another server lies in a repair of this one, "
          "that is not noticed ({}){}",
          i + 1, answers[i] ? "it sent an invalid answer" : answers[i].error().message,
          told_.more());
  }
  for (std::size_t nth = 0; nth < buckets.size(); ++nth) {
    MarkRow& row = rows[buckets[nth]];
    row.eviction = id.eviction;
    row.height = state_.tree.height;
    for (const auto& answer : given)
      row.marks.push_back(answer ? std::optional(answer->marks[nth]) : std::nullopt);
  }
  co_return rows;
}

}  // namespace s3oram
