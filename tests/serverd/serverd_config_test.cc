// Tests a server's options, its store's files, and the commands that write them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "oramcore/base/durable_file.h"
#include "serverd/commands.h"
#include "serverd/config.h"
#include "serverd/store_files.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

std::string new_key() { return to_text(generate_key_pair().public_key); }

class Store : public ::testing::Test {
 protected:
  Store() { store_ = folder_ / "store"; }

  /// Makes the store with a key. Returns the public key.
  std::string make_key() {
    std::ostringstream out;
    const auto status = keygen(store_, out);
    EXPECT_TRUE(status) << status.error().message;
    return out.str().substr(0, out.str().size() - 1);
  }
  Options options() const {
    Options options;
    options.store = store_;
    options.index = 1;
    options.listen = "127.0.0.1:5760";
    return options;
  }
  static void expect_error(const Status& status, Errc code, const std::string& part) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  }
  static Status drop_value(const Result<ZmqConfig>& result) {
    if (!result) return fail(result.error());
    return {};
  }
  std::string text(const std::string& file) const {
    const auto content = *read_small_file(store_ / file, 1 << 20);
    return {content.begin(), content.end()};
  }
  Status write(const std::string& file, const std::string& text) const {
    return write_durably(store_ / file, as_bytes(text));
  }

  TemporaryDirectory folder_;
  fs::path store_;
};

TEST_F(Store, KeygenMakesAPrivateStoreAndPrintsThePublicKeyAlone) {
  const std::string printed = make_key();
  EXPECT_EQ(fs::status(store_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(store_ / "server.key").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  const auto keys = read_server_key(store_);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(to_text(keys->public_key), printed);
  EXPECT_NE(to_text(keys->secret_key), printed);
}

TEST_F(Store, KeygenNeverOverwrites) {
  make_key();
  const std::string before = text("server.key");
  std::ostringstream out;
  expect_error(keygen(store_, out), Errc::exists, "server.key");
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(text("server.key"), before);
  // It leaves nothing else behind either.
  EXPECT_EQ(std::distance(fs::directory_iterator(store_), fs::directory_iterator()), 1);
}

TEST_F(Store, KeygenRotatesOnlyAKeyThatIsThere) {
  std::ostringstream out;
  expect_error(keygen(store_, out, true), Errc::usage, "server.key");
  const std::string former = make_key();
  ASSERT_TRUE(keygen(store_, out, true));
  const auto keys = read_server_key(store_);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(out.str(), to_text(keys->public_key) + "\n");
  EXPECT_NE(out.str(), former + "\n");
  EXPECT_EQ(fs::status(store_ / "server.key").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Store, RevokeTakesOneKeyAndKeepsAllElse) {
  make_key();
  std::ostringstream out;
  const std::string first = new_key(), second = new_key();
  expect_error(revoke(store_, first, out), Errc::usage, first);
  ASSERT_TRUE(write("clients", "# laptops\n" + first + "\n\n" + second + "\n"));
  ASSERT_TRUE(revoke(store_, first, out));
  EXPECT_EQ(text("clients"), "# laptops\n\n" + second + "\n");
  expect_error(revoke(store_, first, out), Errc::usage, first);
  expect_error(revoke(store_, "not-a-key", out), Errc::usage, "not-a-key");
}

TEST_F(Store, PeersCanBeUpdatedOneByOne) {
  const std::string own = make_key();
  std::ostringstream out;
  const std::string one = "1=a:1," + new_key(), key = new_key(), two = "2=b:1," + key;
  const std::string three = "3=d:1," + own;
  ASSERT_TRUE(peers(store_, {one, two, three}, out));
  const std::string moved = "1=c:1," + new_key();
  ASSERT_TRUE(peers(store_, {moved}, out, true));
  EXPECT_EQ(text("peers"), moved + "\n" + two + "\n" + three + "\n");
  expect_error(peers(store_, {"1=c:1," + key}, out, true), Errc::usage, "server 2");
  EXPECT_EQ(text("peers"), moved + "\n" + two + "\n" + three + "\n");
}

TEST_F(Store, PeersThatAreNoVolumeAreRefused) {
  const std::string own = make_key();
  std::ostringstream out;
  const auto server = [&](int number) {
    return fmt::format("{}=a:{},{}", number, number, number == 1 ? own : new_key());
  };
  expect_error(peers(store_, {server(1), server(4)}, out), Errc::usage, "lacks servers 2, 3:");
  expect_error(peers(store_, {server(1), server(3)}, out), Errc::usage, "lacks server 2:");
  expect_error(peers(store_, {server(2), server(3), server(4)}, out), Errc::usage, "server 1:");
  expect_error(peers(store_, {server(3)}, out, true), Errc::usage, "lacks servers 1, 2:");
  EXPECT_FALSE(fs::exists(store_ / "peers"));
  ASSERT_TRUE(peers(store_, {server(3), server(2), server(1)}, out));
  const std::string before = text("peers");
  expect_error(peers(store_, {server(5)}, out, true), Errc::usage, "lacks server 4:");
  EXPECT_EQ(text("peers"), before);
  EXPECT_TRUE(peers(store_, {server(5), server(4)}, out, true));
}

TEST_F(Store, AKeyThatOthersMayReadIsRefused) {
  make_key();
  for (const mode_t mode : {0640, 0604, 0660, 0610}) {
    ASSERT_EQ(::chmod((store_ / "server.key").c_str(), mode), 0);
    const auto keys = read_server_key(store_);
    ASSERT_FALSE(keys);
    EXPECT_NE(keys.error().message.find("server.key"), std::string::npos);
  }
}

TEST_F(Store, ADamagedKeyIsNotShown) {
  make_key();
  std::string damaged = text("server.key");
  damaged[3] = '!';
  ASSERT_TRUE(write("server.key", damaged));
  const auto keys = read_server_key(store_);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().message.find(damaged.substr(0, 20)), std::string::npos);
}

TEST_F(Store, AuthorizeAddsOnceAndKeepsWhatIsThere) {
  make_key();
  std::ostringstream out;
  const std::string first = new_key();
  const std::string second = new_key();
  ASSERT_TRUE(write("clients", "# laptops\n\n" + first));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(authorize(store_, second, out));
    ASSERT_TRUE(authorize(store_, first, out));
  }
  EXPECT_EQ(text("clients"), "# laptops\n\n" + first + "\n" + second + "\n");
  EXPECT_EQ(read_clients(store_)->size(), 2u);
  expect_error(authorize(store_, "not-a-key", out), Errc::usage, "not-a-key");
  expect_error(authorize(folder_ / "typo", first, out), Errc::usage, "typo");
  EXPECT_FALSE(fs::exists(folder_ / "typo"));
}

TEST_F(Store, ABadLineNamesTheFile) {
  make_key();
  ASSERT_TRUE(write("clients", "rubbish\n"));
  expect_error(drop_value(network_config(options())), Errc::usage, "clients: line 1: ");
  ASSERT_TRUE(write("clients", ""));
  ASSERT_TRUE(write("peers", "# three\n\n1=\n"));
  expect_error(drop_value(network_config(options())), Errc::usage, "peers: line 3: ");
}

TEST_F(Store, PeersWithoutTheServersOwnKeyAreRefused) {
  std::ostringstream out;
  const std::vector<std::string> others{"1=a:1," + new_key(), "2=b:1," + new_key(),
                                        "3=c:1," + new_key()};
  const std::string own = make_key();
  expect_error(peers(store_, others, out), Errc::usage, own);
  EXPECT_FALSE(fs::exists(store_ / "peers"));
  EXPECT_TRUE(peers(store_, {others[0], "2=b:1," + own, others[2]}, out));
}

TEST_F(Store, PeersAreWrittenAndPrinted) {
  const std::string own = make_key();
  const std::vector<std::string> servers{"1=a.example:5760," + new_key(), "2=[::1]:5761," + own,
                                         "3=c.example:5760," + new_key()};
  std::ostringstream out;
  ASSERT_TRUE(peers(store_, servers, out));
  EXPECT_EQ(out.str(), "");
  ASSERT_TRUE(peers(store_, {}, out));
  EXPECT_EQ(out.str(), servers[0] + "\n" + servers[1] + "\n" + servers[2] + "\n");
}

TEST_F(Store, BadPeersAreRefusedAndLeaveTheOldOnes) {
  const std::string key = make_key();
  std::ostringstream out;
  const std::string good = "1=a:1," + key;
  ASSERT_TRUE(peers(store_, {good, "2=b:1," + new_key(), "3=c:1," + new_key()}, out));
  const std::string before = text("peers");
  for (const std::string& bad :
       {std::string("a:1"), std::string("=a:1"), "0=a:1," + key, "128=a:1," + key, "x=a:1," + key,
        "2=a," + key, std::string("2=a:1"), std::string("2=a:1,"), "2=a:1," + key.substr(1)})
    expect_error(peers(store_, {bad}, out), Errc::usage, "");
  expect_error(peers(store_, {good, "1=b:1," + new_key()}, out), Errc::usage, "1=b:1");
  expect_error(peers(store_, {good, "2=b:1," + key}, out), Errc::usage, "2=b:1");
  EXPECT_EQ(text("peers"), before);
}

TEST_F(Store, AClientMayNotNameUnixSockets) {
  const std::string key = new_key();
  EXPECT_TRUE(parse_peer("2=ipc://2.sock"));
  EXPECT_TRUE(parse_told_peer("2=b.example:5760," + key));
  EXPECT_TRUE(parse_told_peer("2=[2001:db8::1]:5760," + key));
  for (const std::string& bad :
       {std::string("2=b.example:5760"), "2=ipc:///run/docker.sock," + key, "2=[\n]:1," + key})
    EXPECT_FALSE(parse_told_peer(bad)) << bad;
}

TEST_F(Store, OnlyOneServerMayLockIt) {
  make_key();
  {
    const auto lock = lock_store(store_);
    ASSERT_TRUE(lock) << lock.error().message;
    const auto second = lock_store(store_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::vault_in_use);
    EXPECT_NE(second.error().message.find(store_.string()), std::string::npos);
  }
  EXPECT_TRUE(lock_store(store_));
  EXPECT_EQ(lock_store(folder_ / "typo").error().code, Errc::usage);
}

TEST_F(Store, AServerFindsItselfAndItsPeersInTheList) {
  const std::string own = make_key();
  const std::string first = new_key();
  const std::string third = new_key();
  const std::string client = new_key();
  std::ostringstream out;
  ASSERT_TRUE(peers(
      store_, {"1=a.example:1," + first, "2=b.example:2," + own, "3=c.example:3," + third}, out));
  ASSERT_TRUE(authorize(store_, client, out));
  Options given = options();
  given.index.reset();
  given.listen = "*:2";
  given.peers = {"3=elsewhere:33," + third};  // comes before the list
  const auto config = network_config(given);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->self, 2);
  EXPECT_EQ(config->listen, "tcp://*:2");
  ASSERT_EQ(config->peers.size(), 2u);
  EXPECT_EQ(to_text(config->peers[0]), "1=a.example:1," + first);
  EXPECT_EQ(to_text(config->peers[1]), "3=elsewhere:33," + third);
  ASSERT_EQ(config->client_keys.size(), 1u);
  EXPECT_EQ(to_text(config->client_keys[0]), client);
  EXPECT_EQ(to_text(config->keys.public_key), own);

  given.index = 2;
  EXPECT_TRUE(network_config(given));
  given.index = 1;  // belongs to another server
  expect_error(drop_value(network_config(given)), Errc::usage, "--index 1");
}

TEST_F(Store, ALocalServerNeedsNoKey) {
  fs::create_directory(store_);
  Options given = options();
  given.listen = "ipc://1.sock";
  given.peers = {"2=ipc://2.sock", "3=ipc://3.sock"};
  const auto config = network_config(given);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->self, 1);
  EXPECT_EQ(config->peers.size(), 2u);
}

TEST_F(Store, WrongOptionsAreNamed) {
  make_key();
  Options given = options();
  given.listen = "";
  expect_error(drop_value(network_config(given)), Errc::usage, "--listen");
  given.listen = "nonsense";
  expect_error(drop_value(network_config(given)), Errc::usage, "--listen");
  given = options();
  given.index.reset();
  expect_error(drop_value(network_config(given)), Errc::usage, "--index");
  given.index = 0;
  expect_error(drop_value(network_config(given)), Errc::usage, "--index 0");
  given.index = 128;
  expect_error(drop_value(network_config(given)), Errc::usage, "--index 128");
  given = options();
  given.peers = {"2:b"};
  expect_error(drop_value(network_config(given)), Errc::usage, "--peer");
  given.peers = {"2=b:1," + new_key(), "2=c:1," + new_key()};
  expect_error(drop_value(network_config(given)), Errc::usage, "--peer");
  given = options();
  fs::remove(store_ / "server.key");
  expect_error(drop_value(network_config(given)), Errc::usage, "keygen");
}

TEST_F(Store, AllowsTheNetworksThatAreGiven) {
  make_key();
  const fs::path file = folder_ / "serverd.toml";
  const auto parsed = [&](const std::string& allow) {
    std::ofstream(file) << "listen = \"127.0.0.1:5760\"\nallow = " << allow << "\n";
    Options given = options();
    CLI::App app;
    add_options(app, given);
    app.parse("--config " + file.string());
    return given;
  };
  const auto config = network_config(parsed("[\"192.0.2.0/24\", \"::1\"]"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(is_allowed(config->allow, asio::ip::make_address("192.0.2.9")));
  EXPECT_TRUE(is_allowed(config->allow, asio::ip::make_address("::1")));
  EXPECT_FALSE(is_allowed(config->allow, asio::ip::make_address("127.0.0.1")));
  try {
    parsed("[\"192.0.2.0/24\", \"a.example\"]");
    ADD_FAILURE() << "a name is taken";
  } catch (const CLI::ConfigError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("line 2: allow = \"a.example\": a.example: give an "
                        "address or a network in numbers"),
              std::string::npos)
        << error.what();
  }
  Options local = parsed("\"192.0.2.0/24\"");
  local.listen = "ipc://1.sock";
  expect_error(drop_value(network_config(local)), Errc::usage, "--allow");
}

TEST_F(Store, OptionsComeFromAFileToo) {
  const fs::path file = folder_ / "serverd.toml";
  std::ofstream(file) << "# server two\nstore = \"/some where/store\"\nindex = 2\n"
                         "listen = \"[::1]:5760\"\n"
                         "peer = [\"1=a:1\",\n \"3=c:3\"]  # two\nthreads = 3\n"
                         "cache = \"64M\"\nlog-level = \"debug\"\n";
  Options given;
  CLI::App app;
  add_options(app, given);
  app.parse("--threads 5 --config " + file.string());
  EXPECT_EQ(given.store, "/some where/store");
  EXPECT_EQ(given.index, 2u);
  EXPECT_EQ(given.listen, "[::1]:5760");
  EXPECT_EQ(given.peers, (std::vector<std::string>{"1=a:1", "3=c:3"}));
  EXPECT_EQ(given.threads, 5u);  // the command line comes first
  EXPECT_EQ(given.cache, 64u << 20);
  EXPECT_EQ(given.log_level, "debug");

  EXPECT_THROW(app.parse("--log-level loud"), CLI::ParseError);
  for (const char* size : {"much", "-1", "-1M", "0", "1023K", "1025G", "20E", "99999999999E", "1X"})
    EXPECT_THROW(app.parse(std::string("--cache ") + size), CLI::ParseError) << size;
  for (const char* threads : {"0", "-1", "257", "4294967297", "two"})
    EXPECT_THROW(app.parse(std::string("--threads ") + threads), CLI::ParseError) << threads;
  app.parse("--cache 1024G --threads 256");
  EXPECT_EQ(given.cache, std::uint64_t{1} << 40);
  EXPECT_EQ(given.threads, 256u);
}

TEST_F(Store, AFileOfOptionsThatIsNoneIsNamed) {
  const auto refusal = [](const fs::path& file) {
    Options given;
    CLI::App app;
    add_options(app, given);
    try {
      app.parse("--config " + file.string());
    } catch (const CLI::ParseError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(folder_ / "missing").find("missing: No such file or directory"),
            std::string::npos);
  EXPECT_NE(refusal(store_.parent_path()).find(" is a directory"), std::string::npos);
}

TEST_F(Store, AWrongLineOfTheFileIsNamedAndWhatWasMeant) {
  const fs::path file = folder_ / "serverd.conf";
  const struct {
    const char *line, *said;
  } cases[] = {
      {"lisen = \"*:1\"", "no such setting \"lisen\": did you mean \"listen\"?"},
      {"strore = \"x\"", "no such setting \"strore\": did you mean \"store\"?"},
      {"colour = 3", "no such setting \"colour\": s3oramfs-serverd --help lists the settings"},
      {"config = \"other\"", "no such setting \"config\""},
      {"keygen = true", "no such setting \"keygen\""},
      {"listen \"*:1\"", "write listen = VALUE"},
      {"listen", "write listen = VALUE"},
      {"listen =", "write listen = VALUE"},
      {"listen = \"*:1", "a \" is missing"},
      {"listen = \"*:1\" x", "after the text \"*:1\" comes x"},
      {"store = \"/a#b\"", "no # in the text \"/a#b\""},
      {"peer = [\"2=a:1\",", "a ] is missing"},
      {"\x7f"
       "ELF\x01",
       "\"?ELF?\""},
      {"listen = \"*:99999\"", "HOST:PORT"},
      {"peer = \"2:a\"", "N=HOST:PORT,KEY"},
      {"index = \"two\"", "a number is needed"},
      {"cache = \"much\"", "much is not a size from 1M to 1T"},
      {"cache = \"-1\"", "from 1M to 1T"},
      {"threads = 0", "1 to 256"},
      {"log-level = \"loud\"", "loud not in"},
      {"metrics-public = perhaps", "true or false is needed"},
      {"store = \"here\"", "\"store\" is set in line 2 already"},
      {"[server]", "there are no sections"},
  };
  for (const auto& [line, said] : cases) {
    std::ofstream(file) << "# a server\nstore = \"there\"\n\n" << line << "\nthreads = 1\n";
    Options given;
    CLI::App app;
    add_options(app, given);
    try {
      app.parse("--config " + file.string());
      ADD_FAILURE() << line;
    } catch (const CLI::ParseError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(file.string() + ": line 4: ")) << message;
      EXPECT_NE(message.find(said), std::string::npos) << message;
    }
  }
  std::ofstream(file)
      << "metrics-public # for all\npeer = \"2=a:1\"\nindex = 1\npeer = \"3=b:1\"\n";
  Options given;
  CLI::App app;
  add_options(app, given);
  app.parse("--config " + file.string());
  EXPECT_TRUE(given.metrics_public);
  EXPECT_EQ(given.peers, (std::vector<std::string>{"2=a:1", "3=b:1"}));
}

TEST_F(Store, ListsThatOthersMayWriteToAreRefused) {
  make_key();
  for (const char* name : {"clients", "peers"}) {
    ASSERT_TRUE(write(name, "# nobody yet\n"));
    EXPECT_TRUE(network_config(options()));
    for (const mode_t mode : {0620, 0602}) {
      ASSERT_EQ(::chmod((store_ / name).c_str(), mode), 0);
      expect_error(drop_value(network_config(options())), Errc::failed,
                   (store_ / name).string() + ": others may write to it");
    }
    ASSERT_EQ(::chmod((store_ / name).c_str(), 0644), 0);
    EXPECT_TRUE(network_config(options()));
  }
}

TEST_F(Store, TwoServersWithThisOnesKeyAreRefused) {
  const std::string own = make_key();
  ASSERT_TRUE(write("peers", "1=a:1," + own + "\n2=b:1," + own + "\n"));
  expect_error(drop_value(network_config(options())), Errc::usage, "servers 1 and 2");
}

}  // namespace
}  // namespace s3oram
