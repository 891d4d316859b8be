// The client's disk is lost, and its state is rebuilt from what the servers hold.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <random>

#include "oramcore/schemes/s3oram/seal.h"
#include "tests/harness/older_seal.h"
#include "tests/sim/filled_volume.h"
#include "tests/sim/ledger.h"
#include "tests/sim/simulation.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::pattern;

constexpr std::uint32_t kSize = test::kBlockSize;

class RebuildTest : public test::FilledVolume {
 protected:
  /// Loses the client without a commit; only necessary commits have happened.
  void lose() {
    cluster_.kill_client();
    cluster_.lose_client();
  }
  void back_up(BlockId block) {
    std::optional<Status> done;
    cluster_.engine().write_backup(block, pattern(block, 8, kSize),
                                   [&](Status status) { done = std::move(status); });
    cluster_.run_until([&] { return done.has_value(); });
    ASSERT_OK(*done);
    newest_[block] = 8;
  }
  /// All slots become as the oldest version left them, which had no labels.
  void make_older() {
    std::map<Party, std::vector<Bytes>> shares;
    for (Party server = 1; server <= cluster_.servers(); ++server)
      ASSERT_NO_FATAL_FAILURE(
          change_slots(server, [&](Bytes& share) { shares[server].push_back(share); }));
    std::vector<Bytes> changes;
    std::set<BlockId> blocks;
    for (std::size_t at = 0; at < shares[1].size(); ++at) {
      Bytes slot = recovered(shares, at), older = slot;
      if (const auto block = sealer().open(slot)) {
        test::bind_as_format_3(cluster_.sealing_key(), block->content, older);
        std::fill(older.end() - kLabelBack, older.end(), 0);
        blocks.insert(block->label.block);
      }
      for (std::size_t i = 0; i < slot.size(); ++i) older[i] ^= slot[i];
      changes.push_back(older);
    }
    ASSERT_GE(blocks.size(), kBlocks) << "the servers do not have the same slots";
    // A term that is added to all shares is added to the secret.
    for (Party server = 1; server <= cluster_.servers(); ++server) {
      std::size_t next = 0;
      ASSERT_NO_FATAL_FAILURE(change_slots(server, [&](Bytes& share) {
        const Bytes& change = changes.at(next++);
        for (std::size_t i = 0; i < share.size(); ++i) share[i] ^= change[i];
      }));
    }
  }
  Sealer sealer() { return Sealer(cluster_.sealing_key(), random_); }
  Bytes recovered(const std::map<Party, std::vector<Bytes>>& shares, std::size_t at) const {
    Bytes servers;
    std::vector<ByteSpan> few;
    for (Party server = 1; few.size() <= cluster_.params().scheme.threshold; ++server) {
      servers.push_back(server);
      few.emplace_back(shares.at(server).at(at));
    }
    return recover(servers, few);
  }

  /// Returns what a server adds to its share to make up another secret together with the shares of
  /// the first other servers.
  std::uint8_t change_of_share(Party liar, std::uint8_t change) const {
    Bytes servers{liar};
    for (Party other = 1; servers.size() <= cluster_.params().scheme.threshold; ++other)
      if (other != liar) servers.push_back(other);
    const Bytes nothing(1);
    std::vector<ByteSpan> shares(servers.size(), nothing);
    for (unsigned guess = 1; guess < 256; ++guess) {
      const Bytes share{static_cast<std::uint8_t>(guess)};
      shares[0] = share;
      if (recover(servers, shares)[0] == change) return share[0];
    }
    ADD_FAILURE() << "no share makes up " << unsigned{change};
    return 0;
  }

  Prg random_{Seed{}, as_bytes("rebuild test")};
};
S3O_WITH_EACH_VOLUME(RebuildTest);

TEST_P(RebuildTest, FindsEverythingAndGoesOn) {
  ASSERT_NO_FATAL_FAILURE(fill());
  EXPECT_GT(cluster_.engine().status().height, 2u);
  lose();
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 0u);
  EXPECT_EQ(rebuilt->state.positions.mapped(), kBlocks);
  EXPECT_TRUE(rebuilt->backup.empty());
  go_on();
}

TEST_P(RebuildTest, OfANewVolume) {
  cluster_.lose_client();
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->state.positions.mapped(), 0u);
  go_on();
}

TEST_P(RebuildTest, KnowsThePartsOfABackup) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const BlockId block : {3, 4, 5, 40}) ASSERT_NO_FATAL_FAILURE(back_up(block));
  ASSERT_NO_FATAL_FAILURE(write(4, 9));
  for (int round = 0; round < 3; ++round) ASSERT_NO_FATAL_FAILURE(check_contents());
  lose();
  auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->backup, (std::vector<BlockId>{3, 5, 40}));
  ASSERT_OK(cluster_.open_client());
  for (int round = 0; round < 3; ++round) ASSERT_NO_FATAL_FAILURE(check_contents());
  lose();
  rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->backup, (std::vector<BlockId>{3, 5, 40})) << "reading must not change it";
}

// A server whose shares hide that blocks belong to a backup is not believed, and its lie is not
// stored at the others.
TEST_P(RebuildTest, NoServerCanHideABackup) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const BlockId block : {3, 5, 40}) ASSERT_NO_FATAL_FAILURE(back_up(block));
  lose();
  for (Party liar = 1; liar <= cluster_.servers(); ++liar) {
    const std::uint8_t change = change_of_share(liar, 0x80);
    ASSERT_NO_FATAL_FAILURE(change_slots(liar, [=](Bytes& share) { share.back() ^= change; }));
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_OK(rebuilt);
    EXPECT_EQ(rebuilt->backup, (std::vector<BlockId>{3, 5, 40})) << "server " << liar << " lies";
    cluster_.lose_client();
  }
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
}

TEST_P(RebuildTest, IsCutShortAndBegunAgain) {
  std::mt19937_64 random(11);
  ASSERT_NO_FATAL_FAILURE(fill());
  for (int loss = 0; loss < 4; ++loss) {
    cluster_.engine().write(loss, pattern(loss, 3, kSize), [](const Status&) {});
    for (auto steps = random() % 60; steps > 0; --steps) cluster_.step();
    // It is not known which of the two contents the block holds.
    newest_.erase(static_cast<BlockId>(loss));
    lose();
    for (std::uint64_t most = 1; most < 3000; most *= 2) {
      cluster_.begin_rebuild_client([](const Result<Rebuilt>&) {});
      for (auto steps = random() % most; steps > 0 && cluster_.runs(kClient); --steps)
        cluster_.step();
      const auto server = static_cast<Party>(1 + random() % cluster_.servers());
      if (random() % 2) cluster_.cut(server);
      cluster_.cut(kClient);
      if (!cluster_.runs(server)) cluster_.start_server(server);
      cluster_.lose_client();
    }
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_OK(rebuilt);
    EXPECT_EQ(rebuilt->damaged, 0u);
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
}

TEST_P(RebuildTest, OneServersDiskMayRot) {
  ASSERT_NO_FATAL_FAILURE(fill());
  lose();
  const std::size_t stride = GetParam().slot_size() + BucketVersion::kTrailer;
  const std::size_t size = cluster_.disk(2).content("slots").size();
  for (std::size_t at = 17; at < size; at += 2 * stride) cluster_.disk(2).rot("slots", at, 4);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 0u);
  go_on();
}

// The wrong shares have right checksums; only the other servers' shares show that they are wrong.
TEST_P(RebuildTest, OneServersSharesMayBeWrong) {
  ASSERT_NO_FATAL_FAILURE(fill());
  lose();
  std::mt19937_64 random(3);
  ASSERT_NO_FATAL_FAILURE(change_slots(1, [&](Bytes& share) {
    if (random() % 4 == 0) share[random() % 16] ^= 0x10;
    if (random() % 4 == 0) share[share.size() - 1 - random() % 3] ^= 0x41;
  }));
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 0u);
  go_on();
}

TEST_P(RebuildTest, BlocksWithoutALeafGetOne) {
  ASSERT_NO_FATAL_FAILURE(fill());
  lose();
  ASSERT_NO_FATAL_FAILURE(make_older());
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 0u);
  EXPECT_EQ(rebuilt->state.positions.mapped(), kBlocks);
  go_on();
}

TEST_P(RebuildTest, AServerThatWasSetBackIsRefusedByName) {
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.settle();
  cluster_.stop_server(2);
  const auto older = cluster_.disk(2).image();
  cluster_.start_server(2);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(write(i % kBlocks, 5 + i));
  lose();
  cluster_.stop_server(2);
  const auto newest = cluster_.disk(2).image();
  cluster_.replace_disk(2, older);
  cluster_.start_server(2);
  for (int again = 0; again < 2; ++again) {
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().code, Errc::wrong_volume);
    EXPECT_NE(rebuilt.error().message.find("server 2 has lost evictions"), std::string::npos)
        << rebuilt.error().message;
    const auto opened = cluster_.open_client();
    EXPECT_FALSE(opened) << "there is no state to go on with";
  }
  cluster_.stop_server(2);
  cluster_.replace_disk(2, newest);
  cluster_.start_server(2);
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
}

TEST_P(RebuildTest, AStateThatIsThereIsNotReplaced) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().code, Errc::exists);
  go_on();
}

// The client dies at any moment, every other time right after it has decided an eviction. Its
// stored state stays usable, whether the state was then rebuilt beside it or the rebuild was cut
// short at any moment.
TEST_P(RebuildTest, AFormerStateGoesOn) {
  ASSERT_NO_FATAL_FAILURE(fill());
  std::mt19937_64 random(11);
  bool decides = false, begins = false;
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    if (party != kClient || !done) return;
    if ((decides && name == "decide") || (begins && name == "session")) cluster_.cut(kClient);
  };
  unsigned whole = 0;
  for (std::uint64_t round = 0; round < 24; ++round) {
    for (BlockId block = 0; block < 3; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 100 + round));
    ASSERT_OK(cluster_.commit());
    unsigned reads = 6;
    for (unsigned i = 0; i < 6; ++i)
      cluster_.engine().read(random() % kBlocks, [&](const auto&) { --reads; });
    decides = round % 2 == 0;
    auto steps = random() % 600;
    cluster_.run_until(
        [&] { return decides ? !cluster_.runs(kClient) : reads == 0 || steps-- == 0; });
    decides = false;
    if (cluster_.runs(kClient)) cluster_.kill_client();
    SCOPED_TRACE(fmt::format("round {}", round));
    for (auto again = random() % 3 + 1; again > 0; --again) {
      bool ended = false;
      cluster_.begin_rebuild_client(
          [&](const Result<Rebuilt>& rebuilt) {
            ended = true;
            EXPECT_TRUE(rebuilt && rebuilt->former_was_last);
          },
          Cluster::Rebuilding::beside);
      // In some rounds the rebuild dies before a server hears of the session.
      begins = random() % 4 == 0;
      steps = begins || random() % 2 ? 100'000'000 : random() % 2000;
      cluster_.run_until([&] { return ended || steps-- == 0 || !cluster_.runs(kClient); });
      begins = false;
      whole += ended;
      if (!ended && cluster_.runs(kClient)) cluster_.kill_client();
    }
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
  EXPECT_GE(whole, 8u);
}

TEST_P(RebuildTest, AFormerStateOfANewVolumeGoesOn) {
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(write(5, 1));
  ASSERT_OK(cluster_.commit());
  cluster_.kill_client();
  for (int again = 0; again < 4; ++again) {
    const auto rebuilt = cluster_.rebuild_client(Cluster::Rebuilding::beside);
    ASSERT_OK(rebuilt);
    EXPECT_TRUE(rebuilt->former_was_last);
    if (again % 2 == 0) continue;
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
    cluster_.kill_client();
  }
  go_on();
}

// This includes a copy of the same session: other data lies at its places by now.
TEST_P(RebuildTest, AnOlderCopyOfTheStateHasNoSay) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (BlockId accesses = 0; accesses < 3 * cluster_.params().evict_every; ++accesses) {
    SCOPED_TRACE(fmt::format("{} accesses", accesses));
    ASSERT_OK(cluster_.commit());
    const auto copy = cluster_.disk(kClient).image();
    for (BlockId block = 0; block <= accesses; ++block)
      ASSERT_NO_FATAL_FAILURE(write(block, 100 + accesses));
    ASSERT_OK(cluster_.commit());
    cluster_.kill_client();
    cluster_.replace_disk(kClient, copy);
    const auto of_copy = cluster_.rebuild_client(Cluster::Rebuilding::beside);
    ASSERT_OK(of_copy);
    EXPECT_FALSE(of_copy->former_was_last);
    cluster_.lose_client();
    ASSERT_OK(cluster_.rebuild_client());
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
}

// Even a copy of the same session is refused before it shuts the newest one out.
TEST_P(RebuildTest, AnOlderCopyOfTheStateIsRefused) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (unsigned accesses = 0; accesses < 3 * cluster_.params().evict_every; ++accesses) {
    SCOPED_TRACE(fmt::format("{} accesses", accesses));
    ASSERT_OK(cluster_.commit());
    const auto copy = cluster_.disk(kClient).image();
    for (unsigned i = 0; i < accesses; ++i) ASSERT_NO_FATAL_FAILURE(write(1, 100 + accesses));
    ASSERT_OK(cluster_.commit());
    cluster_.kill_client();
    const auto newest = cluster_.disk(kClient).image();
    if (accesses > 0) {
      cluster_.replace_disk(kClient, copy);
      const Status opened = cluster_.open_client();
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
      cluster_.replace_disk(kClient, newest);
    }
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
}

// Random runs in which the client loses its disk again and again, with all other troubles.
class LosingRuns : public testing::TestWithParam<int> {};
TEST_P(LosingRuns, KeepAllPromises) {
  spdlog::set_level(spdlog::level::off);
  constexpr int kRuns = 5;
  for (int i = 0; i < kRuns; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kRuns + i);
    const auto report = test::simulate(seed, test::Loser::client);
    ASSERT_EQ(report.failure, "") << report.shape << "; replay with: sim_run --lose-client --seed "
                                  << seed << " --runs 1 --verbose";
    EXPECT_GE(report.rebuilds, 1u);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, LosingRuns, testing::Range(0, 4));

}  // namespace
}  // namespace s3oram
