// Tests the credentials of a vault (passphrases and key files in slots), and the client's keys for
// the servers.
#include <sodium.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "oramcore/base/durable_file.h"
#include "oramcore/vault/key_file.h"
#include "oramcore/vault/vault.h"
#include "oramcore/vault/vault_config.h"
#include "tests/base/kill_at.h"
#include "tests/vault/vault_fixture.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class KeySlots : public VaultFixture {
 protected:
  void SetUp() override {
    VaultFixture::SetUp();
    vault_ = root_ / "v";
  }

  Credential key_file(const std::string& content) const {
    const fs::path path = root_ / content;
    std::ofstream(path) << content;
    return {Credential::Kind::key_file, {}, path};
  }
  void make(const Credential& credential) {
    auto made = Vault::create(vault_, remote_config(), credential, random_, kQuick);
    ASSERT_TRUE(made) << made.error().message;
  }
  /// Makes a vault as it was before there were slots.
  void make_old(const Credential& credential) {
    make(credential);
    const KeyWrap wrap = make_key_wrap(credential, kQuick, random_);
    auto box = make_box(random_.seed(), wrap, credential, random_);
    ASSERT_TRUE(box);
    Bytes check(16);
    crypto_generichash(check.data(), check.size(), box->data(), box->size(), nullptr, 0);
    box->insert(box->end(), check.begin(), check.end());
    ASSERT_TRUE(write_durably(vault_ / "vault.key", *box));
    ASSERT_TRUE(write_durably(vault_ / "vault.json", as_bytes(to_json({remote_config(), wrap}))));
  }
  Vault vault() const {
    auto found = Vault::find(vault_);
    EXPECT_TRUE(found) << found.error().message;
    return std::move(*found);
  }
  Errc opening(const Credential& credential) const {
    auto found = Vault::find(vault_);
    if (!found) return found.error().code;
    auto keys = found->unlock(credential);
    return keys ? Errc::ok : keys.error().code;
  }
  Seed sealing(const Credential& credential) const { return vault().unlock(credential)->sealing; }
  Result<unsigned> add(const Credential& known, const Credential& fresh) {
    return vault().add_credential(known, fresh, random_, kQuick);
  }
  Result<unsigned> change(const Credential& known, const Credential& fresh) {
    return vault().change_credential(known, fresh, random_, kQuick);
  }
  std::set<unsigned> numbers() const {
    std::set<unsigned> all;
    const auto slots = vault().slots();
    for (const Vault::Slot& slot : *slots) all.insert(slot.number);
    return all;
  }
  std::string read(const char* name) const {
    std::ifstream in(vault_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path vault_;
  SystemRandom random_;
};

TEST_F(KeySlots, EachOpensTheSameVault) {
  make(passphrase("one"));
  const Seed secret = sealing(passphrase("one"));
  EXPECT_EQ(add(passphrase("one"), passphrase("two")).value(), 2u);
  EXPECT_EQ(add(passphrase("two"), key_file("three")).value(), 3u);
  for (const Credential& each : {passphrase("one"), passphrase("two"), key_file("three")})
    EXPECT_EQ(sealing(each), secret);
  EXPECT_EQ(opening(passphrase("three")), Errc::wrong_passphrase);
  EXPECT_EQ(opening(key_file("two")), Errc::wrong_passphrase);
  EXPECT_EQ(opening({}), Errc::wrong_passphrase);
  EXPECT_TRUE(vault().wants_passphrase().value());
}

// A daemon that is told to unlock its vault gets the content of the key file, and no path.
TEST_F(KeySlots, TheContentOfAKeyFileOpensWithoutItsPath) {
  make(key_file("one"));
  const auto content_of = [](const std::string& text) {
    return Credential{Credential::Kind::key_file, {}, {}, Bytes(text.begin(), text.end())};
  };
  EXPECT_EQ(sealing(content_of("one")), sealing(key_file("one")));
  EXPECT_EQ(opening(content_of("two")), Errc::wrong_passphrase);
  EXPECT_EQ(opening({}), Errc::wrong_passphrase);
}

TEST_F(KeySlots, AKeyFileOfTheVaultThatIsTooLongIsDamaged) {
  make(Credential{});
  fs::resize_file(vault_ / "vault.key", 1 << 20);
  EXPECT_EQ(opening({}), Errc::damaged_vault);
}

TEST_F(KeySlots, AChangedOneNoLongerOpens) {
  make(passphrase("one"));
  ASSERT_TRUE(add(passphrase("one"), passphrase("two")));
  const Seed secret = sealing(passphrase("one"));
  EXPECT_EQ(change(passphrase("two"), key_file("new")).value(), 2u);
  EXPECT_EQ(opening(passphrase("two")), Errc::wrong_passphrase);
  EXPECT_EQ(sealing(key_file("new")), secret);
  EXPECT_EQ(sealing(passphrase("one")), secret);
  EXPECT_EQ(change(passphrase("two"), passphrase("x")).error().code, Errc::wrong_passphrase);
}

TEST_F(KeySlots, ARemovedOneNoLongerOpensAndItsNumberIsFree) {
  make(passphrase("one"));
  ASSERT_TRUE(add(passphrase("one"), passphrase("two")));
  ASSERT_TRUE(add(passphrase("one"), passphrase("three")));
  ASSERT_TRUE(vault().remove_slot(2, passphrase("one")));
  EXPECT_EQ(opening(passphrase("two")), Errc::wrong_passphrase);
  EXPECT_EQ(numbers(), (std::set<unsigned>{1, 3}));
  EXPECT_EQ(add(passphrase("three"), passphrase("again")).value(), 2u);
  EXPECT_EQ(numbers(), (std::set<unsigned>{1, 2, 3}));
}

TEST_F(KeySlots, NobodyIsShutOut) {
  make(passphrase("one"));
  EXPECT_EQ(vault().remove_slot(1, passphrase("one")).error().code, Errc::usage);
  ASSERT_TRUE(add(passphrase("one"), passphrase("two")));
  // To remove a slot, one must show that another slot opens.
  EXPECT_EQ(vault().remove_slot(1, passphrase("one")).error().code, Errc::usage);
  EXPECT_EQ(vault().remove_slot(3, passphrase("one")).error().code, Errc::usage);
  EXPECT_EQ(vault().remove_slot(1, passphrase("wrong")).error().code, Errc::wrong_passphrase);
  EXPECT_EQ(numbers(), (std::set<unsigned>{1, 2}));
  ASSERT_TRUE(vault().remove_slot(1, passphrase("two")));
  EXPECT_EQ(opening(passphrase("two")), Errc::ok);
}

// If two slots had the same passphrase, changing one of them would leave the vault open to it.
TEST_F(KeySlots, NothingOpensTwoSlots) {
  make(passphrase("one"));
  ASSERT_TRUE(add(passphrase("one"), passphrase("two")));
  for (const auto& refused :
       {add(passphrase("one"), passphrase("two")), add(passphrase("one"), passphrase("one")),
        change(passphrase("one"), passphrase("two"))}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::usage);
    EXPECT_NE(refused.error().message.find("opens slot"), std::string::npos);
  }
  EXPECT_EQ(change(passphrase("two"), passphrase("two")).value(), 2u) << "with new salt";
  EXPECT_EQ(numbers(), (std::set<unsigned>{1, 2}));
}

// Earlier versions allowed it.
TEST_F(KeySlots, WhatOpensTwoSlotsAllTheSameMayRemoveOne) {
  make(passphrase("one"));
  const std::string content = read("vault.key");
  auto keys = parse_key_file(as_bytes(content), "vault.key");
  ASSERT_TRUE(keys);
  const KeyWrap wrap = make_key_wrap(passphrase("one"), kQuick, random_);
  const auto opened = open_slot(*keys, passphrase("one"));
  keys->slots.push_back({2, wrap, *make_box(opened->master, wrap, passphrase("one"), random_)});
  ASSERT_TRUE(write_durably(vault_ / "vault.key", to_bytes(*keys)));
  EXPECT_EQ(change(passphrase("one"), passphrase("new")).error().code, Errc::usage);
  ASSERT_TRUE(vault().remove_slot(1, passphrase("one")));
  EXPECT_EQ(numbers(), (std::set<unsigned>{2}));
  EXPECT_EQ(opening(passphrase("one")), Errc::ok);
  EXPECT_TRUE(change(passphrase("one"), passphrase("new")));
}

TEST_F(KeySlots, AnUnprotectedKeyStaysAlone) {
  make({});
  EXPECT_EQ(add({}, passphrase("one")).error().code, Errc::usage);
  ASSERT_TRUE(change({}, passphrase("one")));
  EXPECT_EQ(opening({}), Errc::wrong_passphrase);
  EXPECT_EQ(add(passphrase("one"), {}).error().code, Errc::usage);
  ASSERT_TRUE(add(passphrase("one"), passphrase("two")));
  EXPECT_EQ(change(passphrase("one"), {}).error().code, Errc::usage);
  ASSERT_TRUE(vault().remove_slot(2, passphrase("one")));
  ASSERT_TRUE(change(passphrase("one"), {}));
  EXPECT_EQ(opening({}), Errc::ok);
  EXPECT_FALSE(vault().wants_passphrase().value());
}

TEST_F(KeySlots, ThereIsRoomForSixteen) {
  make(passphrase("1"));
  for (unsigned i = 2; i <= kMostSlots; ++i)
    ASSERT_TRUE(add(passphrase("1"), passphrase(std::to_string(i))));
  EXPECT_EQ(add(passphrase("1"), passphrase("more")).error().code, Errc::usage);
  for (unsigned i = 1; i <= kMostSlots; ++i)
    EXPECT_EQ(opening(passphrase(std::to_string(i))), Errc::ok);
}

TEST_F(KeySlots, ChangesAtTheSameTimeAllCount) {
  make(passphrase("0"));
  std::vector<std::thread> threads;
  for (int i = 1; i <= 8; ++i)
    threads.emplace_back([this, i] {
      SystemRandom random;
      EXPECT_TRUE(
          vault().add_credential(passphrase("0"), passphrase(std::to_string(i)), random, kQuick));
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i <= 8; ++i) EXPECT_EQ(opening(passphrase(std::to_string(i))), Errc::ok) << i;
}

TEST_F(KeySlots, AMountedVaultCanBeChanged) {
  make(passphrase("one"));
  Vault mounted = vault();
  ASSERT_TRUE(mounted.lock());
  ASSERT_TRUE(change(passphrase("one"), passphrase("two")));
  EXPECT_EQ(opening(passphrase("two")), Errc::ok);
}

TEST_F(KeySlots, AVaultOfBeforeThemIsRaisedAtTheFirstChange) {
  for (const Credential& old : {passphrase("old"), key_file("old"), Credential{}}) {
    make_old(old);
    const Seed secret = sealing(old);
    const PublicKey client = vault().unlock(old)->curve.public_key;
    EXPECT_EQ(numbers(), std::set<unsigned>{1});
    EXPECT_NE(read("vault.json").find("\"format\": 2"), std::string::npos);
    ASSERT_TRUE(change(old, passphrase("new")));
    EXPECT_EQ(sealing(passphrase("new")), secret);
    EXPECT_EQ(vault().unlock(passphrase("new"))->curve.public_key, client);
    EXPECT_EQ(opening(old), Errc::wrong_passphrase);
    // A program that knows no slots says that this vault is newer than the program.
    EXPECT_NE(read("vault.json").find("\"format\": 3"), std::string::npos);
    EXPECT_EQ(read("vault.json").find("\"wrap\""), std::string::npos);
    fs::remove_all(vault_);
  }
}

TEST_F(KeySlots, AVaultOfBeforeThemIsRaisedWhenItsDatabaseIsSealed) {
  make_old(passphrase("old"));
  const Seed secret = sealing(passphrase("old"));
  ASSERT_TRUE(vault().mark_sealed());
  EXPECT_NE(read("vault.json").find("\"format\": 4"), std::string::npos);
  EXPECT_EQ(read("vault.json").find("\"wrap\""), std::string::npos);
  EXPECT_EQ(sealing(passphrase("old")), secret);
  ASSERT_TRUE(change(passphrase("old"), passphrase("new")));
  EXPECT_NE(read("vault.json").find("\"format\": 4"), std::string::npos);
}

TEST_F(KeySlots, AnUnfinishedVaultOfBeforeThemBecomesReadyAsItIs) {
  make_old(passphrase("old"));
  Vault old = vault();
  ASSERT_TRUE(old.mark_ready());
  EXPECT_TRUE(vault().config().ready);
  EXPECT_EQ(opening(passphrase("old")), Errc::ok);
  // A vault object from before someone changed the slots.
  ASSERT_TRUE(change(passphrase("old"), passphrase("new")));
  ASSERT_TRUE(old.mark_ready());
  EXPECT_EQ(opening(passphrase("new")), Errc::ok);
}

TEST_F(KeySlots, ANewerFormatIsNotGuessedAt) {
  make(passphrase("p"));
  std::string content = read("vault.key");
  content[14] = '2';
  crypto_generichash(reinterpret_cast<std::uint8_t*>(content.data()) + content.size() - 16, 16,
                     reinterpret_cast<const std::uint8_t*>(content.data()), content.size() - 16,
                     nullptr, 0);
  ASSERT_TRUE(write_durably(vault_ / "vault.key", as_bytes(content)));
  EXPECT_EQ(opening(passphrase("p")), Errc::unsupported);
  const std::string message = vault().unlock(passphrase("p")).error().message;
  EXPECT_NE(
      message.find("vault.key: its format 2 is newer than this program, which knows format 1"),
      std::string::npos)
      << message;
}

// ---- cut short at any instant ------------------------------------------------------------------

class CutSlots : public KeySlots, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Formats, CutSlots, testing::Bool(),
                         [](const auto& format) { return format.param ? "BeforeSlots" : "Slots"; });

TEST_P(CutSlots, TheVaultOpensByTheOldOrTheNew) {
  const Credential old = passphrase("old"), fresh = passphrase("new");
  if (GetParam())
    make_old(old);
  else
    make(old);
  const Seed secret = sealing(old);
  const fs::path before = root_ / "before";
  fs::rename(vault_, before);
  std::size_t with_old = 0, with_new = 0;
  for (std::size_t n = 1;; ++n) {
    fs::copy(before, vault_, fs::copy_options::recursive);
    fs::permissions(vault_ / "vault.key", fs::perms::owner_read | fs::perms::owner_write);
    const test::Outcome outcome = test::kill_at(n, [&] { return change(old, fresh).has_value(); });
    const bool by_old = opening(old) == Errc::ok, by_new = opening(fresh) == Errc::ok;
    ASSERT_NE(by_old, by_new) << "killed at system call " << n;
    EXPECT_EQ(sealing(by_old ? old : fresh), secret);
    EXPECT_TRUE(vault().check_key());
    // Whatever was left behind, the next change succeeds.
    ASSERT_TRUE(change(by_old ? old : fresh, passphrase("next")));
    EXPECT_EQ(opening(passphrase("next")), Errc::ok);
    EXPECT_NE(read("vault.json").find(GetParam() ? "\"format\": 3" : "\"format\": 4"),
              std::string::npos);
    (by_old ? with_old : with_new) += 1;
    fs::remove_all(vault_);
    if (outcome.ended) break;
    ASSERT_LT(n, 10'000u);
  }
  EXPECT_GT(with_old, 10u);
  EXPECT_GT(with_new, 2u);
}

// The order protects against power cuts: content, name, and the name made durable.
TEST_P(CutSlots, EachFileIsDurableBeforeItsNameAndTheNameBeforeItIsToldOf) {
  const Credential old = passphrase("old");
  if (GetParam())
    make_old(old);
  else
    make(old);
  const test::Outcome outcome =
      test::kill_at(100'000, [&] { return change(old, passphrase("new")).has_value(); });
  ASSERT_TRUE(outcome.ended);
  std::string order;
  for (const std::uint64_t call : outcome.calls) {
    if (call == SYS_fsync) order += 's';
#ifdef SYS_rename
    if (call == SYS_rename) order += 'r';
#endif
    if (call == SYS_renameat || call == SYS_renameat2) order += 'r';
  }
  EXPECT_EQ(order, GetParam() ? "srssrs" : "srs");
}

// ---- keys for the servers ----------------------------------------------------------------------

TEST_F(KeySlots, AClientKeyWaitsUntilItIsUsed) {
  make(passphrase("p"));
  const auto in_use = [&] { return vault().unlock(passphrase("p"))->curve.public_key; };
  const PublicKey first = in_use();
  EXPECT_EQ(vault().use_next_client_key(passphrase("p")).error().code, Errc::usage);
  EXPECT_EQ(vault().unlock(passphrase("p"), ClientKey::next).error().code, Errc::usage);
  const PublicKey next = vault().next_client_key(passphrase("p"), random_).value();
  EXPECT_NE(next, first);
  EXPECT_EQ(vault().next_client_key(passphrase("p"), random_).value(), next) << "it is kept";
  EXPECT_EQ(in_use(), first);
  EXPECT_EQ(vault().unlock(passphrase("p"), ClientKey::next)->curve.public_key, next);
  ASSERT_TRUE(change(passphrase("p"), passphrase("p")));  // independent of client keys
  const Seed secret = sealing(passphrase("p"));
  const auto used = vault().use_next_client_key(passphrase("p"));
  ASSERT_TRUE(used) << used.error().message;
  EXPECT_EQ(used->former, first);
  EXPECT_EQ(used->now, next);
  EXPECT_EQ(in_use(), next);
  EXPECT_EQ(sealing(passphrase("p")), secret);
  const PublicKey third = vault().next_client_key(passphrase("p"), random_).value();
  EXPECT_NE(third, next);
  EXPECT_EQ(vault().use_next_client_key(passphrase("p"))->former, next);
  EXPECT_EQ(in_use(), third);
}

TEST_F(KeySlots, AServerCanMove) {
  make(passphrase("p"));
  ServerAddress there{"new.example:1", remote_config().servers[1].key};
  ASSERT_TRUE(vault().set_server(2, there));
  EXPECT_EQ(vault().config().servers[1].host_port, "new.example:1");
  EXPECT_EQ(vault().config().servers[0].host_port, "s0.example:5760");
  EXPECT_EQ(opening(passphrase("p")), Errc::ok);
  EXPECT_EQ(vault().set_server(0, there).error().code, Errc::usage);
  EXPECT_EQ(vault().set_server(4, there).error().code, Errc::usage);
  EXPECT_EQ(vault().set_server(1, there).error().code, Errc::usage) << "that is server 2";
  there.host_port = "s0.example:5760";
  EXPECT_EQ(vault().set_server(2, there).error().code, Errc::usage) << "that is server 1";
}

}  // namespace
}  // namespace s3oram
