// Compares what each server sees (server_view.h) of one sequence of accesses with what it sees of
// another. This is a smoke test: it finds a forgotten mask, a reused mask, a reused leaf or a
// revealing number, and proves nothing more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "tests/client/server_view.h"
#include "tests/harness/volumes.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::Histogram;
using test::ServerView;

constexpr BlockId kBlocks = 24;
constexpr int kAccesses = 640;

/// Pearson's chi-square against the uniform distribution, in standard deviations from its mean.
template <class Counts>
double deviation(const Counts& counts) {
  double total = 0, chi = 0;
  for (const auto n : counts) total += static_cast<double>(n);
  const double wanted = total / static_cast<double>(counts.size());
  for (const auto n : counts) {
    const double off = static_cast<double>(n) - wanted;
    chi += off * off / wanted;
  }
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

/// Compares two samples with each other in the same way.
template <class Counts>
double difference(const Counts& one, const Counts& other) {
  double of_one = 0, of_other = 0, chi = 0;
  for (const auto n : one) of_one += static_cast<double>(n);
  for (const auto n : other) of_other += static_cast<double>(n);
  std::size_t cells = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto a = static_cast<double>(one[i]), b = static_cast<double>(other[i]);
    if (a + b == 0) continue;
    const double off = a * std::sqrt(of_other / of_one) - b * std::sqrt(of_one / of_other);
    chi += off * off / (a + b);
    ++cells;
  }
  const auto freedom = static_cast<double>(cells - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}
// The seed fixes the sequences, so a test fails every time or never. One seed in several thousand
// makes it fail by mere chance.
constexpr double kGenerous = 6;

struct Access {
  bool is_write;
  BlockId block;
  bool is_backup = false, discards = false;
};
struct Sequence {
  const char* name;
  std::uint64_t seed;
  Access (*access)(int);
};
const Sequence kSequences[] = {
    {"one hot block", 1,
     [](int) {
       return Access{false, 7};
     }},
    {"round robin", 2,
     [](int i) {
       return Access{i % 3 == 0, static_cast<BlockId>(i) % kBlocks};
     }},
    {"never written", 3,
     [](int i) {
       return Access{false, 1000 + static_cast<BlockId>(i)};
     }},
    {"one hot block, drawn otherwise", 5,
     [](int) {
       return Access{false, 7};
     }},
    {"backups and discards", 6,
     [](int i) {
       return Access{i % 3 == 0, static_cast<BlockId>(i) % kBlocks, true, i % 7 == 0};
     }},
};

VolumeParams seeded(VolumeParams params) {
  params.privacy = Privacy::computational;
  return params;
}
/// So large that an eviction takes several tiles.
VolumeParams tiled(VolumeParams params) {
  params.block_size = 8192;
  return params;
}
const struct {
  const char* name;
  VolumeParams params;
} kVolumes[] = {{"matrix", test::safe_volume(Evictor::matrix, 4)},
                {"matrixSeeded", seeded(test::safe_volume(Evictor::matrix, 4))},
                {"shuffle", test::safe_volume(Evictor::shuffle, 4)},
                {"shuffleTiled", tiled(test::safe_volume(Evictor::shuffle, 4))}};

using TreeVersions = std::map<Party, ServerView>;

/// Returns what every server sees of the sequence, with `at_once` accesses under way. If that is
/// one, the next access begins when nothing of the previous one is left.
TreeVersions watch(const VolumeParams& params, const Sequence& sequence, int accesses,
                   std::size_t at_once) {
  Cluster cluster(params, sequence.seed);
  Cluster::require(cluster.open_client());
  for (BlockId block = 0; block < kBlocks; ++block)
    Cluster::require(cluster.write(block, Bytes(params.block_size)));  // zeros do not help masks
  cluster.settle();
  const unsigned height = cluster.engine().status().height;
  TreeVersions tree_versions;
  for (Party spy = 1; spy <= cluster.servers(); ++spy)
    tree_versions.emplace(spy, ServerView{params, height});
  cluster.network.observer = [&](Party from, Party to, const Bytes& message) {
    to == kClient ? tree_versions.at(from).answered(message)
                  : tree_versions.at(to).received(from, message);
  };
  std::size_t under_way = 0;
  const auto end = [&](const auto& outcome) {
    EXPECT_TRUE(outcome) << outcome.error().message;
    --under_way;
  };
  for (int i = 0; i < accesses; ++i) {
    const auto [is_write, block, is_backup, discards] = sequence.access(i);
    if (discards) cluster.engine().discard((block + 5) % kBlocks);
    ++under_way;
    if (is_write && is_backup)
      cluster.engine().write_backup(block, Bytes(params.block_size), end);
    else if (is_write)
      cluster.engine().write(block, Bytes(params.block_size), end);
    else
      cluster.engine().read(block, end);
    cluster.run_until([&] { return under_way < at_once; });
    if (at_once == 1) cluster.settle();
  }
  cluster.settle();
  cluster.network.observer = nullptr;
  EXPECT_EQ(cluster.engine().status().height, height);
  for (auto& [spy, tree_version] : tree_versions) tree_version.keeps(cluster.disk(spy).image());
  return tree_versions;
}

class Shares : public testing::TestWithParam<std::tuple<int, Party>> {
 protected:
  static const VolumeParams& params() { return kVolumes[std::get<0>(GetParam())].params; }
  static Party spy() { return std::get<1>(GetParam()); }
  /// The views of the spy, one for each sequence.
  static std::vector<const ServerView*> all_tree_versions() {
    static std::map<int, std::vector<TreeVersions>> watched;
    return of_spy(watched[std::get<0>(GetParam())], kSequences, kAccesses, 1);
  }
  static std::vector<const ServerView*> of_spy(std::vector<TreeVersions>& watched,
                                               std::span<const Sequence> sequences, int accesses,
                                               std::size_t at_once) {
    if (watched.empty())
      for (const Sequence& each : sequences)
        watched.push_back(watch(params(), each, accesses, at_once));
    std::vector<const ServerView*> tree_versions;
    for (const TreeVersions& each : watched) tree_versions.push_back(&each.at(spy()));
    return tree_versions;
  }
};

TEST(SharesStatistic, NoticesWhatIsNotUniform) {
  Histogram flat;
  flat.fill(1000);
  EXPECT_LT(deviation(flat), kGenerous);
  Histogram other = flat;
  flat[0] += 1000;  // one byte of 256 left unmasked
  EXPECT_GT(deviation(flat), kGenerous);
  EXPECT_LT(difference(other, other), kGenerous);
  flat[0] += 1000;
  EXPECT_GT(difference(flat, other), kGenerous);
}

TEST_P(Shares, MessagesComeInTheSameOrderSizesAndNumbersWhateverIsAccessed) {
  const auto tree_versions = all_tree_versions();
  EXPECT_GT(tree_versions[0]->shape.at(kClient).size(), 2u * kAccesses);
  EXPECT_GT(tree_versions[0]->numbers.at(kClient).size(), 10u * kAccesses);
  for (const ServerView* each : tree_versions) {
    EXPECT_TRUE(each->shape == tree_versions[0]->shape);
    EXPECT_TRUE(each->numbers == tree_versions[0]->numbers);
  }
}

// Both sequences run with the same network seed, so that the network treats them alike.
TEST_P(Shares, SoTheyDoWhileOthersAreUnderWay) {
  const Sequence sequences[] = {{"blocks in turn", 4,
                                 [](int i) {
                                   return Access{false, static_cast<BlockId>(i) % 16};
                                 }},
                                {"far from each other", 4,
                                 [](int i) {
                                   return Access{false, static_cast<BlockId>(i) * 11 % kBlocks};
                                 }},
                                {"never written", 4, [](int i) {
                                   return Access{false, 1000 + static_cast<BlockId>(i)};
                                 }}};
  static std::map<int, std::vector<TreeVersions>> watched;
  const auto tree_versions = of_spy(watched[std::get<0>(GetParam())], sequences, 100, 4);
  for (std::size_t i = 0; i < tree_versions.size(); ++i) {
    EXPECT_TRUE(tree_versions[i]->shape == tree_versions[0]->shape) << sequences[i].name;
    EXPECT_TRUE(tree_versions[i]->numbers == tree_versions[0]->numbers) << sequences[i].name;
  }
}

TEST_P(Shares, BytesAreUniformAndNoMaskIsUsedTwice) {
  const auto tree_versions = all_tree_versions();
  for (std::size_t i = 0; i < tree_versions.size(); ++i)
    for (const auto& [what, seen] : tree_versions[i]->bytes) {
      EXPECT_LT(deviation(seen), kGenerous) << what << ", " << kSequences[i].name;
      EXPECT_LT(difference(seen, tree_versions[0]->bytes.at(what)), kGenerous) << what;
      EXPECT_GT(seen[0], 10u) << what << ": enough for the statistic";
    }
  const auto seen = [&](const char* what) { return tree_versions[0]->bytes.contains(what); };
  EXPECT_TRUE(seen("what it stores"));
  EXPECT_TRUE(seen("what it computes") || seen("answer masks"))
      << "all but the aggregator have a mask";
  EXPECT_TRUE(seen("queries again") || seen("query seeds again"));
  EXPECT_TRUE(seen("writes again") || (seen("parts again") && seen("part seeds again")));
}

// A server that knows two of the three permutations knows nothing about the whole one. Nor does a
// query tell whether the newest write is wanted.
TEST_P(Shares, PermutationsAndQueriesAreUniform) {
  const bool shuffled = params().evictor == Evictor::shuffle;
  const auto tree_versions = all_tree_versions();
  for (std::size_t i = 0; i < tree_versions.size(); ++i) {
    const auto& seen = tree_versions[i]->outcomes;
    EXPECT_EQ(seen.contains("pi 2: that place modulo 8"), shuffled && spy() != 1);
    EXPECT_EQ(seen.contains("all that is known: that place modulo 8"), shuffled);
    for (const auto& [what, counts] : seen) {
      EXPECT_LT(deviation(counts), kGenerous) << what << ", " << kSequences[i].name;
      EXPECT_GT(counts[0], 5u) << "enough for the statistic";
      EXPECT_LT(difference(counts, tree_versions[0]->outcomes.at(what)), kGenerous) << what;
    }
  }
}

TEST_P(Shares, LeavesAreUniform) {
  for (const ServerView* tree_version : all_tree_versions()) {
    ASSERT_EQ(tree_version->leaves.size(), static_cast<std::size_t>(kAccesses));
    std::vector<std::uint64_t> counts(tree_version->leaves_of_tree());
    for (const Leaf leaf : tree_version->leaves) {
      ASSERT_LT(leaf, counts.size());
      ++counts[leaf];
    }
    EXPECT_GE(kAccesses / counts.size(), 10u) << "enough for the statistic";
    EXPECT_LT(deviation(counts), kGenerous);
  }
}

// Each access gives its block a fresh leaf. The leaves of one block's accesses tell nothing about
// each other, and neither do those of accesses that are a round, or an eviction, apart.
TEST_P(Shares, LeavesOfLaterAccessesTellNothing) {
  for (const ServerView* tree_version : all_tree_versions()) {
    for (const std::size_t apart : {1u, 2u, 3u, 4u, 5u, 8u, 24u, 48u}) {
      std::vector<std::uint64_t> counts(tree_version->leaves_of_tree());
      for (std::size_t i = apart; i < tree_version->leaves.size(); ++i)
        ++counts[tree_version->leaves[i] ^ tree_version->leaves[i - apart]];
      EXPECT_LT(deviation(counts), kGenerous) << apart << " apart";
    }
  }
}

// Everything is drawn again, so nothing that all sequences share (such as numbers) reveals it.
TEST_P(Shares, NothingDrawnFollowsFromPublicNumbers) {
  const auto tree_versions = all_tree_versions();
  for (std::size_t i = 0; i < tree_versions.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::vector<std::uint64_t> leaves(tree_versions[0]->leaves_of_tree());
      for (std::size_t at = 0; at < tree_versions[i]->leaves.size(); ++at)
        ++leaves[tree_versions[i]->leaves[at] ^ tree_versions[j]->leaves[at]];
      EXPECT_LT(deviation(leaves), kGenerous) << "leaves";
      for (const auto& [what, seeds] : tree_versions[i]->drawn_seeds) {
        Histogram sums{};
        const auto& others = tree_versions[j]->drawn_seeds.at(what);
        ASSERT_EQ(seeds.size(), others.size());
        for (std::size_t at = 0; at < seeds.size(); ++at)
          for (std::size_t k = 0; k < seeds[at].size(); ++k) ++sums[seeds[at][k] ^ others[at][k]];
        EXPECT_LT(deviation(sums), kGenerous) << what;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Servers, Shares,
                         testing::Combine(testing::Range(0, static_cast<int>(std::size(kVolumes))),
                                          testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           return fmt::format("{}{}", kVolumes[std::get<0>(test.param)].name,
                                              std::get<1>(test.param));
                         });

}  // namespace
}  // namespace s3oram
