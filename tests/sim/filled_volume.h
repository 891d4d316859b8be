// Volumes of several kinds in use: their trees have grown, and their blocks have moved.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <map>
#include <string>

#include "serverd/oram/store_database.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram::test {

class FilledVolume : public testing::TestWithParam<VolumeParams> {
 protected:
  static constexpr BlockId kBlocks = 24;

  void SetUp() override { spdlog::set_level(spdlog::level::off); }

  void write(BlockId block, std::uint64_t generation) {
    ASSERT_OK(cluster_.write(block, pattern(block, generation, kBlockSize)));
    newest_[block] = generation;
  }
  /// A volume in use: its tree has grown, and all blocks have moved.
  void fill() {
    ASSERT_OK(cluster_.open_client());
    for (std::uint64_t generation = 1; generation <= 3; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block)
        ASSERT_NO_FATAL_FAILURE(write(block, generation));
    for (BlockId block = 0; block < kBlocks; block += 5) ASSERT_NO_FATAL_FAILURE(write(block, 4));
  }
  void check_contents() {
    for (const auto& [block, generation] : newest_) {
      auto content = cluster_.read(block);
      ASSERT_OK(content);
      ASSERT_EQ(*content, pattern(block, generation, kBlockSize)) << "block " << block;
    }
  }
  void go_on() {
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
    for (std::uint64_t generation = 10; generation < 12; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block)
        ASSERT_NO_FATAL_FAILURE(write(block, generation));
    ASSERT_NO_FATAL_FAILURE(check_contents());
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
    ASSERT_OK(cluster_.close_client());
    ASSERT_OK(cluster_.open_client());
    check_contents();
  }
  /// Calls change(share) for all intact slots on a server's disk, and puts them back as if the
  /// server had written them like that.
  void change_slots(Party server, const std::function<void(Bytes&)>& change) {
    cluster_.stop_server(server);
    const VolumeParams& params = cluster_.params();
    const std::size_t stride = params.slot_size() + BucketVersion::kTrailer;
    const std::size_t slots =
        cluster_.disk(server).content(cluster_.slots().string()).size() / stride;
    auto file = cluster_.disk(server).open(cluster_.slots());
    ASSERT_OK(file);
    BucketStore store(std::move(*file), owner_of(cluster_.volume(), server),
                      params.root_buffer_slots(), params.bucket_size, params.slot_size(), 0);
    for (std::size_t at = 0; at < slots; ++at) {
      const bool in_root_buffer = at < params.root_buffer_slots();
      const std::size_t behind = in_root_buffer ? at : at - params.root_buffer_slots();
      const auto bucket_version =
          in_root_buffer ? kRootBuffer
                         : static_cast<BucketVersionNumber>(1 + behind / params.bucket_size);
      const std::size_t slot = in_root_buffer ? at : behind % params.bucket_size;
      auto found = store.read_slot(bucket_version, slot);
      ASSERT_OK(found);
      if (!*found) continue;
      change((*found)->content);
      ASSERT_OK(store.write_slot(bucket_version, slot, (*found)->content, (*found)->stamp));
    }
    ASSERT_OK(store.sync());
    cluster_.start_server(server);
  }
  /// Returns the slots of all buckets of the current tree version, by server.
  std::vector<Bytes> buckets_of(Party server) {
    std::vector<Bytes> all;
    cluster_.stop_server(server);
    const auto control = Control::open("control.db", cluster_.disk(server));
    Cluster::require(control);
    auto file = cluster_.disk(server).open(cluster_.slots());
    Cluster::require(file);
    const VolumeParams& params = cluster_.params();
    BucketStore store(std::move(*file), owner_of(cluster_.volume(), server),
                      params.root_buffer_slots(), params.bucket_size, params.slot_size(), 0);
    for (const auto& [bucket, ref] : control->layout())
      for (std::size_t slot = 0; slot < ref.slots; ++slot) {
        const auto found = store.read_slot(ref.bucket_version, slot, ref.stamp);
        Cluster::require(found);
        EXPECT_TRUE(*found) << "bucket " << bucket;
        all.push_back(*found ? (*found)->content : Bytes());
      }
    cluster_.start_server(server);
    return all;
  }
  void settle_evictions() {
    cluster_.run_until([&] {
      const auto status = cluster_.engine().status();
      return !status.evicting && status.evictions_due == 0;
    });
    cluster_.settle();
  }

  Cluster cluster_{GetParam(), 7};
  std::map<BlockId, std::uint64_t> newest_;
};

inline VolumeParams with(VolumeParams params, Privacy privacy) {
  params.privacy = privacy;
  return params;
}
inline const VolumeParams kVolumes[] = {
    with(safe_volume(Evictor::matrix, 3), Privacy::information_theoretic),
    with(safe_volume(Evictor::matrix, 2), Privacy::computational),
    safe_volume(Evictor::shuffle, 2),
    matrix_volume(min_bucket_size(2), 2, {2, 5}),
};
/// The volumes above, and one of mirror.
inline const VolumeParams kVolumesOfAllSchemes[] = {
    kVolumes[0],
    kVolumes[1],
    kVolumes[2],
    kVolumes[3],
    mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3}),
};
inline std::string volume_name(const testing::TestParamInfo<VolumeParams>& test) {
  std::string name =
      fmt::format("{}{}{}", name_of(kEvictors, test.param.evictor), test.param.scheme.servers,
                  name_of(kPrivacies, test.param.privacy));
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
}

#define S3O_WITH_EACH_SCHEME(suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(Volumes, suite,                                          \
                           testing::ValuesIn(::s3oram::test::kVolumesOfAllSchemes), \
                           ::s3oram::test::volume_name)
#define S3O_WITH_EACH_VOLUME(suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(Volumes, suite, testing::ValuesIn(::s3oram::test::kVolumes), \
                           ::s3oram::test::volume_name)

}  // namespace s3oram::test
