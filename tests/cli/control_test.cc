// Tests requests to a daemon that is gone, or to a process that is not a daemon.
#include <sys/socket.h>
#include <sys/un.h>

#include <functional>
#include <string>

#include "cli/mount_control.h"
#include "tests/vault/vault_fixture.h"

namespace s3oram {
namespace {

class QuestionTest : public VaultFixture {
 protected:
  void SetUp() override {
    auto made = Vault::create(root_ / "v", local_config(), {}, random_, kQuick);
    ASSERT_TRUE(made) << made.error().message;
    vault_.emplace(std::move(*made));
  }
  void listen() {
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (vault_->run_directory() / "control.sock").string();
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener_.get(), 5), 0);
  }
  /// Takes the request, and ends after sending `words`.
  void reply(const std::string& words) {
    const Descriptor taken(::accept(listener_.get(), nullptr, nullptr));
    char question[64];
    ASSERT_GT(::recv(taken.get(), question, sizeof question, 0), 0);
    ASSERT_EQ(::send(taken.get(), words.data(), words.size(), 0),
              static_cast<ssize_t>(words.size()));
  }
  /// Returns the outcome of a request, while `daemon` acts.
  Errc outcome(const std::function<void()>& daemon) {
    auto question = Question::ask(*vault_, "status", std::chrono::seconds(20));
    if (!question) return question.error().code;
    daemon();
    const auto answer = question->answer();
    said_ = answer ? answer->dump() : answer.error().message;
    return answer ? Errc::ok : answer.error().code;
  }

  SystemRandom random_;
  std::optional<Vault> vault_;
  Descriptor listener_;
  std::string said_;
};

TEST_F(QuestionTest, NobodyThereIsNotMounted) {
  EXPECT_EQ(outcome([] {}), Errc::not_mounted) << "no socket";
  listen();
  listener_ = Descriptor();
  EXPECT_EQ(outcome([] {}), Errc::not_mounted) << "a socket that was left";
}

// The daemon is killed just then, so umount must not report that the daemon failed to write.
TEST_F(QuestionTest, AClientThatLeavesWithoutReadingItWasNotThere) {
  listen();
  EXPECT_EQ(outcome([&] { listener_ = Descriptor(); }), Errc::not_mounted) << said_;
}

TEST_F(QuestionTest, AClientThatLeavesAfterReadingItHasFailed) {
  listen();
  EXPECT_EQ(outcome([&] { reply(""); }), Errc::failed);
  EXPECT_NE(said_.find("ended before it answered"), std::string::npos) << said_;
}

TEST_F(QuestionTest, WhatIsNoAnswerIsShown) {
  listen();
  for (const char* words : {"what?\n", "{}\n", "{\"ok\": 1}\n"}) {
    EXPECT_EQ(outcome([&] { reply(words); }), Errc::failed) << words;
    EXPECT_NE(said_.find(std::string(words, 2)), std::string::npos) << said_;
  }
}

TEST_F(QuestionTest, AnAnswerIsGiven) {
  listen();
  EXPECT_EQ(outcome([&] { reply("{\"ok\": true}\n"); }), Errc::ok);
  EXPECT_EQ(outcome([&] { reply("{\"ok\": false, \"code\": 21, \"message\": \"full\"}\n"); }),
            static_cast<Errc>(21));
  EXPECT_EQ(said_, "full");
}

}  // namespace
}  // namespace s3oram
