// Tests the program s3oramfs-serverd, run as users and mounts run it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "oramcore/base/descriptor.h"
#include "oramcore/volume/local_servers.h"
#include "oramcore/zmq/zmq_transport.h"
#include "tests/base/temporary_directory.h"
#include "tests/serverd/running_server.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;
using test::RunningServer;
using namespace std::chrono_literals;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class Program : public ::testing::Test {
 protected:
  static std::string read(const fs::path& file) {
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static Outcome run(const std::string& arguments) {
    const int status =
        std::system(("'" SERVERD "' " + arguments + " >out 2>err </dev/null").c_str());
    EXPECT_TRUE(WIFEXITED(status));
    return {WEXITSTATUS(status), read("out"), read("err")};
  }
  /// Returns the public key of a new store.
  static std::string keygen(const std::string& store) {
    const auto made = run("keygen --store " + store);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.out.size(), 44u);
    return made.out.substr(0, 43);
  }
  /// Returns whether a client with these keys reaches this state with the server.
  static bool reaches(const KeyPair& keys, const PeerAddress& server, PeerState state) {
    asio::io_context io;
    ZmqConfig config;
    config.keys = keys;
    config.peers = {server};
    const auto client = make_zmq_transport(io.get_executor(), config);
    EXPECT_TRUE(client);
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while ((*client)->state(server.party) != state) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      io.run_one_for(100ms);
    }
    return true;
  }

  WorkingDirectory folder_;
};

TEST_F(Program, CommandsHaveTheirExitCodes) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_EQ(run("--version").code, 0);
  EXPECT_TRUE(run("--version").out.starts_with("s3oramfs-serverd "));
  EXPECT_EQ(run("--no-such-option").code, 2);
  EXPECT_EQ(run("no-such-command").code, 2);
  EXPECT_EQ(run("keygen").code, 2);
  EXPECT_EQ(run("").code, 2);
  const std::string key = keygen("store");
  const auto again = run("keygen --store store");
  EXPECT_EQ(again.code, static_cast<int>(Errc::exists));
  EXPECT_NE(again.err.find("store/server.key"), std::string::npos);
  EXPECT_EQ(run("authorize --store store " + key).code, 0);
  EXPECT_EQ(run("--store store authorize " + key).code, 0);
  EXPECT_EQ(read("store/clients"), key + "\n");
  EXPECT_EQ(run("authorize --store store hello").code, 2);
  for (const char* command : {"keygen", "authorize", "revoke", "peers"}) {
    const auto help = run(std::string(command) + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find(std::string(command) + " --store DIR"), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("\n  --store DIR"), std::string::npos) << help.out;
  }
  EXPECT_EQ(run("peers --store store 1=a:1," + to_text(generate_key_pair().public_key)).code, 2);
  const std::string others[] = {"2=b:1," + to_text(generate_key_pair().public_key),
                                "3=c:1," + to_text(generate_key_pair().public_key)};
  EXPECT_EQ(run("peers --store store 1=a:1," + key + " " + others[0] + " " + others[1]).code, 0);
  EXPECT_EQ(run("peers --store store").out,
            "1=a:1," + key + "\n" + others[0] + "\n" + others[1] + "\n");
}

TEST_F(Program, ADamagedListIsShownPrintably) {
  keygen("store");
  std::ofstream("store/peers") << std::string("1=\0\x1b[2J\n", 8);
  fs::permissions("store/peers", fs::perms::owner_read | fs::perms::owner_write);
  const auto listed = run("peers --store store");
  EXPECT_NE(listed.code, 0);
  EXPECT_NE(listed.err.find("peers: line 1: "), std::string::npos) << listed.err;
  EXPECT_EQ(listed.err.find('\x1b'), std::string::npos) << listed.err;
  EXPECT_EQ(listed.err.find('\0'), std::string::npos) << listed.err;
}

// A core would hold the server's key.
TEST_F(Program, DumpsNoCore) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &limit), 0);
  if (limit.rlim_max == 0) GTEST_SKIP() << "core dumps are forbidden here already";
  const rlimit allowed{limit.rlim_max, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &allowed), 0);
  keygen("store");
  RunningServer server("--store store --index 1 --listen 127.0.0.1:*");
  rlimit found{1, 1};
  EXPECT_EQ(::prlimit(server.pid(), RLIMIT_CORE, nullptr, &found), 0);
  EXPECT_EQ(found.rlim_cur, 0u);
  EXPECT_EQ(found.rlim_max, 0u);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(::setrlimit(RLIMIT_CORE, &limit), 0);
}

// The kernel may still write for a server that was killed.
TEST_F(Program, WaitsForTheServerBefore) {
  keygen("store");
  std::ofstream("serverd.toml") << "store = \"store\"\nindex = 1\nlisten = \"127.0.0.1:*\"\n";
  std::optional<Descriptor> before(
      Descriptor(::open("store/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600)));
  ASSERT_EQ(::flock(before->get(), LOCK_EX | LOCK_NB), 0);
  std::thread leaves([&] {
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (read("log").find("waiting for the previous server to leave") == std::string::npos &&
           std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(1ms);
    before.reset();
  });
  RunningServer server("--config serverd.toml 2>log");
  leaves.join();
  EXPECT_NE(read("log").find("waiting for the previous server to leave"), std::string::npos);
  EXPECT_EQ(server.stop(), 0) << read("log");
}

TEST_F(Program, ServesOverTcpWhomItKnows) {
  const auto key = parse_public_key(keygen("store"));
  const KeyPair client = generate_key_pair();
  const KeyPair stranger = generate_key_pair();
  ASSERT_EQ(run("authorize --store store " + to_text(client.public_key)).code, 0);
  std::ofstream("serverd.toml") << "store = \"store\"\nindex = 2\nlisten = \"127.0.0.1:*\"\n";
  RunningServer server("--config serverd.toml 2>log");
  const std::string log = read("log");
  const auto at = log.find("tcp://127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << log;
  PeerAddress address{2, log.substr(at, log.find('\n', at) - at), *key};
  EXPECT_TRUE(reaches(client, address, PeerState::connected));
  EXPECT_TRUE(reaches(stranger, address, PeerState::refused));

  const auto second = run("--config serverd.toml");
  EXPECT_EQ(second.code, static_cast<int>(Errc::vault_in_use));
  EXPECT_NE(second.err.find("another server runs on this store"), std::string::npos);
  keygen("other");
  const auto same_port = run("--store other --index 1 --listen " +
                             address.endpoint.substr(std::string("tcp://").size()));
  EXPECT_EQ(same_port.code, static_cast<int>(Errc::exists));
  EXPECT_NE(same_port.err.find(address.endpoint), std::string::npos) << same_port.err;

  ASSERT_EQ(run("authorize --store store " + to_text(stranger.public_key)).code, 0);
  server.signal(SIGHUP);
  EXPECT_TRUE(reaches(stranger, address, PeerState::connected));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Program, RefusesAKeyThatOthersMayRead) {
  keygen("store");
  fs::permissions("store/server.key", fs::perms(0640));
  const auto outcome = run("--store store --index 1 --listen 127.0.0.1:*");
  EXPECT_EQ(outcome.code, static_cast<int>(Errc::failed));
  EXPECT_NE(outcome.err.find("store/server.key"), std::string::npos);
}

TEST_F(Program, EndsWhenNobodyWaitsForItsReadiness) {
  keygen("store");
  const auto outcome =
      run("--store store --index 1 --listen 127.0.0.1:* --exit-with-parent --ready-fd 99");
  EXPECT_EQ(outcome.code, static_cast<int>(Errc::failed));
  EXPECT_NE(outcome.err.find("--ready-fd 99"), std::string::npos);
}

TEST_F(Program, RunsTheServersOfALocalVault) {
  fs::create_directory("vault");
  for (int round = 0; round < 2; ++round) {
    auto servers = LocalServers::start(SERVERD, "vault", 3);
    ASSERT_TRUE(servers) << servers.error().message;
    fs::current_path("vault/run");
    for (Party server = 1; server <= 3; ++server)
      EXPECT_TRUE(reaches({}, {server, "ipc://" + std::to_string(server) + ".sock", std::nullopt},
                          PeerState::connected));
    fs::current_path(folder_.path());
    const auto stopped = servers->stop();
    EXPECT_TRUE(stopped) << stopped.error().message;
  }
  const std::string log = read("vault/run/server-2.log");
  EXPECT_NE(log.find("server 2 listens on ipc://2.sock"), std::string::npos) << log;
}

TEST_F(Program, TheLocalServersOfAKilledMountEnd) {
  fs::create_directory("vault");
  const pid_t mount = ::fork();
  if (mount == 0) {
    auto servers = LocalServers::start(SERVERD, "vault", 3);
    ::raise(SIGKILL);
    ::_exit(servers ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(mount, &status, 0), mount);
  ASSERT_TRUE(WIFSIGNALED(status));
  // They give up their stores, so that the servers of the next mount can have them.
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  for (;;) {
    auto servers = LocalServers::start(SERVERD, "vault", 3);
    if (servers) break;
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << servers.error().message;
  }
}

}  // namespace
}  // namespace s3oram
