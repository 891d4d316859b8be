// A mirror in use, whose servers go away, come back, or answer only some of the time.
#pragma once

#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram::test {

inline constexpr Duration kMostPause = std::chrono::seconds(3);
inline constexpr Duration kLong = std::chrono::minutes(2);

enum class Absence { killed, power_cut, cut_off, wiped };
inline constexpr Absence kAbsences[] = {Absence::killed, Absence::power_cut, Absence::cut_off,
                                        Absence::wiped};

class MirrorInUse : public FilledVolume {
 protected:
  Standing standing(Party server) {
    return cluster_.engine().status().servers[server - 1u].standing;
  }
  bool all_in_step() {
    return std::ranges::all_of(cluster_.engine().status().servers, [](const auto& server) {
      return server.standing == Standing::in_step;
    });
  }
  /// Returns all absences for one volume, and one of them for each server of the other volumes.
  std::vector<Absence> absences_of(Party server) const {
    if (cluster_.servers() == 3u) return {std::begin(kAbsences), std::end(kAbsences)};
    return {kAbsences[(server - 1u) % std::size(kAbsences)]};
  }
  void await(const std::function<bool()>& holds) {
    const Duration until = cluster_.clock.now() + kLong;
    cluster_.run_until([&] { return holds() || cluster_.clock.now() > until; });
    ASSERT_TRUE(holds());
  }
  void go_away(Party server, Absence how) {
    if (how == Absence::cut_off)
      cluster_.network.filter = [server](Party from, Party to, const Bytes&) {
        return from != server && to != server;
      };
    else if (how == Absence::power_cut)
      cluster_.cut(server);
    else
      cluster_.kill(server);
    if (how == Absence::wiped) cluster_.lose(server);
  }
  void come_back(Party server) {
    cluster_.network.filter = {};
    // The server's power may be cut while it starts.
    if (!cluster_.runs(server)) static_cast<void>(cluster_.try_start_server(server));
  }
  /// Writes and reads all blocks, several at a time. Returns the longest time that one took.
  Duration work() {
    Duration longest{};
    std::size_t under_way = 0;
    const auto ended = [&](Duration begun) {
      longest = std::max(longest, cluster_.clock.now() - begun);
      --under_way;
    };
    for (BlockId block = 0; block < kBlocks; ++block) {
      const Duration begun = cluster_.clock.now();
      ++under_way;
      const auto generation = ++generation_;
      newest_[block] = generation;
      cluster_.engine().write(block, pattern(block, generation, kBlockSize),
                              [&, begun](const Status& status) {
                                EXPECT_TRUE(status);
                                ended(begun);
                              });
      cluster_.run_until([&] { return under_way < 4; });
    }
    cluster_.run_until([&] { return under_way == 0; });
    for (const auto& [block, generation] : newest_) {
      const Duration begun = cluster_.clock.now();
      const auto content = cluster_.read(block);
      EXPECT_EQ(content.value_or(Bytes()), pattern(block, generation, kBlockSize)) << block;
      longest = std::max(longest, cluster_.clock.now() - begun);
    }
    return longest;
  }
  /// Begins to write this many blocks. Returns the number of writes that have not ended yet.
  std::shared_ptr<const std::size_t> begin_writes(BlockId blocks) {
    const auto under_way = std::make_shared<std::size_t>(blocks);
    for (BlockId block = 0; block < blocks; ++block) {
      newest_[block] = ++generation_;
      cluster_.engine().write(block, pattern(block, generation_, kBlockSize),
                              [under_way](const Status& status) {
                                EXPECT_TRUE(status);
                                --*under_way;
                              });
    }
    return under_way;
  }
  /// Asks each server how much it has sent, as a daemon does each second, and waits for no answer.
  void ask_for_traffic() {
    spawn(cluster_.context.get_executor(), [](Engine& engine) -> Task<void> {
      static_cast<void>(co_await engine.server_traffic());
    }(cluster_.engine()));
  }
  /// Writes a block now and then, for this long. Returns the longest time that one write took.
  Duration longest_of_writes(Duration time, Duration between = std::chrono::milliseconds(100)) {
    Duration longest{};
    for (const Duration end = cluster_.clock.now() + time; cluster_.clock.now() < end;) {
      const Duration begun = cluster_.clock.now();
      EXPECT_NO_FATAL_FAILURE(write(generation_ % kBlocks, generation_));
      ++generation_;
      longest = std::max(longest, cluster_.clock.now() - begun);
      const Duration next = cluster_.clock.now() + between;
      cluster_.run_until([&] { return cluster_.clock.now() >= next; });
    }
    return longest;
  }
  /// Makes sure that the next write begins no eviction.
  void begin_group() {
    const auto evictions = [&] { return cluster_.engine().status().evictions; };
    for (auto before = evictions(); evictions() == before;) {
      ASSERT_NO_FATAL_FAILURE(write(1, ++generation_));
      settle_evictions();
    }
  }
  /// Returns the header of the answer, followed by an error instead of the content.
  static Bytes refusal_of(const Bytes& answer) {
    constexpr std::string_view kWords = "it does not work";
    Bytes refusal(answer.begin(), answer.begin() + Rpc::kHeaderSize);
    refusal[4] = static_cast<std::uint8_t>(Errc::failed);
    refusal.insert(refusal.end(), kWords.begin(), kWords.end());
    return refusal;
  }
  void expect_equal_replicas() {
    settle_evictions();
    expect_equal_buckets();
  }
  void expect_equal_buckets() {
    const auto first = buckets_of(1);
    for (Party server = 2; server <= cluster_.servers(); ++server)
      EXPECT_EQ(buckets_of(server), first) << "server " << +server;
  }

  /// Returns a block that lies below the root, and its place. The client does not run.
  Position one_in_the_tree(BlockId& block) {
    auto state = ClientState::open(cluster_.database(), cluster_.disk(kClient));
    Cluster::require(state);
    const auto loaded = state->load(cluster_.params());
    Cluster::require(loaded);
    for (block = 0; block < kBlocks; ++block)
      if (const Position found = loaded->positions.get(block);
          found.kind == Position::Kind::tree && found.level > 0)
        return found;
    throw std::runtime_error("all blocks lie in the root");
  }
  /// A server's disk damages its copy of a slot.
  void rot(Party server, BucketIndex bucket, std::uint16_t slot) {
    cluster_.stop_server(server);
    {
      const auto control = Control::open("control.db", cluster_.disk(server));
      Cluster::require(control);
      const auto ref = control->bucket(bucket, control->tree_version());
      Cluster::require(ref);
      const VolumeParams& params = cluster_.params();
      const std::size_t at = params.root_buffer_slots() +
                             std::size_t{ref->bucket_version - 1} * params.bucket_size + slot;
      cluster_.disk(server).rot("slots", at * (params.slot_size() + BucketVersion::kTrailer) + 100,
                                4);
    }
    cluster_.start_server(server);
  }

  std::uint64_t generation_ = 100;
};

}  // namespace s3oram::test
