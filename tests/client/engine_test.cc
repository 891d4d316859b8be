// The whole protocol in one process: client, servers and stores, with random accesses compared with
// a model.
#include "oramcore/client/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "oramcore/db/sqlite.h"
#include "oramcore/schemes/s3oram/seal.h"
#include "tests/harness/repetitions.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::pattern;

using test::matrix_volume;
using test::safe_volume;
using test::shuffle_volume;

VolumeParams seeded(VolumeParams params) {
  params.privacy = Privacy::computational;
  return params;
}
VolumeParams larger_blocks(VolumeParams params) {
  params.block_size = 1024;
  return params;
}
const VolumeParams kShapes[] = {
    safe_volume(Evictor::matrix, 4),
    larger_blocks(safe_volume(Evictor::matrix, 16)),
    matrix_volume(min_bucket_size(4), 4, {1, 4}),
    matrix_volume(min_bucket_size(4), 4, {2, 5}),
    safe_volume(Evictor::matrix, 1),
    seeded(safe_volume(Evictor::matrix, 4)),
    seeded(matrix_volume(min_bucket_size(4), 4, {1, 4})),
    seeded(matrix_volume(min_bucket_size(4), 4, {2, 5})),
    safe_volume(Evictor::shuffle, 4),
    larger_blocks(shuffle_volume(16, 20, 96)),
    safe_volume(Evictor::shuffle, 1),
    shuffle_volume(1, 1, 12),
};

// Drives a cluster with random operations and remembers what every block must hold.
class Mirror {
 public:
  Mirror(Cluster& cluster, std::uint64_t seed) : cluster_(cluster), random_(seed) {}

  void operate(std::size_t count, BlockId blocks, std::size_t at_once) {
    std::size_t ended = 0, begun = 0;
    const auto size = cluster_.params().block_size;
    while (ended < count) {
      while (begun < count && begun - ended < at_once) {
        const BlockId block = random_() % blocks;
        ++begun;
        switch (random_() % 5) {
          case 0:
          case 1:
            held_[block] = pattern(block, ++generation_, size);
            cluster_.engine().write(block, held_[block], [&](Status status) {
              EXPECT_TRUE(status) << status.error().message;
              ++ended;
            });
            break;
          case 2:
            held_.erase(block);
            cluster_.engine().discard(block);
            ++ended;
            break;
          default:
            cluster_.engine().read(block, [&, block, wanted = wanted(block)](Result<Bytes> got) {
              ASSERT_TRUE(got) << got.error().message;
              EXPECT_EQ(*got, wanted) << "block " << block;
              ++ended;
            });
        }
      }
      const std::size_t before = ended;
      cluster_.run_until([&] { return ended > before || ended == begun; });
    }
  }

  void check_all(BlockId blocks) {
    for (BlockId block = 0; block < blocks; ++block) {
      auto got = cluster_.read(block);
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(*got, wanted(block)) << "block " << block;
    }
  }

 private:
  Bytes wanted(BlockId block) const {
    const auto found = held_.find(block);
    return found == held_.end() ? Bytes(cluster_.params().block_size) : found->second;
  }
  Cluster& cluster_;
  std::mt19937_64 random_;
  std::uint64_t generation_ = 0;
  std::map<BlockId, Bytes> held_;
};

const auto kSeeds = testing::Range(1, 1 + static_cast<int>(test::repetitions(1)));

class Engines : public testing::TestWithParam<std::tuple<VolumeParams, int>> {};

TEST_P(Engines, HoldWhatWasWrittenAndFindItAgain) {
  const auto [params, seed] = GetParam();
  Cluster cluster(params, seed);
  Mirror mirror(cluster, seed);
  constexpr BlockId kBlocks = 100;
  for (int session = 0; session < 3; ++session) {
    ASSERT_OK(cluster.open_client());
    mirror.operate(200, kBlocks, session == 0 ? 1 : 20);
    const auto status = cluster.engine().status();
    EXPECT_EQ(status.stash, 0u);
    ASSERT_OK(cluster.close_client());
    for (Party server = 1; server <= params.scheme.servers; ++server) {
      cluster.stop_server(server);
      cluster.start_server(server);
    }
  }
  ASSERT_OK(cluster.open_client());
  EXPECT_GT(cluster.engine().status().height, 3u);
  mirror.check_all(kBlocks);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Engines, testing::Combine(testing::ValuesIn(kShapes), kSeeds));

// Z is far below the bound, so plans often lack slots for some blocks, and still nothing is lost.
class SmallBuckets : public testing::TestWithParam<std::tuple<VolumeParams, int>> {};

TEST_P(SmallBuckets, LoseNothing) {
  const auto [params, seed] = GetParam();
  Cluster cluster(params, seed);
  Mirror mirror(cluster, seed);
  constexpr BlockId kBlocks = 120;
  std::uint64_t stashed = 0;
  for (int session = 0; session < 2; ++session) {
    ASSERT_OK(cluster.open_client());
    for (int part = 0; part < 60; ++part) {
      mirror.operate(10, kBlocks, 6);
      stashed = std::max(stashed, cluster.engine().status().stash);
    }
    ASSERT_OK(cluster.close_client());
  }
  ASSERT_OK(cluster.open_client());
  mirror.check_all(kBlocks);
  if (params.bucket_size <= 4) {
    EXPECT_GT(stashed, 0u) << "this test should reach the stash";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, SmallBuckets,
    testing::Combine(testing::Values(matrix_volume(4, 4), matrix_volume(5, 4), matrix_volume(6, 4),
                                     matrix_volume(8, 4), shuffle_volume(2, 4, 2),
                                     shuffle_volume(3, 4, 3), shuffle_volume(1, 3, 4)),
                     kSeeds));

class EngineTest : public test::EachEvictor {};
S3O_WITH_EACH_EVICTOR(EngineTest);

TEST_P(EngineTest, CommitsOnlyWhatWasAskedAndKeepsWhatWasCommitted) {
  // The client's process dies. Whatever a commit covered is there; the rest is old or new.
  for (int seed = 1; seed <= 5; ++seed) {
    Cluster cluster(safe_volume(GetParam(), 4), seed);
    ASSERT_OK(cluster.open_client());
    for (BlockId block = 0; block < 10; ++block)
      ASSERT_OK(cluster.write(block, pattern(block, 1, 512)));
    ASSERT_OK(cluster.commit());
    for (BlockId block = 0; block < 10; ++block)
      ASSERT_OK(cluster.write(block, pattern(block, 2, 512)));
    cluster.kill_client();
    ASSERT_OK(cluster.open_client());
    for (BlockId block = 0; block < 10; ++block) {
      auto got = cluster.read(block);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_TRUE(*got == pattern(block, 1, 512) || *got == pattern(block, 2, 512)) << block;
    }
  }
}

TEST_P(EngineTest, GoesOnWhenMessagesAreLost) {
  Cluster cluster(safe_volume(GetParam(), 4), 11);
  std::mt19937_64 random(11);
  cluster.network.filter = [&](Party, Party, const Bytes&) { return random() % 20 != 0; };
  Mirror mirror(cluster, 11);
  ASSERT_OK(cluster.open_client());
  mirror.operate(200, 60, 8);
  mirror.check_all(60);
}

TEST_P(EngineTest, GoesOnWhenServersRestart) {
  Cluster cluster(safe_volume(GetParam(), 4), 12);
  Mirror mirror(cluster, 12);
  ASSERT_OK(cluster.open_client());
  for (int round = 0; round < 12; ++round) {
    mirror.operate(20, 60, 8);
    const Party server = static_cast<Party>(1 + round % 3);
    cluster.stop_server(server);
    cluster.start_server(server);
  }
  mirror.check_all(60);
}

TEST_P(EngineTest, ReadsWhileAServerLiesInEveryAnswer) {
  Cluster cluster(safe_volume(GetParam(), 4), 13);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  cluster.network.filter = [&](Party from, Party, const Bytes& message) {
    if (from == 2 && message.size() > 500) const_cast<Bytes&>(message)[100] ^= 1;
    return true;
  };
  const auto got = cluster.read(1);
  ASSERT_OK(got);
  EXPECT_EQ(*got, pattern(1, 1, 512));
  EXPECT_EQ(cluster.engine().status().unreadable, 0u);
}

TEST_P(EngineTest, RemembersWhatCouldNotBeReadUntilItCan) {
  Cluster cluster(safe_volume(GetParam(), 4), 113);
  const auto unreadable = [&] { return cluster.engine().status().unreadable; };
  const auto open_again = [&] {
    ASSERT_OK(cluster.close_client());
    ASSERT_OK(cluster.open_client());
  };
  bool lie = false;
  cluster.network.filter = [&](Party, Party to, const Bytes& message) {
    if (lie && to == kClient && message.size() > 500) const_cast<Bytes&>(message)[100] ^= 1;
    return true;
  };
  ASSERT_OK(cluster.open_client());
  for (BlockId block = 1; block < 5; ++block)
    ASSERT_OK(cluster.write(block, pattern(block, 1, 512)));
  lie = true;
  for (BlockId block = 1; block < 5; ++block) EXPECT_FALSE(cluster.read(block));
  ASSERT_NO_FATAL_FAILURE(open_again());
  EXPECT_EQ(unreadable(), 4u) << "nobody has asked for it again";
  EXPECT_FALSE(cluster.read(1)) << "it still lies where it was";
  lie = false;
  EXPECT_FALSE(cluster.read(1)) << "it was asked for just now";
  ASSERT_NO_FATAL_FAILURE(open_again());
  EXPECT_EQ(unreadable(), 4u);
  const auto got = cluster.read(1);
  ASSERT_OK(got);
  EXPECT_EQ(*got, pattern(1, 1, 512));
  ASSERT_OK(cluster.commit());
  cluster.kill_client();
  ASSERT_OK(cluster.open_client());
  EXPECT_EQ(unreadable(), 3u) << "it could be read";
  ASSERT_OK(cluster.write(2, pattern(2, 2, 512)));
  EXPECT_EQ(unreadable(), 2u) << "it was rewritten";
  cluster.engine().discard(3);
  cluster.run_until([&] { return unreadable() == 1; });
  ASSERT_NO_FATAL_FAILURE(open_again());
  EXPECT_EQ(unreadable(), 1u) << "only the block that nobody has asked for again";
  for (const BlockId block : {1, 2, 4}) EXPECT_TRUE(cluster.read(block)) << "block " << block;
  cluster.run_until([&] { return unreadable() == 0; });
}

/// Makes the servers report every path as damaged while `refuse` is true.
void refuse_retrievals(Cluster& cluster, const bool& refuse) {
  cluster.network.filter = [&refuse](Party, Party to, const Bytes& message) {
    if (refuse && to == kClient && static_cast<MessageType>(message[2]) == MessageType::retrieve)
      const_cast<Bytes&>(message)[4] = static_cast<std::uint8_t>(Errc::corrupt);
    return true;
  };
}

Status change_database(Cluster& cluster, const std::string& sql) {
  auto database = Database::open("vault.db", Database::Mode::read_write, cluster.disk(kClient));
  return database ? database->execute(sql) : Status(fail(database.error()));
}

// The number of a block that is gone is used for another block.
TEST_P(EngineTest, WhatWasUnreadableIsForgottenWithTheBlock) {
  Cluster cluster(safe_volume(GetParam(), 4), 215);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  ASSERT_OK(cluster.close_client());
  ASSERT_OK(change_database(cluster,
                            "UPDATE positions SET position = 'x' WHERE block = 1;"
                            "INSERT INTO unreadable VALUES (1), (9), (-1)"));
  ASSERT_OK(cluster.open_client());
  EXPECT_EQ(cluster.engine().status().unreadable, 0u);
  for (const BlockId block : {1, 9}) ASSERT_OK(cluster.write(block, pattern(block, 2, 512)));
  ASSERT_OK(cluster.close_client());
  ASSERT_OK(cluster.open_client());
  EXPECT_EQ(cluster.engine().status().unreadable, 0u) << "both were written just now";
}

TEST_P(EngineTest, AWriteThatCannotReadFirstMakesNothingUnreadable) {
  Cluster cluster(safe_volume(GetParam(), 4), 216);
  bool refuse = false;
  refuse_retrievals(cluster, refuse);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  refuse = true;
  for (const BlockId block : {1, 9}) {
    std::optional<Status> written;
    cluster.engine().write(block, pattern(block, 2, 512),
                           [&](Status status) { written = std::move(status); });
    cluster.run_until([&] {
      EXPECT_EQ(cluster.engine().status().unreadable, 0u);
      return written.has_value();
    });
    EXPECT_TRUE(*written) << written->error().message;
  }
}

// Servers may see its path, and none of their answers is needed.
TEST_P(EngineTest, WhatLiesInTheStashCanBeRead) {
  Cluster cluster(safe_volume(GetParam(), 4), 214);
  bool refuse = false;
  refuse_retrievals(cluster, refuse);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  ASSERT_OK(cluster.close_client());
  std::uint64_t version = 0;
  {
    auto database = Database::open("vault.db", Database::Mode::read_write, cluster.disk(kClient));
    ASSERT_OK(database);
    auto row = database->prepare("SELECT version FROM positions WHERE block = 1");
    ASSERT_OK(row);
    ASSERT_TRUE(*row->step());
    version = static_cast<std::uint64_t>(row->integer(0));
  }
  SystemRandom random;
  const Bytes sealed = Sealer(cluster.sealing_key(), random)
                           .seal({.block = 1, .version = version, .leaf = 0}, pattern(1, 1, 512));
  std::string hex;
  for (const std::uint8_t byte : sealed) hex += fmt::format("{:02x}", byte);
  ASSERT_OK(change_database(cluster, fmt::format("UPDATE positions SET position = 254 << 40;"
                                                 "INSERT INTO stash VALUES (1, x'{}')",
                                                 hex)));
  ASSERT_OK(cluster.open_client());
  refuse = true;
  const auto got = cluster.read(1);
  ASSERT_OK(got);
  EXPECT_EQ(*got, pattern(1, 1, 512));
  EXPECT_EQ(cluster.engine().status().unreadable, 0u);
}

TEST_P(EngineTest, RefusesAnOldCopyOfTheVault) {
  Cluster cluster(safe_volume(GetParam(), 4), 14);
  const auto copy = cluster.disk(kClient).image();
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  ASSERT_OK(cluster.close_client());
  const auto newest = cluster.disk(kClient).image();
  cluster.replace_disk(kClient, copy);
  auto status = cluster.open_client();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::stale_vault);
  cluster.replace_disk(kClient, newest);
  ASSERT_OK(cluster.open_client());
  auto got = cluster.read(1);
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, pattern(1, 1, 512));
}

TEST_P(EngineTest, FencesAnOlderSession) {
  Cluster cluster(safe_volume(GetParam(), 4), 15);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  ASSERT_OK(cluster.commit());
  Bytes old_write;
  cluster.network.filter = [&](Party, Party, const Bytes& message) {
    if (message.size() > 500 && message[2] == 5) old_write = message;
    return true;
  };
  ASSERT_OK(cluster.write(2, pattern(2, 1, 512)));
  ASSERT_FALSE(old_write.empty());
  cluster.network.filter = {};
  ASSERT_OK(cluster.close_client());
  ASSERT_OK(cluster.open_client());
  // A root write of the previous session arrives late, at its server or at any other.
  std::optional<std::uint16_t> code;
  auto port = cluster.network.attach(9);
  for (Party server = 1; server <= 3; ++server) {
    code.reset();
    cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from == server && to == kClient && is_answer(message) && message[2] == 5)
        code = message[4];
      return true;
    };
    cluster.inject(kClient, server, old_write);
    cluster.run_until([&] { return code.has_value(); });
    EXPECT_EQ(*code, static_cast<int>(Errc::fenced));
  }
}

// This holds however long the reader takes to use the block.
TEST_P(EngineTest, ABlockIsHandedOverWhenItsRootWriteIsOnTheWay) {
  Cluster cluster(safe_volume(GetParam(), 4), 17);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(1, pattern(1, 1, 512)));
  unsigned root_writes = 0;
  cluster.network.observer = [&](Party from, Party, const Bytes& message) {
    root_writes += from == kClient && is_question(message) &&
                   message[2] == static_cast<std::uint8_t>(MessageType::write_root);
  };
  for (const BlockId block : {1u, 2u}) {  // one that exists, and one that does not
    root_writes = 0;
    std::optional<unsigned> before;
    cluster.engine().read(block, [&](const Result<Bytes>&) { before = root_writes; });
    cluster.run_until([&] { return before.has_value(); });
    EXPECT_EQ(before, cluster.servers()) << block;
  }
  cluster.network.observer = {};
}

// Accesses that want different things look the same: the same messages, of the same sizes and in
// the same order, from each party to each other party.
TEST_P(EngineTest, ReadsWritesAndAccessesToNothingLookAlike) {
  using Trace = std::map<std::pair<Party, Party>, std::vector<std::size_t>>;
  const auto trace_of = [](int kind) {
    Cluster cluster(safe_volume(GetParam(), 4), 16);
    EXPECT_TRUE(cluster.open_client());
    for (BlockId block = 0; block < 8; ++block)
      EXPECT_TRUE(cluster.write(block, pattern(block, 1, 512)));
    cluster.settle();
    Trace trace;
    cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
      trace[{from, to}].push_back(message.size());
      return true;
    };
    for (BlockId block = 0; block < 12; ++block) {
      if (kind == 0) {
        EXPECT_TRUE(cluster.read(block % 8));
      }
      if (kind == 1) {
        EXPECT_TRUE(cluster.write(block % 8, pattern(block, 2, 512)));
      }
      if (kind == 2) {
        EXPECT_TRUE(cluster.read(1000 + block));
      }
      if (kind == 3) {
        EXPECT_TRUE(cluster.read(3));
      }
      cluster.settle();
    }
    return trace;
  };
  const Trace reads = trace_of(0);
  EXPECT_GT(reads.at({kClient, 1}).size(), 2u * 12u);
  EXPECT_EQ(reads, trace_of(1));
  EXPECT_EQ(reads, trace_of(2));
  EXPECT_EQ(reads, trace_of(3));
}

}  // namespace
}  // namespace s3oram
