// Asks servers about their lines, and chooses the one to do without.
#include "oramcore/client/line_watch.h"

#include <algorithm>

namespace s3oram {
namespace {

constexpr Duration kLooksEach = std::chrono::milliseconds(100);
// What servers do together takes no longer, if all is well and nothing is slow.
constexpr Duration kTakesUsually = std::chrono::milliseconds(300);
// If the volume needs all its servers, the answers only go into the status.
constexpr Duration kLooksIfAllNeeded = std::chrono::milliseconds(200);
constexpr Duration kTakesLong = std::chrono::seconds(2);
constexpr Duration kBetweenLooks = std::chrono::milliseconds(300);
constexpr Duration kLooksIfIdle = std::chrono::seconds(10);
constexpr Duration kForgottenAfter = std::chrono::minutes(10);

std::pair<Party, Party> line_between(Party one, Party other) {
  return {std::min(one, other), std::max(one, other)};
}

}  // namespace

Party LineJudge::choose(const CutLines& cut, Duration now) {
  if (now - last_ > kForgottenAfter) {
    std::ranges::fill(at_end_, 0u);
    std::ranges::fill(left_out_, 0u);
  }
  last_ = now;
  std::set<Party> ends;
  for (const auto& [one, other] : cut)
    for (const Party end : {one, other}) {
      ++at_end_[end];
      ends.insert(end);
    }
  const auto spared = [&](Party server) {
    return static_cast<int>(at_end_[server]) - static_cast<int>(left_out_[server]);
  };
  Party chosen = *ends.begin();
  for (const Party end : ends)
    if (spared(end) >= spared(chosen)) chosen = end;
  return chosen;
}

// Looks more often while something waits or is cut, and sometimes even if nothing is.
bool LineWatch::is_due() const {
  const Duration now = clock_.now();
  if (!cut_.empty() && now - looked_ >= kTakesLong) return true;
  if (now - looked_ >= kLooksIfIdle) return in_step_.may_shrink();
  const Duration long_ago = now - (in_step_.may_shrink() ? kTakesUsually : kTakesLong);
  if (now - looked_ < kBetweenLooks) return false;
  return std::ranges::any_of(in_step_.takers(), [&](Party server) {
    const auto since = servers_.needs_others_since(server);
    return since && *since <= long_ago;
  });
}

Task<void> LineWatch::watch() {
  looked_ = clock_.now();
  while (!servers_.stopped()) {
    co_await clock_.sleep(in_step_.may_shrink() ? kLooksEach : kLooksIfAllNeeded);
    if (servers_.stopped() || !is_due()) continue;
    co_await look();
    looked_ = clock_.now();
  }
}

Task<void> LineWatch::look() {
  const Bytes asked = in_step_.takers();
  const auto answers =
      co_await for_each_of(asked, [this](Party server) { return servers_.lines(server); });
  if (servers_.stopped()) co_return;
  learn(asked, answers);
  act();
}

// A server that does not answer is dead or hangs, and then it is not the line that is cut.
void LineWatch::learn(const Bytes& asked, const std::vector<Result<LinesAnswer>>& answers) {
  const std::set<Party> all(asked.begin(), asked.end());
  std::set<Party> there;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (answers[i] || answers[i].error().code != Errc::unreachable) there.insert(asked[i]);
  std::erase_if(cut_, [&](const auto& line) {
    return all.contains(line.first) && all.contains(line.second);
  });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) continue;
    for (const PeerLine& line : answers[i]->peers)
      if (line.is == Hearing::silent && line.peer != asked[i] && there.contains(line.peer))
        cut_.insert(line_between(asked[i], line.peer));
  }
}

void LineWatch::act() {
  CutLines cut;
  for (const auto& line : cut_) {
    const auto takes_part = [&](Party server) {
      const Standing standing = in_step_.of(server);
      return standing == Standing::in_step || standing == Standing::following;
    };
    if (takes_part(line.first) && takes_part(line.second)) cut.insert(line);
  }
  if (cut.empty()) return;
  const auto why = [&](Party server) {
    for (const auto& [one, other] : cut)
      if (one == server || other == server)
        return fmt::format("the line between servers {} and {} is cut", one, other);
    return std::string();
  };
  // One that follows is not needed.
  for (const auto& line : cut)
    for (const Party end : {line.first, line.second})
      if (in_step_.of(end) == Standing::following) {
        do_without_(end, why(end));
        return;
      }
  if (!in_step_.may_leave(cut.begin()->first)) return;
  const Party chosen = judge_.choose(cut, clock_.now());
  if (do_without_(chosen, why(chosen))) judge_.left_out(chosen);
}

Task<bool> LineWatch::hears_others(Party server) {
  const auto answer = co_await servers_.lines(server);
  std::erase_if(cut_,
                [&](const auto& line) { return line.first == server || line.second == server; });
  if (!answer) co_return answer.error().code != Errc::unreachable;  // an older one cannot say
  bool hears_all = true;
  for (const PeerLine& line : answer->peers) {
    const bool exists = line.peer >= 1 && line.peer <= in_step_.count() && line.peer != server;
    if (line.is != Hearing::silent || !exists || !in_step_.holds(line.peer)) continue;
    cut_.insert(line_between(server, line.peer));
    hears_all = false;
  }
  co_return hears_all;
}

bool LineWatch::is_cut() const {
  return std::ranges::any_of(cut_, [&](const auto& line) {
    return in_step_.holds(line.first) && in_step_.holds(line.second);
  });
}

std::set<Party> LineWatch::cut_from(Party server) const {
  std::set<Party> others;
  for (const auto& [one, other] : cut_) {
    if (one == server) others.insert(other);
    if (other == server) others.insert(one);
  }
  return others;
}

}  // namespace s3oram
