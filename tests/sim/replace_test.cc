// Another machine takes a server's place while the volume is in use, in all schemes. Nothing is
// lost, whatever was under way, and the new server has everything that the previous one had.
#include <set>

#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

constexpr Duration kLong = std::chrono::minutes(5);

class ReplaceTest : public test::FilledVolume {
 protected:
  using Untold = std::vector<Party>;

  void TearDown() override { cluster_.end(); }  // a client that died may still end its work

  void await(const std::function<bool()>& holds) {
    const Duration until = cluster_.clock.now() + kLong;
    cluster_.run_until([&] { return holds() || cluster_.clock.now() > until; });
    ASSERT_TRUE(holds());
  }
  bool in_step(Party server) {
    return cluster_.engine().status().servers[server - 1u].standing == Standing::in_step;
  }
  /// Begins to replace the server; at the exchange the previous machine is gone for good.
  void begin_to_replace(Party server) {
    replaced_.reset();
    exchanged_ = false;
    VolumeEngine::Replacement replacement{server,
                                          [this, server]() -> Status {
                                            cluster_.kill(server);
                                            cluster_.lose(server);
                                            exchanged_ = true;
                                            return {};
                                          },
                                          "1=127.0.0.1:1,key"};
    spawn(cluster_.context.get_executor(),
          [](Engine& engine, VolumeEngine::Replacement what,
             std::optional<Result<Untold>>& out) -> Task<void> {
            auto replaced = co_await engine.replace(std::move(what));
            out.emplace(std::move(replaced));
          }(cluster_.engine(), std::move(replacement), replaced_));
  }
  /// Waits until the new server is in its place, with all its shares.
  void end_replacing(Party server) {
    ASSERT_NO_FATAL_FAILURE(await([&] { return exchanged_; }));
    cluster_.start_server(server);
    ASSERT_NO_FATAL_FAILURE(await([&] { return replaced_.has_value(); }));
    ASSERT_OK(*replaced_);
    const auto healed = cluster_.run(cluster_.engine().scrub({server}));
    ASSERT_OK(healed);
    EXPECT_EQ(healed->lost, 0u);
    ASSERT_NO_FATAL_FAILURE(await([&] { return in_step(server); }));
  }
  void begin_writes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const BlockId block = next_++ % kBlocks;
      newest_[block] = ++generation_;
      ++under_way_;
      cluster_.engine().write(block, pattern(block, generation_, test::kBlockSize),
                              [this](const Status& status) {
                                EXPECT_TRUE(status);
                                --under_way_;
                              });
    }
  }
  void steps(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) cluster_.step();
  }

  std::optional<Result<Untold>> replaced_;
  bool exchanged_ = false;
  std::size_t under_way_ = 0;
  BlockId next_ = 0;
  std::uint64_t generation_ = 100;
};
S3O_WITH_EACH_SCHEME(ReplaceTest);

TEST_P(ReplaceTest, WhateverIsUnderWay) {
  ASSERT_NO_FATAL_FAILURE(fill());
  unsigned round = 0;
  for (const std::size_t progress : {0u, 40u, 90u, 150u, 230u, 330u, 480u, 700u}) {
    const auto server = static_cast<Party>(1 + round++ % cluster_.servers());
    SCOPED_TRACE(fmt::format("server {}, after {} steps", server, progress));
    begin_writes(6);
    steps(progress);
    begin_to_replace(server);
    begin_writes(3);
    ASSERT_NO_FATAL_FAILURE(end_replacing(server));
    ASSERT_NO_FATAL_FAILURE(await([&] { return under_way_ == 0; }));
    ASSERT_EQ(cluster_.engine().status().failure, "");
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
  settle_evictions();
  for (Party server = 1; server <= cluster_.servers(); ++server) buckets_of(server);  // are whole
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// The servers of a simulation take no addresses. Those that do not know the new one are named.
TEST_P(ReplaceTest, NamesThoseThatAreNotTold) {
  ASSERT_NO_FATAL_FAILURE(fill());
  begin_to_replace(2);
  ASSERT_NO_FATAL_FAILURE(end_replacing(2));
  EXPECT_EQ((*replaced_)->size(), cluster_.servers() - 1u);
  check_contents();
}

// The client dies while the new server is told of the volume, or is sent what it lacks.
TEST_P(ReplaceTest, GoesOnAfterTheClientsDeath) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const std::size_t progress : {0u, 30u, 120u, 400u}) {
    SCOPED_TRACE(fmt::format("after {} steps", progress));
    ASSERT_OK(cluster_.commit());
    begin_to_replace(1);
    ASSERT_NO_FATAL_FAILURE(await([&] { return exchanged_; }));
    cluster_.start_server(1);
    steps(progress);
    cluster_.kill_client();
    cluster_.settle();
    // The steps of `server replace` for a vault that is not mounted.
    if (!cluster_.open_client()) {
      cluster_.kill_client();
      ASSERT_OK(cluster_.reenrol({1}));
      ASSERT_OK(cluster_.open_client());
    }
    ASSERT_OK(cluster_.run(cluster_.engine().scrub({1})));
    ASSERT_NO_FATAL_FAILURE(await([&] { return in_step(1); }));
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
  settle_evictions();
  buckets_of(1);  // is whole
  ASSERT_OK(cluster_.close_client());
  go_on();
}

class ReplaceMirror : public ReplaceTest {};
INSTANTIATE_TEST_SUITE_P(Volume, ReplaceMirror,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3})),
                         [](const auto&) { return std::string("T1L3"); });

// Nothing waits for the new server, and a server that is needed is not given up.
TEST_P(ReplaceMirror, PausesNobodyAndKeepsEnough) {
  ASSERT_NO_FATAL_FAILURE(fill());
  begin_to_replace(2);
  ASSERT_NO_FATAL_FAILURE(await([&] { return exchanged_; }));
  for (BlockId block = 0; block < kBlocks; ++block) {
    const Duration begun = cluster_.clock.now();
    ASSERT_NO_FATAL_FAILURE(write(block, ++generation_));
    EXPECT_LT(cluster_.clock.now() - begun, std::chrono::seconds(1));
  }
  begin_to_replace(1);  // server 2 is away
  ASSERT_NO_FATAL_FAILURE(await([&] { return replaced_.has_value(); }));
  EXPECT_FALSE(exchanged_);
  ASSERT_FALSE(*replaced_);
  EXPECT_EQ(replaced_->error().code, Errc::unreachable);
  cluster_.start_server(2);
  ASSERT_NO_FATAL_FAILURE(await([&] { return in_step(2); }));
  check_contents();
  settle_evictions();
  const auto first = buckets_of(1);
  EXPECT_EQ(buckets_of(2), first);
}

}  // namespace
}  // namespace s3oram
