// Tests the directory of a vault, its credentials, and its files vault.json and vault.key.
#include "oramcore/vault/vault.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <thread>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/vault/credential.h"
#include "oramcore/vault/vault_config.h"
#include "tests/base/good.h"
#include "tests/vault/vault_fixture.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class VaultTest : public VaultFixture {
 protected:
  Result<Vault> create(const fs::path& at, const VaultConfig& config, const Credential& how) {
    return Vault::create(at, config, how, random_, kQuick);
  }
  fs::path path(const std::string& name) const { return root_ / name; }
  static mode_t mode(const fs::path& file) {
    struct stat stat {};
    return ::stat(file.c_str(), &stat) == 0 ? stat.st_mode & 07777 : 0;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const fs::path& file, const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  }

  SystemRandom random_;
};

TEST_F(VaultTest, IsFoundAgainAsItWasMade) {
  const VaultConfig config = remote_config();
  ASSERT_TRUE(create(path("v"), config, passphrase("correct horse")));
  auto found = Vault::find(path("v"));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->config().volume, config.volume);
  EXPECT_EQ(found->config().params, config.params);
  EXPECT_FALSE(found->config().local);
  EXPECT_FALSE(found->config().ready);
  ASSERT_EQ(found->config().servers.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found->config().servers[i].host_port, config.servers[i].host_port);
    EXPECT_EQ(found->config().servers[i].key, config.servers[i].key);
  }
  EXPECT_TRUE(found->wants_passphrase().value());
}

// There must be room for the names of the databases that a restore or a migration makes.
TEST_F(VaultTest, ItsPathLeavesRoomForLongerOnes) {
  fs::path deep = path("deep");
  while (deep.native().size() < 400) deep /= "deep";
  fs::create_directories(deep);
  const auto padded = [&](std::size_t size) {
    return deep / std::string(size - deep.native().size() - 1, 'v');
  };
  const auto refused = create(padded(471), local_config(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::usage);
  EXPECT_TRUE(create(padded(470), local_config(), {}));
}

TEST_F(VaultTest, FilesArePrivate) {
  const mode_t former = ::umask(0);
  auto vault = create(path("v"), local_config(), {});
  ::umask(former);
  ASSERT_TRUE(vault) << vault.error().message;
  EXPECT_EQ(mode(path("v")), 0700u);
  for (const auto& entry : fs::recursive_directory_iterator(path("v")))
    EXPECT_EQ(mode(entry), entry.is_directory() ? 0700u : 0600u) << entry.path();
  EXPECT_TRUE(fs::is_directory(vault->store(1)));
  EXPECT_TRUE(fs::is_directory(vault->store(3)));
  EXPECT_TRUE(fs::is_directory(vault->run_directory()));
}

TEST_F(VaultTest, ReadyIsRemembered) {
  auto vault = create(path("v"), local_config(), {});
  ASSERT_TRUE(vault);
  ASSERT_TRUE(vault->mark_ready());
  EXPECT_TRUE(vault->config().ready);
  EXPECT_TRUE(Vault::find(path("v"))->config().ready);
}

TEST_F(VaultTest, NumbersCanBeChosenUntilTheVolumeIsMade) {
  auto vault = create(path("v"), local_config(), {});
  ASSERT_TRUE(vault);
  VolumeParams params = vault->config().params;
  ++params.bucket_size;
  ASSERT_TRUE(vault->set_params(params));
  EXPECT_EQ(Vault::find(path("v"))->config().params, params);
  VolumeParams other = params;
  other.scheme.servers += 2;
  EXPECT_EQ(vault->set_params(other).error().code, Errc::usage);
  VolumeParams impossible = params;
  impossible.block_size = 0;
  EXPECT_FALSE(vault->set_params(impossible));
  ASSERT_TRUE(vault->mark_ready());
  ++params.bucket_size;
  EXPECT_EQ(vault->set_params(params).error().code, Errc::usage);
  EXPECT_NE(Vault::find(path("v"))->config().params, params);
}

TEST_F(VaultTest, IsOfOneProcessAtATime) {
  ASSERT_TRUE(create(path("v"), local_config(), {}));
  std::optional<Vault> first = Vault::find(path("v")).value();
  auto second = Vault::find(path("v"));
  ASSERT_TRUE(first->lock());
  EXPECT_TRUE(Vault::is_in_use(path("v")).value());
  const Status refused = second->lock();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::vault_in_use);
  EXPECT_NE(refused.error().message.find(fmt::format("in use by process {} (", ::getpid())),
            std::string::npos)
      << refused.error().message;
  int waited = 0;
  const Status locked = second->lock_when_left([&] {
    if (++waited == 2) first.reset();
  });
  EXPECT_TRUE(locked) << locked.error().message;
  EXPECT_EQ(waited, 2);
  EXPECT_TRUE(Vault::is_in_use(path("v")).value());
  EXPECT_TRUE(second->lock_when_left([] { ADD_FAILURE() << "it is ours already"; }));
}

TEST_F(VaultTest, RootReadsNothingOfAVaultThatIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_TRUE(create(path("v"), local_config(), Credential{}));
  ASSERT_EQ(::chown(path("v").c_str(), 1000, 1000), 0);
  EXPECT_FALSE(Vault::find(path("v")));
  ASSERT_EQ(::chown(path("v").c_str(), 0, 0), 0);
  EXPECT_TRUE(Vault::find(path("v")));
  ASSERT_EQ(::chmod(path("v").c_str(), 01777), 0);
  EXPECT_EQ(Vault::find(path("v")).error().code, Errc::unsupported) << "anyone may add files";
}

// A pipe in place of a file of the vault, on which a reader might wait forever.
TEST_F(VaultTest, APipeInAFilesPlaceIsNotWaitedFor) {
  ASSERT_TRUE(create(path("v"), local_config(), Credential{}));
  for (const char* file : {"vault.key", "vault.json"}) {
    fs::remove(path("v") / file);
    ASSERT_EQ(::mkfifo((path("v") / file).c_str(), 0600), 0);
    const int writer = ::open((path("v") / file).c_str(), O_RDWR | O_CLOEXEC);
    const auto found = Vault::find(path("v"));
    EXPECT_FALSE(found && found->check_key()) << file;
    ::close(writer);
  }
}

// A key file that only root may read has to be read before root becomes the vault's owner.
TEST_F(VaultTest, AKeyFileIsReadOnce) {
  write(path("keyfile"), "anything at all");
  const Credential key{Credential::Kind::key_file, {}, path("keyfile")};
  ASSERT_TRUE(create(path("v"), local_config(), key));
  const auto vault = Vault::find(path("v"));
  const auto known = existing_credential(PassphraseSource(), path("keyfile"), *vault);
  ASSERT_TRUE(known);
  fs::remove(path("keyfile"));
  EXPECT_TRUE(vault->unlock(*known));
  EXPECT_FALSE(existing_credential(PassphraseSource(), path("keyfile"), *vault));
}

TEST_F(VaultTest, EachCredentialOpensItsVault) {
  write(path("keyfile"), "anything at all");
  for (const Credential& how : {passphrase("p"), Credential{},
                                Credential{Credential::Kind::key_file, {}, path("keyfile")}}) {
    auto vault = create(path("v"), local_config(), how);
    ASSERT_TRUE(vault) << vault.error().message;
    auto keys = vault->unlock(how);
    ASSERT_TRUE(keys) << keys.error().message;
    EXPECT_NE(keys->sealing, Seed{});
    EXPECT_NE(keys->curve.public_key, PublicKey{});
    EXPECT_NE(keys->curve.secret_key, keys->sealing);
    auto again = Vault::find(path("v"))->unlock(how);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->sealing, keys->sealing);
    EXPECT_EQ(again->curve.public_key, keys->curve.public_key);
    EXPECT_EQ(again->curve.secret_key, keys->curve.secret_key);
    fs::remove_all(path("v"));
  }
}

TEST_F(VaultTest, AnyOtherCredentialIsRefused) {
  write(path("right"), "right");
  write(path("wrong"), "wrong");
  const Credential right{Credential::Kind::key_file, {}, path("right")};
  const Credential wrong{Credential::Kind::key_file, {}, path("wrong")};
  auto by_passphrase = create(path("a"), local_config(), passphrase("p"));
  auto by_keyfile = create(path("b"), local_config(), right);
  auto plain = create(path("c"), local_config(), {});
  ASSERT_TRUE(by_passphrase && by_keyfile && plain);
  const auto refused = [](const Vault& vault, const Credential& how) {
    auto keys = vault.unlock(how);
    return !keys && keys.error().code == Errc::wrong_passphrase &&
           keys.error().message.find(vault.directory().string()) != std::string::npos;
  };
  for (const char* text : {"", "P", "p ", "pp"})
    EXPECT_TRUE(refused(*by_passphrase, passphrase(text))) << text;
  EXPECT_TRUE(refused(*by_passphrase, {}));
  EXPECT_TRUE(refused(*by_passphrase, right));
  EXPECT_TRUE(refused(*by_keyfile, wrong));
  EXPECT_TRUE(refused(*by_keyfile, {}));
  EXPECT_TRUE(refused(*by_keyfile, passphrase("right")));
  EXPECT_TRUE(refused(*plain, passphrase("p")));
  EXPECT_TRUE(refused(*plain, right));
}

TEST_F(VaultTest, NoTwoVaultsShareAKey) {
  auto a = create(path("a"), local_config(), passphrase("p"));
  auto b = create(path("b"), local_config(), passphrase("p"));
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->unlock(passphrase("p"))->sealing, b->unlock(passphrase("p"))->sealing);
}

TEST_F(VaultTest, APassphraseKeepsTheKeyOutOfTheFile) {
  // Both vaults get the same master key from the same random bytes; it is plain in one, and wrapped
  // in the other.
  const Seed seed{};
  Prg first(seed, {});
  ASSERT_TRUE(Vault::create(path("plain"), local_config(), {}, first, kQuick));
  const std::string key = read(path("plain") / "vault.key").substr(52, 32);
  Prg second(seed, {});
  Bytes salt(16);
  second.fill(salt);  // drawn before the key
  const Seed master = second.seed();
  Prg third(seed, {});
  ASSERT_TRUE(Vault::create(path("wrapped"), local_config(), passphrase("p"), third, kQuick));
  const std::string wrapped = read(path("wrapped") / "vault.key");
  const Seed plain = Prg(seed, {}).seed();
  EXPECT_EQ(key, std::string(plain.begin(), plain.end()));
  EXPECT_EQ(wrapped.find(std::string(master.begin(), master.end())), std::string::npos);
}

TEST_F(VaultTest, AKeyThatOthersCanReadIsNotUsed) {
  auto vault = create(path("v"), local_config(), {});
  ASSERT_TRUE(vault);
  for (const auto others :
       {fs::perms::group_read, fs::perms::others_read, fs::perms::group_write}) {
    fs::permissions(path("v") / "vault.key", others, fs::perm_options::add);
    auto keys = vault->unlock({});
    ASSERT_FALSE(keys);
    EXPECT_NE(keys.error().message.find("chmod 600"), std::string::npos) << keys.error().message;
    fs::permissions(path("v") / "vault.key", others, fs::perm_options::remove);
    EXPECT_TRUE(vault->unlock({}));
  }
}

TEST_F(VaultTest, ADamagedKeyIsNotTakenForAWrongPassphrase) {
  for (const Credential& how : {passphrase("p"), Credential{}}) {
    auto vault = create(path("v"), local_config(), how);
    ASSERT_TRUE(vault);
    const fs::path file = path("v") / "vault.key";
    const std::string good = read(file);
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] ^= 1;
      write(file, bad);
      auto keys = vault->unlock(how);
      ASSERT_FALSE(keys) << at;
      EXPECT_EQ(keys.error().code, Errc::damaged_vault) << at;
    }
    for (const std::string& bad : {std::string(), good.substr(1), good + "x"}) {
      write(file, bad);
      EXPECT_EQ(vault->unlock(how).error().code, Errc::damaged_vault);
    }
    fs::remove(file);
    EXPECT_EQ(vault->unlock(how).error().code, Errc::damaged_vault);
    fs::remove_all(path("v"));
  }
}

TEST_F(VaultTest, NothingIsOverwritten) {
  ASSERT_TRUE(create(path("v"), local_config(), {}));
  const std::string before = read(path("v") / "vault.json");
  EXPECT_EQ(create(path("v"), local_config(), {}).error().code, Errc::exists);
  EXPECT_EQ(read(path("v") / "vault.json"), before);

  fs::create_directory(path("full"));
  write(path("full") / "mine", "mine");
  EXPECT_EQ(create(path("full"), local_config(), {}).error().code, Errc::exists);
  EXPECT_EQ(read(path("full") / "mine"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(path("full")), {}), 1);

  write(path("file"), "mine");
  EXPECT_EQ(create(path("file"), local_config(), {}).error().code, Errc::exists);
  EXPECT_EQ(read(path("file")), "mine");
}

TEST_F(VaultTest, AnEmptyDirectoryBecomesAVault) {
  fs::create_directory(path("v"));
  fs::permissions(path("v"), static_cast<fs::perms>(0755));
  ASSERT_TRUE(create(path("v") / "", local_config(), {}));  // with a slash at its end
  EXPECT_EQ(mode(path("v")), 0700u);
  EXPECT_TRUE(Vault::find(path("v")));
}

TEST_F(VaultTest, WhatAKilledCreateLeftIsNoHindrance) {
  std::mt19937_64 random(5);
  unsigned finished = 0, cleared = 0;
  for (unsigned round = 0; round < 300; ++round) {
    const fs::path vault = path(fmt::format("v{}", round));
    if (round % 2 == 0) fs::create_directory(vault);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(create(vault, local_config(), {}) ? 0 : 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));  // any value will do
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    if (Vault::find(vault)) {
      ++finished;
    } else {
      cleared += fs::exists(vault / "unfinished");
      ASSERT_GOOD(create(vault, local_config(), {}));
    }
    ASSERT_GOOD(Vault::find(vault)->unlock({}));
  }
  RecordProperty("finished", static_cast<int>(finished));
  RecordProperty("cleared", static_cast<int>(cleared));
}

TEST_F(VaultTest, OnlyWhatAnUnfinishedVaultLeftIsCleared) {
  const auto put = [&](const std::string& name) { std::ofstream(path("v") / name) << "x"; };
  fs::create_directories(path("v") / "servers" / "1");
  fs::create_directory(path("v") / "run");
  for (const char* name :
       {"lock", "lock.x9y8z7", "vault.key", "vault.key.a1b2c3", "vault.json.A1B2C3"})
    put(name);
  EXPECT_EQ(create(path("v"), local_config(), {}).error().code, Errc::exists) << "without the mark";
  put("unfinished");
  for (const char* name : {"vault.db", "lock.of mine", "vault.json", "a file of mine"}) {
    put(name);
    EXPECT_EQ(create(path("v"), local_config(), {}).error().code, Errc::exists) << name;
    EXPECT_TRUE(fs::exists(path("v") / "vault.key.a1b2c3"));
    fs::remove(path("v") / name);
  }
  {
    const Descriptor mark(::open((path("v") / "unfinished").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(mark.get(), LOCK_EX), 0);
    EXPECT_EQ(create(path("v"), local_config(), {}).error().code, Errc::vault_in_use);
  }
  ASSERT_GOOD(create(path("v"), local_config(), {}));
  EXPECT_FALSE(fs::exists(path("v") / "vault.key.a1b2c3"));
  EXPECT_FALSE(fs::exists(path("v") / "unfinished"));
}

TEST_F(VaultTest, AFailedCreateLeavesNothing) {
  const Credential missing{Credential::Kind::key_file, {}, path("no-such-file")};
  auto vault = create(path("v"), local_config(), missing);
  ASSERT_FALSE(vault);
  EXPECT_NE(vault.error().message.find("no-such-file"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("v")));

  fs::create_directory(path("v"));
  fs::permissions(path("v"), static_cast<fs::perms>(0755));
  EXPECT_FALSE(create(path("v"), local_config(), missing));
  EXPECT_TRUE(fs::is_empty(path("v")));
  EXPECT_EQ(mode(path("v")), 0755u);

  VaultConfig impossible = local_config();
  impossible.params.scheme.threshold = 2;
  EXPECT_EQ(create(path("w"), impossible, {}).error().code, Errc::usage);
  EXPECT_FALSE(fs::exists(path("w")));
  EXPECT_FALSE(create(path("no") / "parent", local_config(), {}));
}

TEST_F(VaultTest, OneProcessAtATime) {
  auto vault = create(path("v"), local_config(), {});
  ASSERT_TRUE(vault);
  EXPECT_FALSE(*Vault::is_in_use(path("v")));
  ASSERT_TRUE(vault->lock());
  ASSERT_TRUE(vault->lock());  // this process has locked it
  EXPECT_TRUE(*Vault::is_in_use(path("v")));
  {
    auto other = Vault::find(path("v"));
    auto locked = other->lock();
    ASSERT_FALSE(locked);
    EXPECT_EQ(locked.error().code, Errc::vault_in_use);
    EXPECT_NE(locked.error().message.find(path("v").string()), std::string::npos);
  }
  {
    const Vault moved = std::move(*vault);
    EXPECT_FALSE(Vault::find(path("v"))->lock()) << "the lock moves along";
  }
  EXPECT_TRUE(Vault::find(path("v"))->lock());
  EXPECT_FALSE(*Vault::is_in_use(path("missing")));
  EXPECT_FALSE(fs::exists(path("missing")));
}

TEST_F(VaultTest, OtherDirectoriesAreNoVaults) {
  EXPECT_EQ(Vault::find(path("missing")).error().code, Errc::not_a_vault);
  EXPECT_EQ(Vault::find(root_.path()).error().code, Errc::not_a_vault);
  write(path("file"), "");
  EXPECT_EQ(Vault::find(path("file")).error().code, Errc::not_a_vault);
}

// A mistake, a bad disk or another version may have changed vault.json.
class VaultJson : public VaultTest {
 protected:
  static Error error_of(const std::string& text) {
    auto file = parse_vault(text, "/x/vault.json");
    return file ? Error{Errc::ok, {}} : file.error();
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }
  std::string local_ = to_json({local_config(), {}});
  std::string remote_ =
      to_json({remote_config(), make_key_wrap(passphrase("p"), KdfLimits{}, random_)});
};

TEST_F(VaultJson, IsReadAsWritten) {
  EXPECT_EQ(error_of(local_).message, "");
  EXPECT_EQ(error_of(remote_).message, "");
  EXPECT_EQ(to_json(*parse_vault(remote_, "v")), remote_);
  EXPECT_EQ(to_json(*parse_vault(local_, "v")), local_);
}

TEST_F(VaultJson, NamesTheSchemeUnlessItIsTheFirstOne) {
  EXPECT_EQ(local_.find("scheme"), std::string::npos);
  VaultConfig mirror = local_config();
  mirror.params = {.scheme = {1, 2},
                   .block_size = 32768,
                   .bucket_size = 16,
                   .evict_every = 20,
                   .evictor = Evictor::selection,
                   .stash_slots = 96,
                   .privacy = Privacy::computational};
  mirror.servers.resize(2);
  const std::string text = to_json({mirror, {}});
  EXPECT_NE(text.find("\"scheme\": \"mirror\""), std::string::npos) << text;
  const auto file = parse_vault(text, "v");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->config.params, mirror.params);
  EXPECT_NE(error_of(replaced(text, "mirror", "magic")).message.find("magic"), std::string::npos);
  EXPECT_NE(error_of(replaced(text, "mirror", "s3oram")).message.find("selection"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(text, "selection", "shuffle")).message.find("mirror"),
            std::string::npos);
}

// Older programs can still read a file that needs nothing newer.
TEST_F(VaultJson, SecurityIsOfANewerFormat) {
  VaultFile file = *parse_vault(remote_, "v");
  EXPECT_EQ(file.config.params.security, Security::honest_but_curious);
  file.config.params.evictor = Evictor::shuffle;
  file.config.params.privacy = Privacy::computational;
  file.config.params.stash_slots = file.config.params.bucket_size;
  EXPECT_EQ(to_json(file).find("security"), std::string::npos);
  file.config.params.security = Security::malicious;
  const std::string text = to_json(file);
  EXPECT_NE(text.find("\"format\": 4"), std::string::npos) << text;
  const auto again = parse_vault(text, "v");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->config.params.security, Security::malicious);
  EXPECT_EQ(to_json(*again), text);
  EXPECT_EQ(error_of(replaced(text, "\"security\": \"malicious\"", "\"security\": \"none\"")).code,
            Errc::damaged_vault);
  EXPECT_EQ(error_of(replaced(text, "\"format\": 4", "\"format\": 3")).code, Errc::damaged_vault);
}

TEST_F(VaultJson, ANewerFormatIsNotGuessedAt) {
  const Error error = error_of(replaced(local_, "\"format\": 4", "\"format\": 6"));
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_TRUE(error.message.starts_with(
      "/x/vault.json: its format 6 is newer than this program, which knows format 5; use "))
      << error.message;
}

TEST_F(VaultJson, AFormatOfBeforeTheFirstReleaseIsRefused) {
  EXPECT_EQ(error_of(replaced(local_, "\"format\": 4", "\"format\": 1")).code, Errc::unsupported);
}

TEST_F(VaultJson, ImpossibleValuesAreNamed) {
  const struct {
    const char *from, *to, *named;
  } cases[] = {
      {"\"format\": 2", "\"format\": 0", "format"},
      {"\"format\": 2", "\"format\": \"2\"", "format"},
      {"\"format\": 2", "\"format\": -1", "format"},
      {"\"ready\": false", "\"ready\": 0", "ready"},
      {"\"volume\": \"ab", "\"volume\": \"", "volume"},
      {"\"volume\": \"ab", "\"volume\": \"zz", "volume"},
      {"\"privacy\": 1", "\"privacy\": 0", "privacy"},
      {"\"privacy\": 1", "\"privacy\": 2", "servers are too few"},
      {"\"privacy\": 1", "\"privacy\": 256", "privacy"},
      {"\"block_size\": 32768", "\"block_size\": 0", "block size"},
      {"\"block_size\": 32768", "\"block_size\": -1", "block_size"},
      {"\"block_size\": 32768", "\"block_size\": 4294967296", "block_size"},
      {"\"block_size\": 32768", "\"block_size\": 3.5", "block_size"},
      {"\"block_size\"", "\"blocksize\"", "block_size"},
      {"\"bucket_size\": 162", "\"bucket_size\": 63", "63 slots"},
      {"\"evict_every\": 64", "\"evict_every\": 0", "evictions"},
      {"\"evictor\": \"matrix\"", "\"evictor\": \"magic\"", "magic"},
      {"\"evictor\": \"matrix\"", "\"evictor\": \"shuffle\"", "information-theoretic"},
      {"\"stash_slots\": 0", "\"stash_slots\": 162", "stash"},
      {"\"sharing\": \"information-theoretic\"", "\"sharing\": \"none\"", "none"},
      {"\"first_height\": 1", "\"first_height\": 0", "height"},
      {"\"first_height\": 1", "\"first_height\": 31", "height"},
      {"\"ready\"", "\"surprise\": 1, \"ready\"", "surprise"},
      {"\"address\": \"s0.example:5760\"", "\"address\": \"\"", "address"},
      {"\"address\": \"s0.example:5760\"", "\"address\": 5760", "address"},
      {"\"address\": \"s0.example:5760\"", "\"address\": \"s0.example:57;0\"", "s0.example:57;0"},
      {"\"key\": \"AQEB", "\"key\": \"AQ", "key"},
      {"\"wrap\": \"passphrase\"", "\"wrap\": \"rot13\"", "rot13"},
      {"\"wrap\": \"passphrase\"", "\"wrap\": \"plain\"", "unknown"},
      {"\"passes\": 3", "\"passes\": 0", "passes"},
      {"\"memory\": 268435456", "\"memory\": 999999999999999", "memory"},
      {"\"salt\": \"", "\"salt\": \"00", "salt"},
  };
  for (const auto& test : cases) {
    const Error error = error_of(replaced(remote_, test.from, test.to));
    EXPECT_EQ(error.code, Errc::damaged_vault) << test.from << " -> " << test.to;
    EXPECT_NE(error.message.find(test.named), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("/x/vault.json"), std::string::npos) << error.message;
  }
}

TEST_F(VaultJson, OnlyTheFormatBeforeSlotsSaysHowTheKeyIsWrapped) {
  EXPECT_FALSE(parse_vault(local_, "v")->wrap);
  EXPECT_TRUE(parse_vault(remote_, "v")->wrap);
  EXPECT_EQ(error_of(replaced(remote_, "\"format\": 2", "\"format\": 3")).code,
            Errc::damaged_vault);
  EXPECT_EQ(error_of(replaced(local_, "\"format\": 4", "\"format\": 2")).code, Errc::damaged_vault);
}

TEST_F(VaultJson, SaysWhetherVaultDbIsSealed) {
  const std::string plain = replaced(local_, "\"format\": 4", "\"format\": 3");
  EXPECT_TRUE(parse_vault(local_, "v")->config.sealed);
  EXPECT_FALSE(parse_vault(plain, "v")->config.sealed);
  EXPECT_EQ(to_json(*parse_vault(plain, "v")), plain);
}

TEST_F(VaultJson, NoTruncationIsAccepted) {
  const std::size_t content = remote_.find_last_of('}');
  for (std::size_t size = 0; size <= content; ++size)
    ASSERT_EQ(error_of(remote_.substr(0, size)).code, Errc::damaged_vault) << size;
  for (const char* text :
       {"[]", "null", "1", "\"format\"", "{}", "{\"format\": 2}", "{\"format\": 3}"})
    EXPECT_EQ(error_of(text).code, Errc::damaged_vault) << text;
}

TEST_F(VaultJson, ADamagedRecoveryFileIsCalledThat) {
  KeyFile keys;
  keys.slots.push_back({1, {KeyWrap::Kind::plain, {}, {}}, Bytes(32, 7)});
  const std::string text = to_recovery({remote_config(), {}}, to_bytes(keys));
  ASSERT_TRUE(parse_recovery(text, "/x/recovery"));
  const std::string damages[] = {text.substr(0, 40), replaced(text, "\"ready\"", "\"reade\""),
                                 replaced(text, "s3oramfs recovery", "s3oramfs recovere"),
                                 replaced(text, "\"keys\":\"", "\"keys\":\"*"),
                                 replaced(text, "BwcH", "BwcI")};
  for (const std::string& damage : damages) {
    const auto recovery = parse_recovery(damage, "/x/recovery");
    ASSERT_FALSE(recovery) << damage;
    EXPECT_EQ(recovery.error().code, Errc::damaged_vault);
    EXPECT_TRUE(recovery.error().message.starts_with("/x/recovery: ")) << recovery.error().message;
    EXPECT_NE(recovery.error().message.find("use another copy of it"), std::string::npos)
        << recovery.error().message;
  }
}

TEST_F(VaultJson, EveryFlippedBitOfARecoveryFileIsNoticed) {
  KeyFile keys;
  keys.slots.push_back({1, {KeyWrap::Kind::plain, {}, {}}, Bytes(32, 7)});
  const std::string text = to_recovery({remote_config(), {}}, to_bytes(keys));
  for (std::size_t bit = 0; bit < 8 * (text.size() - 1); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto recovery = parse_recovery(damaged, "/x/recovery");
    ASSERT_FALSE(recovery && recovery->as_written) << damaged;
  }
}

TEST_F(VaultJson, ARecoveryFileWithoutChecksumIsReadAsBefore) {
  KeyFile keys;
  keys.slots.push_back({1, {KeyWrap::Kind::plain, {}, {}}, Bytes(32, 7)});
  std::string text = to_recovery({remote_config(), {}}, to_bytes(keys));
  text = replaced(text.substr(0, text.find(",\"checksum\"")) + "}", "recovery\":2", "recovery\":1");
  EXPECT_TRUE(parse_recovery(text, "/x/recovery"));
  text = replaced(text, "recovery\":1", "recovery\":2");
  EXPECT_FALSE(parse_recovery(text, "/x/recovery"));
}

TEST_F(VaultJson, DamageIsReportedByFind) {
  ASSERT_TRUE(create(path("v"), local_config(), {}));
  write(path("v") / "vault.json", "{ not json");
  const auto found = Vault::find(path("v"));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::damaged_vault);
  EXPECT_NE(found.error().message.find("vault.json: not JSON; put it back from a copy"),
            std::string::npos)
      << found.error().message;
}

TEST_F(VaultTest, ALostDescriptionIsToldOfAsSuch) {
  ASSERT_TRUE(create(path("v"), remote_config(), {}));
  write(path("v") / "vault.db", "");
  fs::remove(path("v") / "vault.json");
  const auto found = Vault::find(path("v"));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::damaged_vault);
  EXPECT_NE(found.error().message.find("vault.json is gone; `s3oramfs restore --from"),
            std::string::npos)
      << found.error().message;
}

}  // namespace
}  // namespace s3oram
