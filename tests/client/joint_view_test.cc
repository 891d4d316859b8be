// Tests everything that the client sends to all servers together, over failed attempts, restarts,
// healing and growth. Every secret number in it must come from draws that are never sent
// themselves.
//
// Two runs share only the draws that are sent (session nonces and the names of attempts). So
// whatever both runs send follows from public numbers alone. Also, nothing that is drawn for one
// use is sent for another.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "oramcore/field/gf256.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/signed_hops.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::pattern;

constexpr BlockId kTwinBlocks = 24;

/// Draws of the size of a nonce or an attempt are the same in all runs; all others belong to this
/// run.
class TwinRandom final : public Random {
 public:
  explicit TwinRandom(std::uint8_t twin)
      : shown_(Seed{}, as_bytes("shown")), hidden_(Seed{twin}, as_bytes("hidden")) {}
  void fill(MutableByteSpan out) override {
    static_assert(sizeof(Nonce) == sizeof(Attempt));
    (out.size() == sizeof(Nonce) ? shown_ : hidden_).fill(out);
    if (out.size() > sizeof(Seed)) large.emplace(out.begin(), out.end());
  }
  std::set<Bytes> large;  // all draws that are larger than a seed

 private:
  Prg shown_, hidden_;
};

/// Everything that goes from the client to servers.
struct JointView {
  explicit JointView(const VolumeParams& volume) : params(volume) {}

  void saw(Party to, const Bytes& message);
  /// For a slot that is shared again, the slope of all three shares.
  std::set<Bytes> slopes() const { return slopes_; }

  VolumeParams params;
  std::map<std::string, std::set<Bytes>> secrets;                // by kind
  std::map<Bytes, std::set<std::string>> uses;                   // what each seed was used for
  std::map<std::pair<std::uint64_t, WriteNumber>, Leaf> leaves;  // by epoch and access
  std::map<MessageType, unsigned> questions;

 private:
  void add(const std::string& what, const std::string& use, ByteSpan bytes);
  void add(const std::string& what, const std::string& use, const std::optional<Seed>& seed) {
    if (seed) add(what, use, ByteSpan(*seed));
  }
  void add_orders(const PrepareRequest& request);
  void add_share(Party to, const HealSlotRequest& request);

  std::map<SlotAddress, std::map<Party, Bytes>> shares_;
  std::set<Bytes> slopes_;
};

void JointView::add(const std::string& what, const std::string& use, ByteSpan bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return;
  secrets[what].emplace(bytes.begin(), bytes.end());
  if (bytes.size() == sizeof(Seed))
    uses[Bytes(bytes.begin(), bytes.end())].insert(use + ", " + what);
}

void JointView::add_orders(const PrepareRequest& request) {
  const std::string use = fmt::format("attempt {}", fmt::join(request.id.attempt, " "));
  if (params.is_mirror()) {
    const auto orders = decode<SelectionOrders>(request.orders);
    ASSERT_TRUE(orders);
    add("matrix seed", use, orders->matrix_seed);
    add("matrix", use, orders->matrix);
    return add("layer mask", use, orders->mask);
  }
  const auto orders =
      params.evictor == Evictor::shuffle ? decode_any_shuffle_orders(request.orders) : std::nullopt;
  if (!orders) return add("matrices", use, request.orders);
  add("pi 1", use, orders->first);
  add("pi 3", use, orders->third);
  add("mask of the first hop", use, orders->mask_first);
  add("mask of the second hop", use, orders->mask_second);
  add("line of 1", use, orders->line_of_1);
  add("line of 3", use, orders->line_of_3);
  add("key 1", use, orders->check_1);
  add("key 2", use, orders->check_2);
  add("key 3", use, orders->check_3);
  add("audit mask", use, orders->audit_mask);
  Writer second;
  second(orders->second);
  if (!orders->second.empty()) add("pi 2", use, second.take());
}

void JointView::add_share(Party to, const HealSlotRequest& request) {
  auto& shares = shares_[request.at];
  shares[to] = Bytes(request.share.begin(), request.share.end());
  if (shares.size() < 3) return;
  // For shares s + a i, the first two give a, and the third says whether they lie on a line.
  Bytes slope(request.share.size());
  bool on_a_line = true;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    slope[i] = gf::mul(shares[1][i] ^ shares[2][i], gf::inverse(3));
    on_a_line &= (shares[1][i] ^ shares[3][i]) == gf::mul(2, slope[i]);
  }
  if (on_a_line) slopes_.insert(slope);
  shares.clear();
}

void JointView::saw(Party to, const Bytes& message) {
  const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
  const auto type = static_cast<MessageType>(message[2]);
  ++questions[type];
  if (type == MessageType::retrieve) {
    const auto request = decode<SharedRetrieveRequest>(body);
    const std::string use =
        request->sum ? fmt::format("retrieval {} {}", request->epoch, request->sum->request_id)
                     : fmt::format("retrieval {} {}", request->epoch, request->write_number);
    add("query", use, request->query);
    add("query seed", use, request->query_seed);
    if (request->sum) add("answer mask", use, request->sum->mask);
    leaves[{request->epoch, request->write_number}] = request->leaf;
  } else if (type == MessageType::write_root) {
    const auto request = decode<WriteRootRequest>(body);
    for (const SharePart& part : request->parts)
      add("part seed", fmt::format("access {}", request->access), part.seed);
  } else if (type == MessageType::prepare) {
    add_orders(*decode<PrepareRequest>(body));
  } else if (type == MessageType::contribute) {
    const auto request = decode<ContributeRequest>(body);
    for (const Seed& mask : request->masks)
      add("mending mask", fmt::format("mending {} {}", request->epoch, request->request_id),
          ByteSpan(mask));
  } else if (type == MessageType::digests) {
    secrets["digest seed"].emplace(decode<DigestsRequest>(body)->seed.begin(),
                                   decode<DigestsRequest>(body)->seed.end());
  } else if (type == MessageType::mark_prepared) {
    const auto request = decode<MarkPreparedRequest>(body);
    // It follows from the sealing key, which both runs have.
    uses[Bytes(request->key.begin(), request->key.end())].insert(
        fmt::format("marks {} {}", request->id.eviction, to));
  } else if (type == MessageType::certify) {
    const auto request = decode<CertifyRequest>(body);
    add("row seed", fmt::format("rows {}", fmt::join(request->id.attempt, " ")),
        ByteSpan(request->seed));
  } else if (type == MessageType::heal_slot && params.security == Security::malicious) {
    add_share(to, *decode<HealSlotRequest>(body));
  }
}

class JointViews : public testing::TestWithParam<VolumeParams> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }

  /// A volume's life with troubles of all kinds, as all servers see it.
  static JointView live(std::uint8_t twin, TwinRandom& random) {
    JointView view(GetParam());
    Cluster cluster(GetParam(), 100u + twin);
    cluster.client_random = &random;
    cluster.network.observer = [&](Party from, Party to, const Bytes& message) {
      if (from == kClient && is_question(message)) view.saw(to, message);
    };
    Cluster::require(cluster.open_client());
    write_all(cluster, 1);
    spoil_answers(cluster);
    restart(cluster, 2);
    damage(cluster, 2);
    write_all(cluster, 2);
    cluster.kill_client();
    Cluster::require(cluster.open_client());
    Cluster::require(cluster.run(cluster.engine().scrub({})));
    write_all(cluster, 3);
    cluster.settle();
    Cluster::require(cluster.close_client());
    cluster.network.observer = {};
    return view;
  }
  static void write_all(Cluster& cluster, std::uint64_t generation) {
    for (BlockId block = 0; block < kTwinBlocks; ++block)
      Cluster::require(
          cluster.write(block, pattern(block, generation, cluster.params().block_size)));
  }
  /// Some reads fail once, and some twice.
  static void spoil_answers(Cluster& cluster) {
    for (const unsigned times : {1u, 2u}) {
      unsigned lies = 0;
      cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
        const auto type = static_cast<MessageType>(message[2]);
        const bool answer = is_answer(message) && to == kClient && type == MessageType::retrieve &&
                            message.size() >= cluster.params().slot_size();
        if (!answer || lies == times) return true;
        ++lies;
        Bytes changed = message;
        changed[changed.size() - 30] ^= 4;
        cluster.network.deliver(from, to, changed);
        return false;
      };
      for (BlockId block = 0; block < 4; ++block) Cluster::require(cluster.read(block));
      EXPECT_EQ(lies, times);
    }
    cluster.network.filter = {};
  }
  /// Restarts a server in the middle of accesses and an eviction.
  static void restart(Cluster& cluster, Party server) {
    unsigned reads = kTwinBlocks;
    for (BlockId block = 0; block < kTwinBlocks; ++block)
      cluster.engine().read(block, [&](const auto&) { --reads; });
    for (int steps = 0; steps < 300; ++steps) cluster.step();
    cluster.kill_server(server);
    cluster.start_server(server);
    cluster.run_until([&] { return reads == 0; });
  }
  static void damage(Cluster& cluster, Party server) {
    cluster.settle();
    cluster.stop_server(server);
    const std::size_t stride = cluster.params().slot_size() + BucketVersion::kTrailer;
    const std::size_t size = cluster.disk(server).content(cluster.slots()).size();
    for (std::size_t at = cluster.params().root_buffer_slots() * stride; at < size; at += stride)
      cluster.disk(server).rot("slots", at + 40, 4);
    cluster.start_server(server);
  }
};

TEST_P(JointViews, NothingThatGoesOutFollowsFromWhatGoesOut) {
  TwinRandom one_random(1), other_random(2);
  const JointView one = live(1, one_random), other = live(2, other_random);
  for (const auto& [what, seen] : one.secrets) {
    const auto& also = other.secrets.at(what);
    std::vector<Bytes> common;
    std::ranges::set_intersection(seen, also, std::back_inserter(common));
    EXPECT_TRUE(common.empty()) << what << ": " << common.size() << " of " << seen.size();
  }
  std::size_t both = 0, equal = 0;
  for (const auto& [access, leaf] : one.leaves) {
    const auto found = other.leaves.find(access);
    if (found == other.leaves.end()) continue;
    ++both;
    equal += leaf == found->second;
  }
  EXPECT_GT(both, 80u);
  EXPECT_LT(2 * equal, both) << "paths follow from public numbers";
  // The run included everything that it should.
  for (const MessageType type :
       {MessageType::retrieve, MessageType::write_root, MessageType::prepare, MessageType::digests})
    EXPECT_TRUE(one.questions.contains(type)) << static_cast<int>(type);
  EXPECT_TRUE(one.questions.contains(MessageType::heal_slot) ||
              one.questions.contains(MessageType::contribute));
}

TEST_P(JointViews, WhatIsDrawnIsSentForOneUse) {
  TwinRandom random(3);
  const JointView view = live(3, random);
  for (const auto& [seed, uses] : view.uses)
    EXPECT_EQ(uses.size(), 1u) << fmt::format("{}", fmt::join(uses, "; "));
  // Without computational privacy no seed is sent.
  const bool seeds = GetParam().privacy == Privacy::computational;
  EXPECT_EQ(view.uses.size() > 20, seeds) << view.uses.size();
}

// A slot that is healed is shared again with masks that the client has drawn.
TEST_P(JointViews, HealingMasksAreDrawn) {
  if (GetParam().security != Security::malicious) return;
  TwinRandom random(4);
  const JointView view = live(4, random);
  ASSERT_FALSE(view.slopes().empty());
  for (const Bytes& slope : view.slopes()) EXPECT_TRUE(random.large.contains(slope));
}

VolumeParams with(VolumeParams params, Privacy privacy) {
  params.privacy = privacy;
  return params;
}
INSTANTIATE_TEST_SUITE_P(
    Volumes, JointViews,
    testing::Values(with(test::safe_volume(Evictor::shuffle, 2), Privacy::computational),
                    with(test::safe_volume(Evictor::matrix, 2), Privacy::computational),
                    with(test::safe_volume(Evictor::matrix, 2), Privacy::information_theoretic),
                    test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 2})),
    [](const auto& test) {
      std::string name = fmt::format("{}{}", name_of(kEvictors, test.param.evictor),
                                     name_of(kPrivacies, test.param.privacy));
      std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
      return name;
    });

}  // namespace
}  // namespace s3oram
