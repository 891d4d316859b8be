// What each server sees: all that client and peers send it. A smoke test: it finds a forgotten
// mask, a reused one or a reused leaf, and proves nothing beyond.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;

constexpr BlockId kBlocks = 24;
constexpr int kAccesses = 640;
constexpr std::size_t kBins = 8;

using Histogram = std::array<std::uint64_t, 256>;
using Bins = std::array<std::uint64_t, kBins * kBins>;

void count(View bytes, Histogram& histogram) {
  for (const std::uint8_t byte : bytes) ++histogram[byte];
}

/// Everything that a server receives during the accesses.
struct Notes {
  std::map<Party, std::vector<std::pair<MessageType, std::size_t>>> shape;  // by sender: type, size
  std::vector<Leaf> leaves;
  unsigned height = 0;
  /// Bytes that should be uniform, by what they are. "... again": the sum with what the same party
  /// sent before, which is not uniform where a mask is used twice.
  std::map<std::string, Histogram> bytes;
  /// Where the slots of a path go, roughly, by what the server knows.
  std::map<std::string, Bins> permutations;

  void add(Party from, MessageType type, View body) {
    if (type == MessageType::retrieve) {
      const auto request = *decode<RetrieveRequest>(body);
      leaves.push_back(request.leaf);
      add(from, "queries", request.query);
      add(from, "query seeds", request.query_seed);
      if (request.sum) add(from, "answer masks", request.sum->mask);
    }
    if (type == MessageType::addend) add(from, "addends", decode<AddendRequest>(body)->addend);
    if (type == MessageType::write_root) {
      const auto request = *decode<WriteRootRequest>(body);
      add(from, "writes", request.share);
      for (const SharePart& part : request.parts) {
        add(from, "parts", part.content);
        add(from, "part seeds", part.seed);
        add(from, "part digests", part.digest);
      }
    }
    if (type == MessageType::relay) add(from, "parts", decode<RelayRequest>(body)->part);
    if (type == MessageType::subshare) {
      const auto request = *decode<SubshareRequest>(body);
      add(from, fmt::format("subshares {}", request.step), request.share);
    }
    if (type == MessageType::prepare) add_orders(from, decode<PrepareRequest>(body)->orders);
  }

 private:
  template <class Array>
  void add(Party from, const std::string& what, const std::optional<Array>& sent) {
    if (sent) add(from, what, View(*sent));
  }
  void add(Party from, const std::string& what, View sent) {
    if (sent.empty()) return;
    count(sent, bytes[what]);
    Bytes& before = last_[{from, what}];
    before.resize(sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) before[i] ^= sent[i];
    if (repeated_.contains({from, what})) count(before, bytes[what + " again"]);
    repeated_.insert({from, what});
    before.assign(sent.begin(), sent.end());
  }

  void add_orders(Party from, View sent) {
    const auto orders = decode<ShuffleOrders>(sent);
    if (!orders) return add(from, "matrices", sent);
    Bytes seeds;
    for (const auto& seed : {orders->first, orders->third, orders->mask_first, orders->mask_second,
                             orders->line_of_1, orders->line_of_3})
      if (seed) seeds.insert(seeds.end(), seed->begin(), seed->end());
    add(from, "seeds", seeds);
    std::vector<Permutation> known;  // of the three, in their order
    if (orders->first) known.push_back(drawn(*orders->first, "pi 1"));
    if (!orders->second.empty()) {
      known.emplace_back(orders->second.begin(), orders->second.end());
      note(known.back(), "pi 2");
    }
    if (orders->third) known.push_back(drawn(*orders->third, "pi 3"));
    ASSERT_EQ(known.size(), 2u);
    note(then(known[0], known[1]), "all that is known");
  }

  Permutation drawn(const Seed& seed, std::string_view purpose) const {
    Prg prg(seed, as_view(purpose));
    return random_permutation(path_slots, prg);
  }

  void note(const Permutation& to, const std::string& what) {
    const auto bin = [&](std::size_t at) { return at * kBins / to.size(); };
    for (std::size_t from = 0; from < to.size(); ++from)
      ++permutations[what][bin(from) * kBins + bin(to[from])];
    // The place of the first write, live or not.
    ++permutations[what + ", first slot"][bin(to[0])];
  }

  std::map<std::pair<Party, std::string>, Bytes> last_;
  std::set<std::pair<Party, std::string>> repeated_;

 public:
  std::size_t path_slots = 0;
};

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

/// The same for two samples against each other.
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
// The seed fixes the sequences, so a test fails always or never; for one seed in some thousand by
// mere chance.
constexpr double kGenerous = 6;

struct Access {
  bool is_write;
  BlockId block;
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
};

VolumeParams seeded(VolumeParams params) {
  params.privacy = Privacy::computational;
  return params;
}
const VolumeParams kVolumes[] = {test::safe_volume(Evictor::matrix, 4),
                                 test::safe_volume(Evictor::shuffle, 4),
                                 seeded(test::safe_volume(Evictor::matrix, 4))};

using Views = std::map<Party, Notes>;

Views watch(const VolumeParams& params, const Sequence& sequence) {
  Cluster cluster(params, sequence.seed);
  Cluster::require(cluster.open_client());
  for (BlockId block = 0; block < kBlocks; ++block)
    Cluster::require(cluster.write(block, Bytes(params.block_size)));  // zeros: no help to masks
  cluster.settle();
  Views views;
  const unsigned height = cluster.engine().status().height;
  for (Party spy = 1; spy <= cluster.servers(); ++spy) {
    views[spy].height = height;
    views[spy].path_slots = PathSlots::evicted(params, 0, height).count();
  }
  cluster.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (to == kClient) return;
    const auto type = static_cast<MessageType>(message[2]);
    views[to].shape[from].emplace_back(type, message.size());
    if (is_question(message)) views[to].add(from, type, View(message).subspan(Rpc::kHeaderSize));
  };
  for (int i = 0; i < kAccesses; ++i) {
    const auto [is_write, block] = sequence.access(i);
    if (is_write)
      Cluster::require(cluster.write(block, Bytes(params.block_size)));
    else
      Cluster::require(cluster.read(block));
    cluster.settle();
  }
  EXPECT_EQ(cluster.engine().status().height, height);
  return views;
}

class Shares : public testing::TestWithParam<std::tuple<int, Party>> {
 protected:
  /// What the spy saw of each sequence.
  static std::vector<const Notes*> all_notes() {
    static std::map<int, std::vector<Views>> watched;
    const auto [volume, spy] = GetParam();
    auto& views = watched[volume];
    if (views.empty())
      for (const Sequence& sequence : kSequences)
        views.push_back(watch(kVolumes[volume], sequence));
    std::vector<const Notes*> notes;
    for (const Views& each : views) notes.push_back(&each.at(spy));
    return notes;
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

TEST_P(Shares, MessagesComeInTheSameOrderAndSizesWhateverIsAccessed) {
  const auto notes = all_notes();
  EXPECT_GT(notes[0]->shape.at(kClient).size(), 2u * kAccesses);
  for (const Notes* each : notes) EXPECT_TRUE(each->shape == notes[0]->shape);
}

TEST_P(Shares, BytesAreUniformAndNoMaskIsUsedTwice) {
  const auto notes = all_notes();
  for (std::size_t i = 0; i < notes.size(); ++i)
    for (const auto& [what, seen] : notes[i]->bytes) {
      EXPECT_LT(deviation(seen), kGenerous) << what << ", " << kSequences[i].name;
      EXPECT_LT(difference(seen, notes[0]->bytes.at(what)), kGenerous) << what;
      EXPECT_GT(seen[0], 10u) << what << ": enough for the statistic";
    }
  const auto seen = [&](const char* what) { return notes[0]->bytes.contains(what); };
  EXPECT_TRUE(seen("queries again") || seen("query seeds again"));
  EXPECT_TRUE(seen("writes again") || (seen("parts again") && seen("part seeds again")));
}

// Whoever knows two of the three permutations knows nothing of the whole.
TEST_P(Shares, PermutationsAreUniform) {
  const auto [volume, spy] = GetParam();
  const Evictor evictor = kVolumes[volume].evictor;
  const auto notes = all_notes();
  for (std::size_t i = 0; i < notes.size(); ++i) {
    const auto& seen = notes[i]->permutations;
    EXPECT_EQ(seen.contains("pi 2"), evictor == Evictor::shuffle && spy != 1);
    EXPECT_EQ(seen.contains("all that is known"), evictor == Evictor::shuffle);
    for (const auto& [what, bins] : seen) {
      const bool first = what.ends_with("first slot");
      const std::vector<std::uint64_t> counts(bins.begin(),
                                              bins.begin() + (first ? kBins : kBins * kBins));
      EXPECT_LT(deviation(counts), kGenerous) << what << ", " << kSequences[i].name;
      EXPECT_GT(counts[0], 5u) << "enough for the statistic";
      EXPECT_LT(difference(bins, notes[0]->permutations.at(what)), kGenerous) << what;
    }
  }
}

TEST_P(Shares, LeavesAreUniform) {
  for (const Notes* notes : all_notes()) {
    ASSERT_EQ(notes->leaves.size(), static_cast<std::size_t>(kAccesses));
    std::vector<std::uint64_t> counts(std::size_t{1} << notes->height);
    for (const Leaf leaf : notes->leaves) {
      ASSERT_LT(leaf, counts.size());
      ++counts[leaf];
    }
    EXPECT_GE(kAccesses / counts.size(), 10u) << "enough for the statistic";
    EXPECT_LT(deviation(counts), kGenerous);
  }
}

// Each access gives its block a fresh leaf: those of one block's accesses tell nothing of each
// other, and no more do those of accesses that lie a round, or an eviction, apart.
TEST_P(Shares, LeavesOfLaterAccessesTellNothing) {
  for (const Notes* notes : all_notes()) {
    for (const std::size_t apart : {1u, 2u, 3u, 4u, 5u, 8u, 24u, 48u}) {
      std::vector<std::uint64_t> counts(std::size_t{1} << notes->height);
      for (std::size_t i = apart; i < notes->leaves.size(); ++i)
        ++counts[notes->leaves[i] ^ notes->leaves[i - apart]];
      EXPECT_LT(deviation(counts), kGenerous) << apart << " apart";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Servers, Shares,
                         testing::Combine(testing::Range(0, static_cast<int>(std::size(kVolumes))),
                                          testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           const VolumeParams& params = kVolumes[std::get<0>(test.param)];
                           const bool seeds = params.privacy == Privacy::computational;
                           return fmt::format("{}{}{}", name_of(kEvictors, params.evictor),
                                              seeds ? "Seeded" : "", std::get<1>(test.param));
                         });

}  // namespace
}  // namespace s3oram
