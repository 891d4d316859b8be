// The cut matrix takes every step that parties persist (or handle, if nothing is persisted), and
// every subset of the parties. It cuts the power of the subset right after the step, and that of
// the others right before it. Then it cuts everything and starts it again. Whatever was committed
// is there, all parties agree on the tree version, and accesses and evictions work. The same holds
// if the client's disk is lost as well, and its state is rebuilt from the servers: then everything
// that was acknowledged is there, committed or not.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <bit>
#include <cstdlib>
#include <random>
#include <set>

#include "serverd/oram/store_database.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"
#include "tests/sim/coverage.h"
#include "tests/sim/ledger.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::Coverage;

enum class During { opening, access, eviction, discard, growth };

struct MatrixStep {
  During during;
  const char* name;  // as announced to the disk; or a name for the message below
  bool of_the_client = false;
  MessageType message = {};  // instead of a step: cut before it is handled or after its answer
};

const MatrixStep kSteps[] = {
    {During::opening, "session", true},
    {During::opening, "session"},
    {During::opening, "forget-sessions", true},
    {During::access, "intent", true},
    {During::access, "slots"},
    {During::access, "commit", true},
    {During::eviction, "attempt"},
    {During::eviction, "slots"},
    {During::eviction, "prepared"},
    {During::eviction, "mark", false, MessageType::mark_prepared},
    {During::eviction, "decide", true},
    {During::eviction, "flip"},
    {During::eviction, "release", false, MessageType::release},
    {During::discard, "discard"},
    {During::growth, "reserve", false, MessageType::reserve},
    {During::growth, "attempt"},
    {During::growth, "slots"},
    {During::growth, "prepared"},
    {During::growth, "decide", true},
    {During::growth, "flip"},
    {During::growth, "release", false, MessageType::release},
};

std::string title(const MatrixStep& step) {
  constexpr const char* kDuring[] = {"opening", "access", "eviction", "discard", "growth"};
  return fmt::format("{} {} {}", kDuring[static_cast<int>(step.during)],
                     step.of_the_client ? "client" : "server", step.name);
}

constexpr std::uint16_t kEvictEvery = 2;
constexpr std::size_t kBlockSize = 512;

/// One cell: a cluster that runs up to the step, is cut there, and must recover.
class Cell {
 public:
  Cell(const VolumeParams& params, const MatrixStep& step, Coverage::Subset persisted,
       std::uint64_t seed, bool client_is_lost)
      : step_(step),
        persisted_(persisted),
        client_is_lost_(client_is_lost),
        cluster_(params, seed),
        ledger_(kBlockSize) {
    cluster_.on_step = [this](Party party, std::string_view name, bool done) {
      seen_attempt_[party] |= name == "attempt" && done;
      if (step_.message != MessageType{} || name != step_.name) return;
      // Root writes sync `slots` too.
      if (is_eviction() && name == "slots" && !seen_attempt_[party]) return;
      at_the_step(party, done);
    };
    cluster_.network.on_arrival = [this](Party from, Party to, const Bytes& message) {
      if (from == kClient && is_question(message) && is_the_steps(message)) at_the_step(to, false);
    };
    cluster_.network.observer = [this](Party from, Party to, const Bytes& message) {
      if (to == kClient && is_answer(message) && is_the_steps(message)) at_the_step(from, true);
    };
  }

  void run() {
    ASSERT_NO_FATAL_FAILURE(prepare());
    armed_ = true;
    begin();
    cluster_.run_until([&] { return reached_.size() == participants() || HasFailure(); });
    armed_ = false;
    for (Party party = kClient; party <= cluster_.servers(); ++party) cluster_.cut(party);
    if (client_is_lost_)
      ledger_.lost();
    else
      ledger_.crashed();
    start_all();
    ASSERT_NO_FATAL_FAILURE(check_all());
    // Accesses work, with evictions over every path that the cut may have left half done.
    const auto evictions = cluster_.engine().status().evictions;
    while (cluster_.engine().status().evictions < evictions + 6)
      ASSERT_NO_FATAL_FAILURE(write(next_++ % 12));
    ASSERT_OK(cluster_.commit());
    ASSERT_NO_FATAL_FAILURE(check_all());
    cluster_.settle();
    ASSERT_OK(cluster_.close_client());
    check_tree_versions();
  }

 private:
  static bool HasFailure() { return testing::Test::HasFailure(); }
  bool is_eviction() const {
    return step_.during == During::eviction || step_.during == During::growth;
  }
  std::size_t participants() const { return step_.of_the_client ? 1 : cluster_.servers(); }
  bool is_the_steps(const Bytes& message) const {
    return step_.message != MessageType{} && message[2] == static_cast<std::uint8_t>(step_.message);
  }

  void at_the_step(Party party, bool done) {
    if (!armed_ || (party == kClient) != step_.of_the_client || reached_.contains(party)) return;
    if (done != (persisted_ >> party & 1)) return;
    reached_.insert(party);
    cluster_.cut(party);
  }

  void write(BlockId block) {
    auto content = test::pattern(block, ++generation_, kBlockSize);
    const auto number = ledger_.wrote(block, content);
    ASSERT_OK(cluster_.write(block, std::move(content)));
    ledger_.acknowledged(block, number);
    cluster_.settle();  // accesses do not wait for evictions
  }
  void commit() {
    const auto covers = ledger_.snapshot();
    ASSERT_OK(cluster_.commit());
    ledger_.committed(covers);
  }
  /// Writes without waiting.
  void begin_write(BlockId block) {
    auto content = test::pattern(block, ++generation_, kBlockSize);
    const auto number = ledger_.wrote(block, content);
    cluster_.engine().write(block, std::move(content), [this, block, number](const Status& status) {
      if (status) ledger_.acknowledged(block, number);
    });
  }
  bool next_eviction_grows() {
    const auto status = cluster_.engine().status();
    return status.blocks + 1 + 2 * kEvictEvery > status.capacity;
  }

  /// Runs until shortly before the step, and commits everything.
  void prepare() {
    ASSERT_OK(cluster_.open_client());
    for (BlockId block = 0; block < 5; ++block) ASSERT_NO_FATAL_FAILURE(write(next_++));
    while (step_.during == During::growth && !next_eviction_grows())
      ASSERT_NO_FATAL_FAILURE(write(next_++));
    // Stops one access before the next eviction.
    cluster_.settle();
    while ((is_eviction() || step_.during == During::discard) &&
           accesses() % kEvictEvery != kEvictEvery - 1)
      ASSERT_NO_FATAL_FAILURE(write(step_.during == During::growth ? 0 : next_++));
    ASSERT_NO_FATAL_FAILURE(commit());
    height_ = cluster_.engine().status().height;
    if (step_.during == During::opening) {
      ASSERT_OK(cluster_.close_client());
    } else if (step_.during == During::discard) {
      ASSERT_NO_FATAL_FAILURE(prepare_everywhere());
    }
  }
  std::uint64_t accesses() { return cluster_.engine().status().accesses; }

  /// All servers have prepared an eviction, and the client does not know that it is decided.
  void prepare_everywhere() {
    std::set<Party> prepared;
    const auto then = cluster_.on_step;
    cluster_.on_step = [&](Party party, std::string_view name, bool done) {
      if (name == "prepared" && done) prepared.insert(party);
      if (party == kClient && name == "decide") cluster_.cut(kClient);
      then(party, name, done);
    };
    begin_write(next_++);
    cluster_.run_until([&] { return !cluster_.runs(kClient); });
    ASSERT_EQ(prepared.size(), cluster_.servers());
    cluster_.on_step = then;
    ledger_.crashed();
  }

  void begin() {
    if (step_.during == During::opening || step_.during == During::discard) {
      cluster_.begin_open_client([](const Status&) {});
      return;
    }
    begin_write(step_.during == During::growth || step_.during == During::eviction ? next_++ : 1);
    if (std::string_view(step_.name) == "commit") {
      cluster_.settle();
      auto covers = ledger_.snapshot();
      cluster_.engine().commit([this, covers](const Status& status) {
        if (status) ledger_.committed(covers);
      });
    }
  }

  void start_all() {
    for (Party server = 1; server <= cluster_.servers(); ++server)
      if (!cluster_.runs(server)) cluster_.start_server(server);
    if (client_is_lost_) {
      cluster_.lose_client();
      const auto rebuilt = cluster_.rebuild_client();
      ASSERT_OK(rebuilt);
      EXPECT_EQ(rebuilt->damaged, 0u);
    }
    ASSERT_OK(cluster_.open_client());
    const bool known = !client_is_lost_ || (!step_.of_the_client && believed());
    if (step_.during == During::growth && persisted_ != 0 && known && grows_when_persisted()) {
      EXPECT_EQ(cluster_.engine().status().height, height_ + 1);
    }
  }
  /// Returns whether a client that has lost everything considers the eviction decided, which needs
  /// the word of t + 1 servers. Before a release all of them had committed.
  bool believed() const {
    const auto servers = static_cast<unsigned>(persisted_) >> 1;
    return std::string_view(step_.name) != "flip" ||
           static_cast<unsigned>(std::popcount(servers)) > cluster_.params().scheme.threshold;
  }
  /// Returns whether the client has decided, if anybody has persisted the step.
  bool grows_when_persisted() const {
    const std::string_view name = step_.name;
    return name == "decide" || name == "flip" || name == "release";
  }

  void check_all() {
    for (BlockId block = 0; block < next_; ++block) {
      auto content = cluster_.read(block);
      ASSERT_OK(content);
      EXPECT_TRUE(ledger_.may_be(block, *content)) << "block " << block;
      ledger_.is(block, *content);
    }
  }

  void check_tree_versions() {
    auto state = ClientState::open(cluster_.database(), cluster_.disk(kClient));
    ASSERT_OK(state);
    const auto loaded = state->load();
    ASSERT_OK(loaded);
    for (Party server = 1; server <= cluster_.servers(); ++server) {
      cluster_.stop_server(server);
      const auto control = Control::open("control.db", cluster_.disk(server));
      ASSERT_OK(control);
      EXPECT_EQ(control->tree_version(), loaded->tree.tree_version);
      EXPECT_EQ(control->height(), loaded->tree.height);
      EXPECT_FALSE(control->prepared());
    }
  }

  const MatrixStep& step_;
  const Coverage::Subset persisted_;
  const bool client_is_lost_;
  Cluster cluster_;
  test::Ledger ledger_;
  std::map<Party, bool> seen_attempt_;
  std::set<Party> reached_;
  bool armed_ = false;
  BlockId next_ = 0;
  std::uint64_t generation_ = 0;
  unsigned height_ = 0;
};

const VolumeParams kVolumes[] = {
    test::safe_volume(Evictor::matrix, kEvictEvery),
    test::safe_volume(Evictor::shuffle, kEvictEvery),
    test::safe_volume(Evictor::selection, kEvictEvery),
    test::matrix_volume(min_bucket_size(kEvictEvery), kEvictEvery, {2, 5})};

class CutMatrix : public testing::TestWithParam<std::tuple<MatrixStep, VolumeParams>> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }

  static const MatrixStep& step() { return std::get<0>(GetParam()); }
  static const VolumeParams& volume() { return std::get<1>(GetParam()); }
  /// Returns all subsets for three servers with the evictor of new volumes. With another volume, or
  /// with the client lost, returns only some, unless S3O_ALL_SUBSETS is set.
  static std::set<Coverage::Subset> subsets(bool client_is_lost) {
    std::set<Coverage::Subset> all{0, 1};
    if (step().of_the_client) return all;
    const unsigned servers = volume().scheme.servers;
    const Coverage::Subset whole = (1u << servers) - 1;
    all = {0, whole << 1};
    const bool usual = volume().evictor == Evictor::shuffle && !client_is_lost;
    if (usual || std::getenv("S3O_ALL_SUBSETS")) {
      for (Coverage::Subset subset = 0; subset <= whole; ++subset) all.insert(subset << 1);
    } else {
      const std::size_t some = client_is_lost || servers == 2 ? 3 : 4;
      for (std::mt19937 random(7); all.size() < some;) all.insert(random() % (whole + 1) << 1);
    }
    return all;
  }

  void cut_each(bool client_is_lost) {
    if (step().message == MessageType::mark_prepared && volume().security != Security::malicious)
      return;  // keeps no marks
    Coverage coverage;
    for (const Coverage::Subset subset : subsets(client_is_lost))
      ASSERT_NO_FATAL_FAILURE(cut(subset, coverage, client_is_lost));
    std::printf("%s", coverage.table(volume().scheme.servers + 1).c_str());
    for (const Coverage::Subset subset : subsets(client_is_lost))
      EXPECT_EQ(coverage.count(title(step()), subset), 1u);
  }
  void cut(Coverage::Subset persisted, Coverage& coverage, bool client_is_lost) {
    SCOPED_TRACE(fmt::format("{}, persisted by {}", title(step()), test::name_of(persisted)));
    Cell cell(volume(), step(), persisted, 1000 + persisted, client_is_lost);
    ASSERT_NO_FATAL_FAILURE(cell.run());
    coverage.reached(title(step()), persisted);
  }
};

TEST_P(CutMatrix, AnySubsetOfTheParties) { cut_each(false); }
TEST_P(CutMatrix, AnySubsetAndTheClientIsLost) { cut_each(true); }

std::string cell_name(const testing::TestParamInfo<CutMatrix::ParamType>& test) {
  const auto& [step, volume] = test.param;
  std::string name =
      fmt::format("{}{}{}", title(step), name_of(kEvictors, volume.evictor), volume.scheme.servers);
  std::erase_if(name, [](char c) { return !std::isalnum(c); });
  return name;
}
INSTANTIATE_TEST_SUITE_P(Steps, CutMatrix,
                         testing::Combine(testing::ValuesIn(kSteps), testing::ValuesIn(kVolumes)),
                         cell_name);

}  // namespace
}  // namespace s3oram
