// Tests the daemon's parts around the file system: command line, mount table, control socket.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fused/daemon/control_socket.h"
#include "fused/daemon/mounts.h"
#include "fused/options/options.h"
#include "oramcore/base/mountinfo.h"
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

Result<std::variant<MountCommand, std::string>> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "s3oramfs-fused");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_mount_command(static_cast<int>(argv.size()), argv.data());
}

MountCommand parsed(std::vector<std::string> words) {
  auto result = parse(std::move(words));
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::get<MountCommand>(*result) : MountCommand{};
}

TEST(OptionsTest, AllThatMountPasses) {
  const MountCommand command =
      parsed({"/v", "/m/", "-f", "-o", "rw,noatime,_netdev,x-systemd.automount", "-o",
              "allow_other", "--cache", "64", "--timeout", "5"});
  EXPECT_EQ(command.vault, "/v");
  EXPECT_EQ(command.mountpoint, "/m");
  EXPECT_TRUE(command.foreground);
  EXPECT_EQ(command.fuse_options, (std::vector<std::string>{"allow_other", "noatime"}));
  EXPECT_FALSE(command.update_atime);
  EXPECT_FALSE(command.fake);
  EXPECT_EQ(command.cache, std::uint64_t{64} << 20);
  EXPECT_EQ(command.timeout, std::chrono::seconds(5));
}

TEST(OptionsTest, OptionsMayStandBeforeTheNames) {
  const MountCommand command = parsed({"-o", "ro", "/v", "--timeout", "5", "/m"});
  EXPECT_EQ(command.vault, "/v");
  EXPECT_EQ(command.mountpoint, "/m");
  EXPECT_TRUE(command.read_only);
}

TEST(OptionsTest, WhatHasAValueMayStandBehindO) {
  const MountCommand command = parsed(
      {"/v", "/m", "-o", "passfile=/etc/a b,cache=2G,timeout=7,uid=12,gid=root,log-level=debug"});
  EXPECT_EQ(command.passphrase.passfile, "/etc/a b");
  EXPECT_EQ(command.cache, std::uint64_t{2048} << 20);
  EXPECT_EQ(command.timeout, std::chrono::seconds(7));
  EXPECT_EQ(command.root_uid, uid_t{12});
  EXPECT_EQ(command.root_gid, gid_t{0});
  EXPECT_EQ(command.log_level, "debug");
  EXPECT_EQ(parsed({"/v", "/m", "-o", "keyfile=/k"}).keyfile, "/k");
  EXPECT_EQ(parsed({"/v", "/m", "-o", "passprog=echo a=b"}).passphrase.passprog, "echo a=b");
  EXPECT_EQ(parsed({"/v", "/m", "--passprog", "echo a, b"}).passphrase.passprog, "echo a, b");
  EXPECT_EQ(parsed({"/v", "/m", "--cache", "16M"}).cache, std::uint64_t{16} << 20);
  EXPECT_EQ(parsed({"/v", "/m"}).root_uid, std::nullopt);
  EXPECT_EQ(parsed({"/v", "/m"}).idle, std::nullopt);
  EXPECT_EQ(parsed({"/v", "/m", "-o", "idle=10m"}).idle, std::chrono::minutes(10));
  EXPECT_EQ(parsed({"/v", "/m", "--idle", "90"}).idle, std::chrono::seconds(90));
}

TEST(OptionsTest, TheLastOneCounts) {
  EXPECT_FALSE(parsed({"/v", "/m", "-o", "ro,rw"}).read_only);
  EXPECT_EQ(parsed({"/v", "/m", "-o", "rw,ro"}).fuse_options, std::vector<std::string>{"ro"});
  EXPECT_TRUE(parsed({"/v", "/m", "-o", "noatime,relatime"}).update_atime);
  EXPECT_FALSE(parsed({"/v", "/m", "-o", "atime,noatime,nodiratime"}).update_atime);
  EXPECT_FALSE(parsed({"/v", "/m", "-o", "ro"}).update_atime);
  EXPECT_EQ(parsed({"/v", "/m", "-o", "timeout=5,timeout=6"}).timeout, std::chrono::seconds(6));
  EXPECT_EQ(parsed({"/v", "/m", "-o", "cache=1G,cache=16M"}).cache, std::uint64_t{16} << 20);
}

TEST(OptionsTest, WhatIsForOthersIsIgnored) {
  const MountCommand command =
      parsed({"/v", "/m", "--fake", "--sloppy", "-o",
              "defaults,noauto,user=alice,users,nofail,comment=a=b,X-mount.mkdir,x-gvfs-show,"
              "default_permissions,async,,nonsense,strictatime"});
  EXPECT_TRUE(command.fake);
  EXPECT_TRUE(command.fuse_options.empty());
  for (const char* nothing : {"", ",", ",,"})
    EXPECT_EQ(parsed({"-o", nothing, "/v", "/m"}).vault, "/v") << nothing;
}

TEST(OptionsTest, MistakesAreNamed) {
  const struct {
    std::vector<std::string> words;
    const char* named;
  } cases[] = {
      {{"/v"}, "DIRECTORY"},
      {{"/v", "/m", "-o", "nonsense"}, "-o nonsense"},
      {{"/v", "/m", "-o", "nonsense"}, "allow_other"},  // the known options
      {{"/v", "/m", "-o", "nonsense"}, "comment="},
      {{"/v", "/m", "-o", "log-level=warn"}, "warn"},
      {{"/v", "/m", "-o", "nonsense=1"}, "nonsense=1"},
      {{"/v", "/m", "-o", "ro=1"}, "ro=1"},
      {{"/v", "/m", "-o", "passfile"}, "passfile"},
      {{"/v", "/m", "-o", "remount,ro"}, "unmount it"},
      {{"/v", "/m", "--cache", "1"}, "cache: 1"},
      {{"/v", "/m", "-o", "cache=12X"}, "12X"},
      {{"/v", "/m", "-o", "cache=99999999999999999999"}, "cache"},
      {{"/v", "/m", "-o", "timeout=0"}, "timeout"},
      {{"/v", "/m", "-o", "timeout=x"}, "timeout"},
      {{"/v", "/m", "-o", "idle=0"}, "idle: write a time"},
      {{"/v", "/m", "-o", "idle=10x"}, "idle: write a time"},
      {{"/v", "/m", "-o", "idle=99999999999999d"}, "idle: write a time"},
      {{"/v", "/m", "-o", "log-level=loud"}, "loud"},
      {{"/v", "/m", "-o", "uid=no such user"}, "no such user"},
      {{"/v", "/m", "-o", "uid=4294967295"}, "no user 4294967295"},
      {{"/v", "/m", "--gid", "4294967295"}, "no group 4294967295"},
      {{"/v", "/m", "-o", "gid=no such group"}, "no such group"},
      {{"/v", "/m", "-o", "keyfile=a,passfile=b"}, "keyfile"},
      {{"/v", "/m", "-o", "keyfile="}, "keyfile: its value is empty"},
      {{"/v", "/m", "--passfile", ""}, "passfile: its value is empty"},
      {{"/v", "/m", "--passprog", "a", "-o", "passfile=b"}, "passprog"},
      {{"/v", "/m", "--what"}, "--what"},
  };
  for (const auto& test : cases) {
    const auto result = parse(test.words);
    ASSERT_FALSE(result) << test.named;
    EXPECT_EQ(result.error().code, Errc::usage);
    EXPECT_NE(result.error().message.find(test.named), std::string::npos)
        << result.error().message << ": no " << test.named;
  }
  EXPECT_TRUE(std::holds_alternative<std::string>(*parse({"--help"})));
}

TEST(MountsTest, BadMountPointsAreRefused) {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::filesystem::path& mountpoint) {
    const Status checked = check_mountpoint(mountpoint, folder.path() / "vault");
    return !checked && checked.error().code == Errc::bad_mount_point;
  };
  std::filesystem::create_directories(folder.path() / "vault/run");
  std::filesystem::create_directory(folder.path() / "vault2");
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_TRUE(refused(folder.path() / "missing"));
  EXPECT_TRUE(refused(folder.path() / "file"));
  EXPECT_TRUE(refused(folder.path() / "vault"));
  EXPECT_TRUE(refused(folder.path() / "vault/run"));
  EXPECT_TRUE(refused(folder.path()));
  EXPECT_FALSE(refused(folder.path() / "vault2"));
}

class ControlTest : public ::testing::Test {
 protected:
  int connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int connection = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return connection;
  }
  std::string ask(const std::string& text) {
    const int connection = connect();
    EXPECT_EQ(::send(connection, text.data(), text.size(), 0), ssize_t(text.size()));
    ::shutdown(connection, SHUT_WR);
    std::string answer(4096, '\0');
    const ssize_t got = ::recv(connection, answer.data(), answer.size(), MSG_WAITALL);
    answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    ::close(connection);
    return answer;
  }
  LastWord last_word;
  TemporaryDirectory folder;
  std::string path = (folder.path() / "control.sock").string();
};

TEST_F(ControlTest, OneLineInOneLineOut) {
  std::ofstream(path) << "left behind";
  auto control = ControlSocket::create(
      path,
      [](const std::string& request) {
        return request == "hello" ? R"({"ok":true})"
                                  : control_failure({Errc::bad_request, request});
      },
      last_word);
  ASSERT_TRUE(control) << control.error().message;
  struct stat mode {};
  ASSERT_EQ(::stat(path.c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 07777, 0600u);
  EXPECT_EQ(ask("hello\n"), "{\"ok\":true}\n");
  EXPECT_EQ(ask("what\n"), "{\"code\":42,\"message\":\"what\",\"ok\":false}\n");
  EXPECT_EQ(ask("no end of line"), "");
  EXPECT_EQ(ask(std::string(5000, 'x') + "\n").substr(0, 5), "");
  EXPECT_NE(ask("unlock " + std::string(50'000, 'x') + "\n"), "");
  control->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ControlTest, WhoAsksForTheEndHearsHowItEnded) {
  std::string heard[3];
  const auto end = [&](const Status& outcome) {
    LastWord last;
    auto control = ControlSocket::create(
        path, [](const std::string&) { return ""; }, last);
    ASSERT_TRUE(control) << control.error().message;
    std::vector<std::thread> waiting;
    for (std::string& one : heard) waiting.emplace_back([&] { one = ask("end\n"); });
    while (last.waiting() < std::size(heard)) std::this_thread::yield();
    control->reset();  // the outcome arrives without it
    last.say(outcome);
    for (std::thread& one : waiting) one.join();
  };
  end({});
  for (const std::string& one : heard) EXPECT_EQ(one, "{\"ok\":true}\n{\"ok\":true}\n");
  end(fail(Errc::unreachable, "why"));
  for (const std::string& one : heard)
    EXPECT_EQ(one, "{\"ok\":true}\n{\"code\":14,\"message\":\"why\",\"ok\":false}\n");
}

TEST_F(ControlTest, WhoWaitsNoLongerIsForgotten) {
  const auto control = ControlSocket::create(
      path, [](const std::string&) { return ""; }, last_word);
  ASSERT_TRUE(control) << control.error().message;
  for (int i = 0; i < 100; ++i) {
    const int connection = connect();
    ASSERT_EQ(::send(connection, "end\n", 4, 0), 4);
    char first = 0;
    ASSERT_EQ(::recv(connection, &first, 1, 0), 1);
    ::close(connection);
  }
  EXPECT_LE(last_word.waiting(), 10u);
}

TEST_F(ControlTest, ManyWhoSayLittleAreCutOff) {
  auto control = ControlSocket::create(
      path, [](const std::string&) { return "{}"; }, last_word);
  ASSERT_TRUE(control) << control.error().message;
  const auto begun = std::chrono::steady_clock::now();
  const auto hear = [](int connection) {
    std::string heard;
    char c = 0;
    while (::recv(connection, &c, 1, 0) == 1) heard.push_back(c);
    ::close(connection);
    return heard;
  };
  std::vector<int> held;
  while (held.size() < kMostConnections) held.push_back(connect());
  EXPECT_NE(hear(connect()).find("try again later"), std::string::npos);
  // Sending a byte now and then does not help.
  std::thread trickle([&] {
    while (::send(held.back(), "x", 1, MSG_NOSIGNAL) == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  trickle.join();
  std::string answer;
  while (answer != "{}\n" && std::chrono::steady_clock::now() - begun < std::chrono::seconds(30)) {
    const int connection = connect();
    ::send(connection, "hello\n", 6, MSG_NOSIGNAL);
    answer = hear(connection);
  }
  EXPECT_EQ(answer, "{}\n");
  for (const int one : held) ::close(one);
}

// An answer that a client does not read must not keep the daemon from ending.
TEST_F(ControlTest, WhoReadsNothingIsCutOff) {
  auto control = ControlSocket::create(
      path, [](const std::string&) { return std::string(16 << 20, 'x'); }, last_word);
  ASSERT_TRUE(control) << control.error().message;
  const int rude = connect();
  ASSERT_EQ(::send(rude, "status\n", 7, 0), 7);
  char first = 0;
  ASSERT_EQ(::recv(rude, &first, 1, 0), 1);  // the answer is under way
  control->reset();
  ::close(rude);
}

// When the limit of processes is reached, threads that were started before continue to answer, and
// nobody is turned away.
TEST_F(ControlTest, AnswersWhereNoMoreThreadsCanBeHad) {
  std::counting_semaphore<> go_on(0);
  const auto control = ControlSocket::create(
      path,
      [&](const std::string& request) {
        if (request == "sync") go_on.acquire();
        return R"({"ok":true})";
      },
      last_word);
  ASSERT_TRUE(control) << control.error().message;
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  const rlimit none{1 << 20, before.rlim_max};  // no room for another stack
  ::setrlimit(RLIMIT_AS, &none);
  std::vector<int> connections(40);  // also more than the most threads
  for (int& connection : connections) {
    connection = connect();
    EXPECT_EQ(::send(connection, "sync\n", 5, 0), 5);
  }
  go_on.release(std::ssize(connections));
  for (const int connection : connections) {
    char answer[32] = {};
    EXPECT_EQ(::recv(connection, answer, 12, MSG_WAITALL), 12);
    EXPECT_STREQ(answer, "{\"ok\":true}\n");
    ::close(connection);
  }
  ::setrlimit(RLIMIT_AS, &before);
}

TEST_F(ControlTest, NoAnswerEndsTheDaemon) {
  const auto control = ControlSocket::create(
      path,
      [](const std::string& request) {
        if (request == "throw") throw std::runtime_error("why");
        return control_answer(nlohmann::json{{"folder", "m\xff"}});
      },
      last_word);
  ASSERT_TRUE(control) << control.error().message;
  EXPECT_EQ(ask("status\n"), "{\"folder\":\"m\xef\xbf\xbd\"}\n");
  EXPECT_EQ(ask("throw\n"), "{\"code\":1,\"message\":\"throw: why\",\"ok\":false}\n");
}

}  // namespace
}  // namespace s3oram
