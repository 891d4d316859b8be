// Tests Rpc between two parties and a stranger, over a network in memory that loses, repeats and
// forges messages.
#include "oramcore/net/rpc.h"

#include <gtest/gtest.h>

#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::FastClock;
using test::Network;

constexpr Party kServer = 1, kStranger = 2;
constexpr auto kType = MessageType::retrieve;

Bytes message_of(std::string_view text) {
  Bytes message(Rpc::kHeaderSize + text.size());
  std::copy(text.begin(), text.end(), message.begin() + Rpc::kHeaderSize);
  return message;
}

std::string text_of(const Payload& payload) {
  return std::string(payload.body().begin(), payload.body().end());
}

class RpcTest : public testing::Test {
 protected:
  RpcTest() {
    network_.filter = [this](Party from, Party to, const Bytes& message) {
      sent_.push_back({from, to, message, clock_.now()});
      return !lose_ || !lose_(sent_.back());
    };
  }

  struct Sent {
    Party from, to;
    Bytes message;
    Duration at;
  };
  using Outcome = std::optional<Result<Payload>>;

  /// Begins a call; the outcome is filled in when the call ends.
  std::shared_ptr<Outcome> begin(std::string text, Duration patience = Duration::max(),
                                 MessageType type = kType) {
    auto outcome = std::make_shared<Outcome>();
    spawn(context_.get_executor(),
          [](Rpc& rpc, MessageType asked, std::string body, Duration until,
             std::shared_ptr<Outcome> out) -> Task<void> {
            auto result = co_await rpc.call(kServer, asked, message_of(body), until);
            out->emplace(std::move(result));
          }(*client_, type, std::move(text), patience, outcome));
    settle();
    return outcome;
  }
  /// Runs everything that needs no time to pass.
  void settle() {
    context_.restart();
    context_.poll();
  }
  /// Runs until the outcome is there or no timer is left.
  void finish(const Outcome& outcome) {
    do {
      settle();
    } while (!outcome && clock_.advance());
    ASSERT_TRUE(outcome);
  }
  std::vector<Sent> sent_by(Party party) const {
    std::vector<Sent> found;
    for (const Sent& sent : sent_)
      if (sent.from == party) found.push_back(sent);
    return found;
  }
  /// Echoes each request, after "re: ", and counts them.
  void serve_echo() {
    server_->serve([this](Party, std::uint16_t type, Payload request) -> Task<Result<Bytes>> {
      EXPECT_EQ(type, question_of(kType).type);
      ++handled_;
      co_return message_of("re: " + text_of(request));
    });
  }
  /// Makes handlers wait until `open_` is set.
  void serve_slowly() {
    server_->serve(
        [this](Party, std::uint16_t, Payload request) { return slowly(std::move(request)); });
  }
  Task<Result<Bytes>> slowly(Payload request) {
    ++handled_;
    while (!open_) co_await gate_.wait();
    co_return message_of("re: " + text_of(request));
  }
  void open_gate() {
    open_ = true;
    gate_.notify_all();
    settle();
  }

  asio::io_context context_{1};
  Network network_{context_.get_executor()};
  FastClock clock_{context_};
  Prg random_{Seed{}, as_bytes("rpc")};
  std::unique_ptr<Transport> client_port_ = network_.attach(kClient),
                             server_port_ = network_.attach(kServer);
  std::unique_ptr<Rpc> client_ =
      std::make_unique<Rpc>(context_.get_executor(), clock_, random_, *client_port_);
  std::unique_ptr<Rpc> server_ =
      std::make_unique<Rpc>(context_.get_executor(), clock_, random_, *server_port_);
  std::vector<Sent> sent_;
  std::function<bool(const Sent&)> lose_;
  int handled_ = 0;
  bool open_ = false;
  Event gate_;
};

TEST_F(RpcTest, MatchesAnswersToCallsInAnyOrder) {
  std::vector<std::function<void()>> answer;
  server_->serve([&](Party, std::uint16_t, Payload request) -> Task<Result<Bytes>> {
    Event turn;
    answer.push_back([&turn] { turn.notify_all(); });
    co_await turn.wait();
    co_return message_of("re: " + text_of(request));
  });
  std::vector<std::shared_ptr<Outcome>> outcomes;
  for (int i = 0; i < 50; ++i) outcomes.push_back(begin(std::to_string(i)));
  ASSERT_EQ(answer.size(), 50u);
  for (std::size_t i = 50; i-- > 0;) {
    answer[i * 7 % 50]();
    settle();
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(*outcomes[i] && **outcomes[i]) << i;
    EXPECT_EQ(text_of(***outcomes[i]), "re: " + std::to_string(i));
  }
}

TEST_F(RpcTest, SendsALostRequestAgainByteForByteAndMoreAndMoreSlowly) {
  serve_echo();
  lose_ = [&](const Sent& sent) { return sent.from == kClient && sent_by(kClient).size() < 7; };
  const auto outcome = begin("hello");
  finish(*outcome);
  ASSERT_TRUE(**outcome);
  EXPECT_EQ(text_of(***outcome), "re: hello");
  EXPECT_EQ(handled_, 1);
  const auto requests = sent_by(kClient);
  ASSERT_EQ(requests.size(), 7u);
  const Duration pauses[] = {2s, 4s, 8s, 16s, 16s, 16s};
  for (std::size_t i = 1; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].message, requests[0].message);
    EXPECT_EQ(requests[i].at - requests[i - 1].at, pauses[i - 1]) << i;
  }
}

TEST_F(RpcTest, AsksAgainSoonAfterANewConnection) {
  serve_echo();
  bool gone = true;
  lose_ = [&](const Sent& sent) { return sent.to == kServer && gone; };
  const auto outcome = begin("hello");
  while (sent_by(kClient).size() < 5 && clock_.advance()) settle();  // the next one follows in 16 s
  gone = false;
  network_.connect(kClient, kStranger);
  network_.connect(kClient, kServer);
  const auto back = clock_.now();
  finish(*outcome);
  ASSERT_TRUE(**outcome);
  EXPECT_LE(clock_.now() - back, 1s);
  EXPECT_EQ(sent_by(kClient).size(), 6u);
}

TEST_F(RpcTest, KnowsWhoIsLate) {
  serve_echo();
  bool silent = true;
  lose_ = [&](const Sent& sent) { return sent.from == kServer && silent; };
  const auto outcome = begin("hello");
  EXPECT_FALSE(client_->overdue(kServer));
  const auto begun = clock_.now();
  while (clock_.now() - begun < Rpc::kFirstResend && clock_.advance()) settle();
  EXPECT_TRUE(client_->overdue(kServer));
  EXPECT_EQ(client_->overdue_since(kServer), begun);
  EXPECT_FALSE(client_->overdue(kStranger));
  silent = false;
  finish(*outcome);
  EXPECT_FALSE(client_->overdue(kServer));
}

TEST_F(RpcTest, AsksAgainAfterALostAnswer) {
  serve_echo();
  lose_ = [&](const Sent& sent) { return sent.from == kServer && sent_by(kServer).size() < 3; };
  const auto outcome = begin("hello");
  finish(*outcome);
  ASSERT_TRUE(**outcome);
  EXPECT_EQ(text_of(***outcome), "re: hello");
  EXPECT_EQ(handled_, 3);
}

TEST_F(RpcTest, StopsAskingOnceAnswered) {
  serve_echo();
  const auto outcome = begin("hello");
  ASSERT_TRUE(*outcome);
  while (clock_.advance()) settle();
  EXPECT_EQ(sent_by(kClient).size(), 1u);
}

TEST_F(RpcTest, HandlesARequestOnceWhileItRuns) {
  serve_slowly();
  const auto outcome = begin("hello");
  const Bytes request = sent_by(kClient).front().message;
  for (int i = 0; i < 5; ++i) network_.deliver(kClient, kServer, request);
  settle();
  EXPECT_EQ(handled_, 1);
  EXPECT_EQ(server_->handling(), 1u);
  // A request with the same number from another party is another request.
  network_.deliver(kStranger, kServer, request);
  settle();
  EXPECT_EQ(handled_, 2);
  EXPECT_EQ(server_->handling(), 2u);
  open_gate();
  EXPECT_EQ(server_->handling(), 0u);
  ASSERT_TRUE(*outcome && **outcome);
  EXPECT_EQ(text_of(***outcome), "re: hello");
  // The answer may have been lost, so the request is handled and answered again.
  network_.deliver(kClient, kServer, request);
  settle();
  EXPECT_EQ(handled_, 3);
}

TEST_F(RpcTest, IgnoresAnswersThatAreNotForACall) {
  serve_slowly();
  const auto first = begin("first");
  const auto forged = [&](auto change) {
    Bytes answer = sent_by(kClient).front().message;
    answer[0] = 'A';
    change(answer);
    return answer;
  };
  const auto unchanged = [](Bytes&) {};
  network_.deliver(kStranger, kClient, forged(unchanged));
  network_.deliver(kServer, kClient, forged([](Bytes& answer) { answer[15] ^= 1; }));
  network_.deliver(kServer, kClient, forged([](Bytes& answer) { answer[0] = 'B'; }));
  for (std::size_t size = 0; size < Rpc::kHeaderSize; ++size)
    network_.deliver(kServer, kClient, forged([&](Bytes& answer) { answer.resize(size); }));
  settle();
  EXPECT_FALSE(*first);
  open_gate();
  ASSERT_TRUE(*first && **first);
  EXPECT_EQ(text_of(***first), "re: first");

  // The previous answer comes again, late, while another call waits.
  open_ = false;
  const auto second = begin("second");
  const Bytes late = sent_by(kServer).back().message;
  network_.deliver(kServer, kClient, late);
  network_.deliver(kServer, kClient, late);
  settle();
  EXPECT_FALSE(*second);
  open_gate();
  ASSERT_TRUE(*second && **second);
  EXPECT_EQ(text_of(***second), "re: second");
}

// A party of another version gets an error immediately, in both directions, instead of requests
// that it cannot answer.
TEST_F(RpcTest, AnotherVersionOfTheProtocolIsRefused) {
  serve_slowly();
  const auto outcome = begin("hello");
  Bytes question = sent_by(kClient).front().message;
  ASSERT_EQ(question[1], Rpc::kWireVersion);
  EXPECT_EQ(handled_, 1);
  question[1] = Rpc::kWireVersion + 1;
  network_.deliver(kClient, kServer, question);
  settle();
  EXPECT_EQ(handled_, 1);
  Bytes refusal = sent_by(kServer).back().message;
  ASSERT_GE(refusal.size(), Rpc::kHeaderSize);
  EXPECT_EQ(refusal[0], 'A');
  EXPECT_EQ(refusal[1], Rpc::kWireVersion);
  EXPECT_EQ(refusal[4], static_cast<int>(Errc::unsupported));
  EXPECT_TRUE(std::equal(question.begin() + 8, question.begin() + 16, refusal.begin() + 8));

  const auto second = begin("again");
  refusal = sent_by(kClient).back().message;
  refusal[0] = 'A';
  refusal[1] = Rpc::kWireVersion + 1;
  network_.deliver(kStranger, kClient, refusal);  // nobody asked for it
  settle();
  EXPECT_FALSE(*second);
  network_.deliver(kServer, kClient, refusal);
  settle();
  ASSERT_TRUE(*second);
  ASSERT_FALSE(**second);
  EXPECT_EQ((**second).error().code, Errc::unsupported);
  EXPECT_TRUE((**second).error().message.starts_with(
      "server 1 speaks version 3 of the protocol, and this program version 2: "))
      << (**second).error().message;
  open_gate();
}

TEST_F(RpcTest, TakesTheFirstOfTwoAnswers) {
  serve_slowly();
  const auto outcome = begin("hello");
  Bytes answer = sent_by(kClient).front().message;
  answer[0] = 'A';
  network_.deliver(kServer, kClient, answer);
  answer.back() = '!';
  network_.deliver(kServer, kClient, answer);
  settle();
  ASSERT_TRUE(*outcome && **outcome);
  EXPECT_EQ(text_of(***outcome), "hello");
}

TEST_F(RpcTest, CarriesErrors) {
  server_->serve([](Party, std::uint16_t, Payload) -> Task<Result<Bytes>> {
    co_return fail(Errc::disk_full, "no room for {} slots", 7);
  });
  const auto outcome = begin("hello");
  ASSERT_TRUE(*outcome);
  ASSERT_FALSE(**outcome);
  EXPECT_EQ((**outcome).error().code, Errc::disk_full);
  EXPECT_TRUE((**outcome).error().message.ends_with(" says: no room for 7 slots"));
}

// The texts end up in logs and on terminals.
TEST_F(RpcTest, WordsOfOthersAreFewAndPrintable) {
  server_->serve([](Party, std::uint16_t, Payload) -> Task<Result<Bytes>> {
    co_return fail(Errc::failed, "\x1b]52;c;\n<0>forged {}", std::string(1 << 20, 'x'));
  });
  const auto outcome = begin("hello");
  ASSERT_TRUE(*outcome);
  ASSERT_FALSE(**outcome);
  const std::string& words = (**outcome).error().message;
  EXPECT_NE(words.find(" says: \\x1b]52;c;\\x0a<0>forged xxx"), std::string::npos)
      << words.substr(0, 60);
  EXPECT_LT(words.size(), 1100u);
}

TEST_F(RpcTest, AnErrorWithoutAMeaningIsOneAllTheSame) {
  server_->serve([](Party, std::uint16_t, Payload) -> Task<Result<Bytes>> {
    co_return fail(static_cast<Errc>(256), "256 would be an exit status of 0");
  });
  const auto outcome = begin("hello");
  ASSERT_TRUE(*outcome);
  ASSERT_FALSE(**outcome);
  EXPECT_EQ((**outcome).error().code, Errc::failed);
}

// Such an answer could delay the next requests to honest servers.
TEST_F(RpcTest, AnAnswerThatNobodyWaitsForMakesNobodyPatient) {
  begin("first");  // there is no handler
  Bytes unasked = sent_by(kClient).front().message;
  unasked[0] = 'A';
  unasked[15] ^= 1;
  unasked.resize(1 << 28);
  network_.deliver(kServer, kClient, unasked);
  settle();
  const auto outcome = begin("second", 5s);
  const Duration begun = clock_.now();
  finish(*outcome);
  EXPECT_EQ((**outcome).error().code, Errc::unreachable);
  EXPECT_LE(clock_.now() - begun, 6s);
}

TEST_F(RpcTest, AGiantAnswerToOneQuestionMakesNobodyElsePatient) {
  const auto giant = begin("first", Duration::max(), MessageType::digests);  // there is no handler
  begin("another");
  Bytes answer = sent_by(kClient).front().message;
  answer[0] = 'A';
  answer.resize(1 << 28);
  network_.deliver(kServer, kClient, answer);
  settle();
  ASSERT_TRUE(*giant);
  const auto outcome = begin("second", 5s);
  const Duration begun = clock_.now();
  finish(*outcome);
  EXPECT_EQ((**outcome).error().code, Errc::unreachable);
  EXPECT_LE(clock_.now() - begun, 6s);
}

TEST_F(RpcTest, GivesUpWhenPatienceEnds) {
  const auto outcome = begin("anyone?", 5s);  // there is no handler
  const Duration begun = clock_.now();
  finish(*outcome);
  ASSERT_FALSE(**outcome);
  EXPECT_EQ((**outcome).error().code, Errc::unreachable);
  EXPECT_NE((**outcome).error().message.find("server 1"), std::string::npos);
  EXPECT_GE(clock_.now() - begun, 5s);
  EXPECT_LE(clock_.now() - begun, 6s);
  // An answer that comes too late does no harm.
  Bytes answer = sent_by(kClient).front().message;
  answer[0] = 'A';
  network_.deliver(kServer, kClient, answer);
  settle();
  EXPECT_EQ((**outcome).error().code, Errc::unreachable);
}

TEST_F(RpcTest, NeverGivesUpWithoutALimit) {
  const auto outcome = begin("anyone?");
  while (clock_.now() < 24h) {
    ASSERT_TRUE(clock_.advance());
    settle();
  }
  EXPECT_FALSE(*outcome);
  serve_echo();
  finish(*outcome);
  EXPECT_TRUE(**outcome);
}

TEST_F(RpcTest, StopEndsCallsNowAndLater) {
  const auto waiting = begin("hello");
  client_->stop();
  settle();
  ASSERT_TRUE(*waiting);
  ASSERT_FALSE(**waiting);
  EXPECT_EQ((**waiting).error().code, Errc::shutting_down);
  const std::size_t before = sent_.size();
  const auto later = begin("hello");
  ASSERT_TRUE(*later);
  EXPECT_EQ((**later).error().code, Errc::shutting_down);
  EXPECT_EQ(sent_.size(), before) << "a stopped party sends nothing";
}

TEST_F(RpcTest, StopEndsServing) {
  serve_slowly();
  const auto outcome = begin("hello");
  EXPECT_EQ(handled_, 1);
  server_->stop();
  network_.deliver(kStranger, kServer, sent_by(kClient).front().message);
  settle();
  EXPECT_EQ(handled_, 1);
  // Requests under way are still answered.
  open_gate();
  EXPECT_TRUE(*outcome);
}

TEST_F(RpcTest, ADyingHandlerLeavesItsCallerToAskAgain) {
  server_->serve([this](Party, std::uint16_t, Payload) -> Task<Result<Bytes>> {
    if (++handled_ == 1) co_return fail(Errc::shutting_down, "stopping");
    co_return message_of("back again");
  });
  const auto outcome = begin("hello");
  EXPECT_FALSE(*outcome);
  finish(*outcome);
  ASSERT_TRUE(**outcome);
  EXPECT_EQ(text_of(***outcome), "back again");
}

// Callers that wait are told in a later turn, when the Rpc may be gone.
TEST_F(RpcTest, MayDieRightAfterStop) {
  const auto outcome = begin("hello");
  client_->stop();
  client_.reset();
  settle();
  ASSERT_TRUE(*outcome);
  EXPECT_EQ((**outcome).error().code, Errc::shutting_down);
}

TEST_F(RpcTest, TakesThoseWhoWaitAlongWhenItDies) {
  const auto outcome = begin("hello");
  EXPECT_EQ(outcome.use_count(), 2);
  client_.reset();
  settle();
  EXPECT_EQ(outcome.use_count(), 1) << "the caller still exists";
  EXPECT_FALSE(*outcome);
}

TEST_F(RpcTest, MayDieWhileAHandlerRuns) {
  serve_slowly();
  const auto outcome = begin("hello");
  server_.reset();
  open_gate();
  EXPECT_TRUE(sent_by(kServer).empty());
  EXPECT_FALSE(*outcome);
}

}  // namespace
}  // namespace s3oram
