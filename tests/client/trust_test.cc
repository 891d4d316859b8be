// Tests how much a refusal of one server counts, and what stays known of it.
#include "oramcore/client/trust.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <sstream>

namespace s3oram {
namespace {

using namespace std::chrono_literals;

/// A clock that only the test moves.
class SetClock final : public Clock {
 public:
  Duration now() const override { return time; }
  void call_after(Duration, std::function<void()>) override {}
  Duration time = 100s;
};

class TrustTest : public testing::Test {
 protected:
  Errc weighed(Party server, MessageType type, Errc refusal) {
    const auto answer = trust_.weigh(server, type, fail(refusal, "server {} says no", server));
    return answer.error().code;
  }
  void fails(Party server, MessageType type, Errc code = Errc::failed) {
    trust_.note(server, type, fail(code, "it fails"));
  }
  std::string trouble(Party server) const {
    const auto found = trust_.troubles().at(server, clock_.now());
    return found ? found->error.message : "";
  }

  SetClock clock_;
  Trust trust_{clock_, 3, 1};
};

TEST_F(TrustTest, OneServerCannotGiveTheVolumeAway) {
  EXPECT_EQ(weighed(1, MessageType::retrieve, Errc::fenced), Errc::failed);
  EXPECT_EQ(weighed(2, MessageType::retrieve, Errc::fenced), Errc::fenced);
}

TEST_F(TrustTest, AServerThatAnswersNoLongerCounts) {
  EXPECT_EQ(weighed(1, MessageType::commit, Errc::bad_request), Errc::failed);
  EXPECT_TRUE(trust_.weigh(1, MessageType::commit, Payload(Bytes())));
  EXPECT_EQ(weighed(2, MessageType::commit, Errc::bad_request), Errc::failed);
  EXPECT_EQ(weighed(3, MessageType::commit, Errc::bad_request), Errc::bad_request);
}

TEST_F(TrustTest, AServerThatIsNotNeededEndsNothing) {
  trust_.set_may_do_without([](Party server) { return server == 2; });
  EXPECT_EQ(weighed(1, MessageType::labels, Errc::bad_request), Errc::bad_request);
  EXPECT_EQ(weighed(2, MessageType::labels, Errc::bad_request), Errc::failed);
}

TEST_F(TrustTest, AnErrorThatPassesIsATroubleOnceItDoesNot) {
  for (unsigned times = 1; times <= 3; ++times) {
    fails(1, MessageType::retrieve, Errc::need_open);
    EXPECT_EQ(trouble(1), "") << times;
    trust_.put_off(1, MessageType::retrieve);
  }
  fails(1, MessageType::retrieve, Errc::need_open);
  EXPECT_EQ(trouble(1), "it fails (3 times in succession)");
  trust_.note(1, MessageType::retrieve, {});
  EXPECT_EQ(trouble(1), "");
}

TEST_F(TrustTest, WhatFollowsFromAnotherServerIsNoTrouble) {
  trust_.note(1, MessageType::prepare, fail(Errc::failed, "server 2 is gone"), true);
  EXPECT_EQ(trouble(1), "");
  const Duration before = clock_.time;
  clock_.time += 1s;
  trust_.left_out(2);
  EXPECT_TRUE(trust_.may_be_of_another(MessageType::prepare, Errc::failed, before));
  EXPECT_FALSE(trust_.may_be_of_another(MessageType::heal_slot, Errc::failed, before));
  EXPECT_FALSE(trust_.may_be_of_another(MessageType::prepare, Errc::failed, clock_.time));
}

TEST_F(TrustTest, AServerThatComesBackEndsWhatItMayHaveCaused) {
  fails(1, MessageType::retrieve);
  fails(2, MessageType::heal_slot);
  trust_.came_back(3);
  EXPECT_EQ(trouble(1), "");
  EXPECT_EQ(trouble(2), "it fails");
}

TEST_F(TrustTest, ALiarIsNamedInTheStatusEachTimeAndInTheLogSometimes) {
  std::ostringstream log;
  const auto former = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  const auto lines = [&log] { return std::ranges::count(log.str(), '\n'); };
  trust_.found_lying(2, "one thing");
  trust_.found_lying(2, "another");
  EXPECT_EQ(lines(), 1);
  EXPECT_EQ(trouble(2), "server 2 is faulty or lies (another)");
  trust_.found_lying(3, "one thing");
  EXPECT_EQ(lines(), 2) << "each server has lines of its own";
  clock_.time += 1min;
  trust_.found_lying(2, "a third thing");
  EXPECT_EQ(lines(), 3);
  EXPECT_NE(log.str().find("(a third thing) (1 more such lines were left out)"), std::string::npos)
      << log.str();
  spdlog::set_default_logger(former);
}

}  // namespace
}  // namespace s3oram
