// Tests which servers are reported as silent, troubled or stalled, and for how long.
#include <gtest/gtest.h>

#include <deque>

#include "oramcore/client/servers.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::FastClock;
using test::Network;

constexpr Party kServer = 1;

class Silence : public testing::Test {
 protected:
  Silence() {
    network_.filter = [this](Party, Party, const Bytes&) { return connected_; };
    server_.serve([this](Party, std::uint16_t number, Payload) -> Task<Result<Bytes>> {
      const auto type = static_cast<MessageType>(number);
      while (type != MessageType::traffic && busy_) co_await never_.wait();
      if (const auto error = errors_.find(type); error != errors_.end())
        co_return fail(error->second);
      co_return encode(TrafficAnswer{});
    });
  }

  /// Asks for the traffic, as a status does, and waits for the outcome.
  bool ask_for_traffic() {
    std::optional<bool> answered;
    spawn(context_.get_executor(), [](Servers& servers, std::optional<bool>& out) -> Task<void> {
      auto answer = co_await servers.traffic(kServer, 1s);
      out = answer.has_value();
    }(servers_, answered));
    while (!answered && step()) continue;
    return answered.value_or(false);
  }
  /// Sends a request that may take forever.
  void ask_for_work() {
    spawn(context_.get_executor(), [](Servers& servers) -> Task<void> {
      auto answer =
          co_await servers.ask_once(kServer, PrepareRequest::kType, Bytes(Rpc::kHeaderSize));
      static_cast<void>(answer);
    }(servers_));
    settle();
  }
  /// Returns whether the server did its work.
  bool ask(MessageType type, std::shared_ptr<Servers::JointAttempt> attempt = {}) {
    std::optional<bool> answered;
    spawn(context_.get_executor(),
          [](Servers& servers, MessageType what, std::shared_ptr<Servers::JointAttempt> with,
             std::optional<bool>& out) -> Task<void> {
            auto answer = co_await servers.ask_once(kServer, what, Bytes(Rpc::kHeaderSize), with);
            out = answer.has_value();
          }(servers_, type, attempt, answered));
    while (!answered && step()) continue;
    return answered.value_or(false);
  }
  std::string trouble() const {
    const auto trouble = servers_.trouble(kServer);
    if (!trouble) return "";
    const std::string said = "server 1 says: ";
    EXPECT_TRUE(trouble->error.message.starts_with(said)) << trouble->error.message;
    return trouble->error.message.substr(said.size());
  }
  void settle() {
    context_.restart();
    context_.poll();
  }
  bool step() {
    settle();
    return clock_.advance();
  }
  void pass(Duration time) {
    bool over = false;
    clock_.call_after(time, [&over] { over = true; });
    while (!over && step()) continue;
    settle();
  }
  void TearDown() override {
    servers_.stop();
    busy_ = false;
    never_.notify_all();
    settle();
  }

  asio::io_context context_{1};
  Network network_{context_.get_executor()};
  FastClock clock_{context_};
  Prg random_{Seed{}, as_bytes("silence")};
  std::unique_ptr<Transport> client_port_ = network_.attach(kClient),
                             server_port_ = network_.attach(kServer);
  Servers servers_{context_.get_executor(), clock_, random_, *client_port_, VolumeId{}, 1};
  Rpc server_{context_.get_executor(), clock_, random_, *server_port_};
  Event never_;
  bool connected_ = true, busy_ = true;
  std::map<MessageType, Error> errors_;  // what it answers
};

TEST_F(Silence, WhoAnswersIsNotSilent) {
  EXPECT_FALSE(servers_.silent_for(kServer));
  EXPECT_TRUE(ask_for_traffic());
  pass(100s);
  EXPECT_FALSE(servers_.silent_for(kServer));  // nobody has asked
}

TEST_F(Silence, CountsFromTheFirstQuestionWithoutAnswer) {
  ASSERT_TRUE(ask_for_traffic());
  pass(100s);
  connected_ = false;
  EXPECT_FALSE(ask_for_traffic());
  ASSERT_TRUE(servers_.silent_for(kServer));
  EXPECT_NEAR(std::chrono::duration<double>(*servers_.silent_for(kServer)).count(), 1, 0.6);
  pass(30s);
  EXPECT_FALSE(ask_for_traffic());
  EXPECT_NEAR(std::chrono::duration<double>(*servers_.silent_for(kServer)).count(), 32, 1.2);
  connected_ = true;
  EXPECT_TRUE(ask_for_traffic());
  EXPECT_FALSE(servers_.silent_for(kServer));
}

TEST_F(Silence, AMomentIsNone) {
  ASSERT_TRUE(ask_for_traffic());
  connected_ = false;
  EXPECT_FALSE(ask_for_traffic());
  EXPECT_FALSE(servers_.silent_for(kServer));  // it answered a second ago
  pass(3s);
  EXPECT_TRUE(servers_.silent_for(kServer));
}

TEST_F(Silence, WhoWorksOnALongRequestIsNotSilent) {
  ask_for_work();
  for (int i = 0; i < 10; ++i) {
    pass(10s);
    EXPECT_TRUE(ask_for_traffic());
    EXPECT_FALSE(servers_.silent_for(kServer)) << i;
  }
  connected_ = false;
  pass(20s);
  ASSERT_TRUE(servers_.silent_for(kServer));
  EXPECT_NEAR(std::chrono::duration<double>(*servers_.silent_for(kServer)).count(), 20, 1);
}

class Trouble : public Silence {
 protected:
  Trouble() { busy_ = false; }
};

TEST_F(Trouble, StaysUntilTheSameThingHasWorked) {
  errors_[MessageType::prepare] = {Errc::damaged_vault, "control.db is damaged"};
  EXPECT_FALSE(ask(MessageType::prepare));
  EXPECT_EQ(trouble(), "control.db is damaged");
  EXPECT_TRUE(ask(MessageType::retrieve));
  EXPECT_EQ(trouble(), "control.db is damaged") << "a retrieval needs no control.db";
  errors_.clear();
  EXPECT_TRUE(ask(MessageType::prepare));
  EXPECT_EQ(trouble(), "");
}

TEST_F(Trouble, OfAnyKindIsTold) {
  for (const Errc code : {Errc::failed, Errc::disk_full, Errc::damaged_vault, Errc::wrong_volume,
                          Errc::bad_request, Errc::stale_vault, Errc::unsupported}) {
    for (const MessageType type :
         {MessageType::retrieve, MessageType::write_root, MessageType::prepare,
          MessageType::discard, MessageType::commit, MessageType::release, MessageType::heal_slot,
          MessageType::read_slot, MessageType::damage}) {
      errors_ = {{type, {code, "it does not work"}}};
      EXPECT_FALSE(ask(type));
      EXPECT_EQ(trouble(), "it does not work") << static_cast<int>(code);
      errors_.clear();
      EXPECT_TRUE(ask(type));
      EXPECT_EQ(trouble(), "");
    }
  }
}

TEST_F(Trouble, IsNotWhatIsInTheCourseOfThings) {
  for (const Errc code : {Errc::corrupt, Errc::former_view}) {
    errors_[MessageType::retrieve] = {code, "a slot is damaged"};
    EXPECT_FALSE(ask(MessageType::retrieve));
    EXPECT_EQ(trouble(), "");
  }
}

TEST_F(Trouble, OfASharedAttemptIsTheFirstAlone) {
  const auto attempt = std::make_shared<Servers::JointAttempt>();
  attempt->failed = true;  // because of another server
  errors_[MessageType::prepare] = {Errc::failed, "the client discards this attempt"};
  EXPECT_FALSE(ask(MessageType::prepare, attempt));
  EXPECT_EQ(trouble(), "");
  const auto first = std::make_shared<Servers::JointAttempt>();
  EXPECT_FALSE(ask(MessageType::prepare, first));
  EXPECT_TRUE(first->failed);
  EXPECT_EQ(trouble(), "the client discards this attempt");
}

TEST_F(Trouble, ThatAStatusIsToldCountsToo) {
  errors_[MessageType::traffic] = {Errc::wrong_volume, "slots is missing"};
  EXPECT_FALSE(ask_for_traffic());
  EXPECT_EQ(trouble(), "slots is missing");
  EXPECT_FALSE(servers_.silent_for(kServer));
  errors_.clear();
  EXPECT_TRUE(ask_for_traffic());
  EXPECT_EQ(trouble(), "");
}

TEST_F(Trouble, ThatNobodyHasTriedAgainIsForgotten) {
  errors_[MessageType::heal_slot] = {Errc::failed, "the disk does not write"};
  EXPECT_FALSE(ask(MessageType::heal_slot));
  pass(Troubles::kForgotten - 1s);
  EXPECT_NE(trouble(), "");
  pass(2s);
  EXPECT_EQ(trouble(), "");
}

TEST_F(Trouble, AServerThatAnswersOthersAndDoesNotGetDoneIsStalled) {
  busy_ = true;
  ask_for_work();  // it may take long
  pass(10s);
  EXPECT_TRUE(ask_for_traffic());
  EXPECT_FALSE(servers_.stalled(kServer));
  spawn(context_.get_executor(), [](Servers& servers) -> Task<void> {
    static_cast<void>(
        co_await servers.ask_once(kServer, MessageType::write_root, Bytes(Rpc::kHeaderSize)));
  }(servers_));
  settle();
  EXPECT_FALSE(servers_.stalled(kServer));
  pass(5s);
  EXPECT_TRUE(ask_for_traffic());
  EXPECT_FALSE(servers_.silent_for(kServer));
  const auto stall = servers_.stalled(kServer);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->doing, MessageType::write_root);
  EXPECT_GE(stall->time, 4s);
}

/// A volume of two servers, each of which answers what it is told to.
class TwoServers : public testing::Test {
 protected:
  TwoServers() {
    network_.filter = [this](Party from, Party to, const Bytes&) {
      return !cut_off_.contains(from) && !cut_off_.contains(to);
    };
    for (const Party server : {1, 2}) {
      ports_[server] = network_.attach(server);
      served_[server] =
          std::make_unique<Rpc>(context_.get_executor(), clock_, random_, *ports_[server]);
      served_[server]->serve(
          [this, server](Party, std::uint16_t type, Payload) -> Task<Result<Bytes>> {
            while (type != static_cast<unsigned>(MessageType::traffic) && busy_.contains(server))
              co_await never_.wait();
            if (failing_.contains(server)) co_return fail(Errc::failed, "it does not work");
            co_return encode(TrafficAnswer{});
          });
    }
  }
  ~TwoServers() override {
    servers_.stop();
    busy_.clear();
    never_.notify_all();
    settle();
  }

  /// Begins to ask the server; `answered` becomes true when that ends.
  void begin_to_ask(Party server, MessageType type, bool& answered) {
    spawn(context_.get_executor(),
          [](Servers& servers, Party whom, MessageType what, bool& out) -> Task<void> {
            static_cast<void>(co_await servers.ask_once(whom, what, Bytes(Rpc::kHeaderSize)));
            out = true;
          }(servers_, server, type, answered));
    settle();
  }
  void settle() {
    context_.restart();
    context_.poll();
  }

  asio::io_context context_{1};
  Network network_{context_.get_executor()};
  FastClock clock_{context_};
  Prg random_{Seed{}, as_bytes("steps")};
  std::map<Party, std::unique_ptr<Transport>> ports_;
  std::map<Party, std::unique_ptr<Rpc>> served_;
  std::unique_ptr<Transport> client_port_ = network_.attach(kClient);
  Servers servers_{context_.get_executor(), clock_, random_, *client_port_, VolumeId{}, 2};
  Event never_;
  std::set<Party> failing_, cut_off_;
  std::set<Party> busy_;  // servers that answer nothing but how much they have sent
  std::deque<bool> answered_;
};

/// Which of two servers that work together is in trouble.
class JointTrouble : public TwoServers {
 protected:
  void ask(Party server, MessageType type) {
    bool answered = false;
    begin_to_ask(server, type, answered);
    while (!answered && clock_.advance()) settle();
    ASSERT_TRUE(answered);
  }
};

TEST_F(JointTrouble, MayHaveBeenThatOfAServerThatIsLeftOut) {
  failing_ = {1};
  ask(1, MessageType::retrieve);
  EXPECT_TRUE(servers_.trouble(1));
  servers_.leave_out(2);
  EXPECT_FALSE(servers_.trouble(1));
  bool over = false;
  clock_.call_after(1s, [&over] { over = true; });
  while (!over && clock_.advance()) settle();
  ask(1, MessageType::retrieve);
  EXPECT_TRUE(servers_.trouble(1)) << "it lasts";
}

TEST_F(JointTrouble, OfAQuestionFromBeforeDoesNotCount) {
  busy_ = failing_ = {1};
  bool answered = false;
  begin_to_ask(1, MessageType::retrieve, answered);
  ASSERT_TRUE(clock_.advance());
  settle();
  servers_.leave_out(2);
  busy_.clear();
  never_.notify_all();
  settle();
  while (!answered && clock_.advance()) settle();
  ASSERT_TRUE(answered);
  EXPECT_FALSE(servers_.trouble(1));
}

TEST_F(JointTrouble, IsNotThatOfAServerAlone) {
  failing_ = {1, 2};
  ask(1, MessageType::heal_slot);
  ask(2, MessageType::retrieve);
  servers_.leave_out(2);
  EXPECT_TRUE(servers_.trouble(1));
  EXPECT_TRUE(servers_.trouble(2)) << "it is why the server is left out";
}

/// Which of two servers that wait for each other hangs.
class Stalls : public TwoServers {
 protected:
  Stalls() { busy_ = {1}; }

  void ask_for_work() { begin_to_ask(1, MessageType::retrieve, answered_.emplace_back(false)); }
  /// Lets time pass, and asks both servers each second, as the daemon does.
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      bool over = false;
      clock_.call_after(1s, [&over] { over = true; });
      for (const Party server : {1, 2})
        spawn(context_.get_executor(), [](Servers& servers, Party whom) -> Task<void> {
          static_cast<void>(co_await servers.traffic(whom, 1s));
        }(servers_, server));
      do settle();
      while (!over && clock_.advance());
      settle();
    }
  }
};

TEST_F(Stalls, AServerThatWaitsForASilentOneIsNotOne) {
  pass(1);
  cut_off_ = {2};
  ask_for_work();
  pass(20);
  ASSERT_TRUE(servers_.silent_for(2));
  EXPECT_FALSE(servers_.silent_for(1));
  EXPECT_FALSE(servers_.stalled(1)) << "it may wait for server 2";
  cut_off_.clear();
  pass(2);
  ASSERT_FALSE(servers_.silent_for(2));
  EXPECT_FALSE(servers_.stalled(1)) << "it has had no time yet";
  pass(4);
  const auto stall = servers_.stalled(1);
  ASSERT_TRUE(stall) << "nobody keeps it waiting";
  EXPECT_LT(stall->time, 10s);
}

TEST_F(Stalls, WhatWasAskedBeforeAnotherOneWasLeftOutDoesNotCount) {
  pass(1);
  ask_for_work();
  pass(2);
  servers_.leave_out(2);
  cut_off_ = {2};
  for (int i = 0; i < 20; ++i) {
    pass(1);
    ASSERT_FALSE(servers_.stalled(1)) << "it may wait for server 2; " << i;
  }
  ask_for_work();
  pass(5);
  EXPECT_TRUE(servers_.stalled(1));
}

class Steps : public TwoServers {
 protected:
  /// Asks the server, and returns the steps since the last call.
  std::uint64_t ask(Party server, MessageType type) {
    bool answered = false;
    begin_to_ask(server, type, answered);
    while (!answered && clock_.advance()) settle();
    EXPECT_TRUE(answered);
    return servers_.steps() - std::exchange(seen_, servers_.steps());
  }

  std::uint64_t seen_ = 0;
};

TEST_F(Steps, NeedAllServers) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(1, MessageType::retrieve), 1u);
    EXPECT_EQ(ask(1, MessageType::write_root), 0u);
    EXPECT_EQ(ask(1, MessageType::retrieve), 0u);
    EXPECT_EQ(ask(2, MessageType::prepare), 1u);
  }
}

TEST_F(Steps, NeedAnswersThatBringAnAccessAhead) {
  EXPECT_EQ(ask(1, MessageType::write_root), 1u);
  EXPECT_EQ(ask(2, MessageType::discard), 0u);
  EXPECT_EQ(ask(2, MessageType::reserve), 0u);
  failing_ = {2};
  EXPECT_EQ(ask(2, MessageType::write_root), 0u);
  EXPECT_EQ(ask(1, MessageType::retrieve), 0u);
  failing_.clear();
  EXPECT_EQ(ask(2, MessageType::write_root), 1u);
  EXPECT_EQ(ask(1, MessageType::retrieve), 1u);
}

TEST_F(Steps, DoNotNeedAServerThatIsLeftOut) {
  servers_.leave_out(2);
  EXPECT_EQ(ask(1, MessageType::retrieve), 1u);
  EXPECT_EQ(ask(1, MessageType::commit), 1u);
}

}  // namespace
}  // namespace s3oram
