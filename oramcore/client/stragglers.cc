// Decides when a server is later than the others.
#include "oramcore/client/stragglers.h"

#include <algorithm>
#include <utility>

namespace s3oram {
namespace {

constexpr Duration kLaterBy = std::chrono::seconds(2);
// The lines of several servers may be slower than those of the rest, so they get more time.
constexpr Duration kSeveralLaterBy = std::chrono::seconds(10);
constexpr Duration kQuestionTakes = std::chrono::seconds(10);

}  // namespace

std::shared_ptr<Stragglers::Question> Stragglers::begin() const {
  Question question{.members = state_.in_step.members(), .followers = {}, .begun = state_.now()};
  question.spare = question.members.size() -
                   std::min<std::size_t>(question.members.size(), state_.in_step.needed());
  for (const Party server : state_.in_step.takers())
    if (!state_.in_step.holds(server)) question.followers.push_back(server);
  return std::make_shared<Question>(std::move(question));
}

// The servers that follow are waited for as long as those in step are, and somewhat longer.
void Stragglers::answered(const std::shared_ptr<Question>& question, Party server) {
  std::erase(question->followers, server);
  if (std::erase(question->members, server) == 0) return;
  // Not temporaries, which g++ 12 would destroy twice.
  const std::string stays_away = "does not do its part in an eviction";
  const std::string is_slow = "is too slow to follow";
  const Duration took = state_.now() - question->begun;
  const Duration one = std::max(kLaterBy, 2 * took), several = std::max(kSeveralLaterBy, 4 * took);
  const std::size_t missing = question->members.size();
  if (missing == 1)
    state_.start(expect(question, question->members, stays_away, one));
  else if (missing > 1 && missing <= question->spare &&
           !std::exchange(question->several_expected, true))
    state_.start(expect(question, question->members, stays_away, several));
  else if (missing == 0 && !question->followers.empty())
    state_.start(expect(question, question->followers, is_slow, one));
}

Task<void> Stragglers::expect(std::shared_ptr<Question> question, Bytes late, std::string why,
                              Duration patience) {
  constexpr Duration kLook = std::chrono::milliseconds(100);
  const auto is_late = [&](Party server) {
    return std::ranges::find(question->members, server) != question->members.end() ||
           std::ranges::find(question->followers, server) != question->followers.end();
  };
  const Duration until = state_.now() + patience;
  while (!state_.dead && std::ranges::any_of(late, is_late) && state_.now() < until)
    co_await state_.environment.clock.sleep(kLook);
  for (const Party server : late) {
    if (state_.dead || !is_late(server)) continue;
    // Its answer may wait behind blocks that it sends. Then it comes before this one.
    static_cast<void>(co_await state_.servers.traffic(server, kQuestionTakes));
    // A server that joins can be done without only when vault.db has said that it is in step.
    while (!state_.dead && state_.in_step.of(server) == Standing::joining)
      co_await state_.environment.clock.sleep(kLook);
    if (!state_.dead && is_late(server)) attendance_.do_without(server, why);
  }
}

/// A server that is left out may be back before the others have answered.
Task<Status> Stragglers::ask(Party server, MessageType type, Bytes message,
                             std::shared_ptr<Question> question) {
  auto answer = co_await state_.servers.ask(server, type, std::move(message));
  answered(question, server);
  if (!answer && !state_.servers.is_left_out(server)) co_return fail(std::move(answer).error());
  co_return Status{};
}

Task<Status> Stragglers::ask_all(MessageType type, Bytes message) {
  const auto question = begin();
  const Bytes asked = state_.in_step.takers();
  auto answers = co_await for_each_of(
      asked, [&](Party server) { return ask(server, type, message, question); });
  for (Status& status : answers) S3O_CO_TRY(status);
  co_return Status{};
}

}  // namespace s3oram
