// Measures accesses of a local vault: how many there are in a second, how long one read takes, and
// how the time of its retrieval is spent.
//
//   access_bench [BLOCK_SIZE [BLOCKS [AT_ONCE [EVICTOR]]]]      (4096 4000 32 shuffle)
//
// EVICTOR: shuffle or matrix, with three servers; selection means a mirror with two.
//
// The split: `total` is the time of a read as the device's user sees it, one read at a time. `disk`
// and `arithmetic` are one server's work for the same path, measured in this process on a store of
// the same shape: reading and checking the bucket versions from the page cache, and the inner
// product. The rest is messages, servers sharing the machine's cores, and the client.
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "oramcore/base/disk.h"
#include "oramcore/field/gf256.h"
#include "oramcore/protocol/sizing.h"
#include "oramcore/volume/volume.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {
namespace {

using Seconds = std::chrono::duration<double>;

template <class Work>
double timed(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "access_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Starts `start(i, done)` for i < count, at most `at_once` under way, and waits for all.
template <class Start>
void keep_going(std::size_t count, std::size_t at_once, Start start) {
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t under_way = 0;
  std::unique_lock lock(mutex);
  for (std::size_t i = 0; i < count; ++i) {
    ended.wait(lock, [&] { return under_way < at_once; });
    ++under_way;
    start(i, [&](Status status) {
      need(std::move(status));
      std::lock_guard guard(mutex);
      --under_way;
      ended.notify_one();
    });
  }
  ended.wait(lock, [&] { return under_way == 0; });
}

struct Split {
  double disk, arithmetic;
};

// Measures one server's work for a path of `height` levels below a root with A/2 slots in use.
Split server_work(const VolumeParams& params, unsigned height, const std::filesystem::path& file) {
  BucketStore store(need(system_disk().open(file)), {}, params.root_buffer_slots(),
                    params.bucket_size, params.slot_size(), 0);
  std::mt19937_64 random(1);
  for (BucketVersionNumber frame = 1; frame <= height; ++frame) {
    auto content = std::make_shared<BucketVersion>(params.bucket_size, params.slot_size());
    for (auto& byte : content->bytes()) byte = static_cast<std::uint8_t>(random());
    need(store.write(frame, std::move(content), 1));
  }
  Bytes query(params.bucket_size), out(params.slot_size());
  for (auto& byte : query) byte = static_cast<std::uint8_t>(random());
  Split split{};
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    for (BucketVersionNumber number = 1; number <= height; ++number) {
      store.forget(number);
      std::shared_ptr<const BucketVersion> frame;
      split.disk += timed([&] { frame = need(store.read({number, params.bucket_size})); });
      std::vector<const std::uint8_t*> rows;
      for (std::size_t slot = 0; slot < params.bucket_size; ++slot)
        rows.push_back(frame->slot(slot));
      split.arithmetic += timed([&] { gf::inner_product(query, rows, out); });
    }
  }
  return {split.disk / kRounds, split.arithmetic / kRounds};
}

int run(std::uint32_t block_size, std::size_t blocks, std::size_t at_once, Evictor evictor) {
  std::string pattern = (std::filesystem::temp_directory_path() / "s3oramfs-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data())) return 1;
  const std::filesystem::path directory = pattern;
  SystemRandom random;
  VaultConfig config;
  config.local = true;
  const bool mirror = evictor == Evictor::selection;
  const Scheme scheme{1, static_cast<std::uint8_t>(mirror ? 2 : 3)};
  config.servers.resize(scheme.servers);
  config.params = need(choose_params({.kind = mirror ? SchemeKind::mirror : SchemeKind::s3oram,
                                      .scheme = scheme,
                                      .local = true,
                                      .expect = block_size * std::uint64_t{blocks},
                                      .evictor = evictor,
                                      .block_size = block_size,
                                      .bucket_size = {},
                                      .evict_every = {}}))
                      .params;
  random.fill(config.volume);
  auto vault = need(Vault::create(directory / "vault", config, Credential{}, random));
  const auto keys = need(vault.unlock(Credential{}));
  const VolumeOptions options{.serverd = S3O_SERVERD, .record = {}, .progress = {}};
  need(Volume::create(vault, keys, options));
  auto volume = need(Volume::open(vault, keys, options));
  BlockDevice& device = volume->device();

  const Bytes content(block_size, 0x5a);
  const double writing = timed([&] {
    keep_going(blocks, at_once, [&](std::size_t i, auto done) { device.write(i, content, done); });
  });
  std::mt19937_64 choice(7);
  const auto read = [&](std::size_t, auto done) {
    device.read(choice() % blocks,
                [done](Result<Bytes> got) { done(got ? Status{} : Status(fail(got.error()))); });
  };
  const double reading = timed([&] { keep_going(blocks, at_once, read); });
  // One at a time, so that nothing waits for anything else; the median leaves evictions out.
  std::vector<double> alone(500);
  for (double& seconds : alone) seconds = timed([&] { keep_going(1, 1, read); });
  std::sort(alone.begin(), alone.end());
  const double total = alone[alone.size() / 2], p99 = alone[alone.size() * 99 / 100];
  const VolumeStatus status = volume->status();
  need(volume->close());
  const Split split = server_work(config.params, status.height, directory / "slots");
  std::filesystem::remove_all(directory);

  const double mb = static_cast<double>(block_size) * static_cast<double>(blocks) / 1e6;
  std::printf("blocks of %u bytes, %s Z=%u A=%u, height %u, %zu blocks, %zu at once, %s kernel\n",
              block_size, std::string(name_of(kEvictors, evictor)).c_str(),
              config.params.bucket_size, config.params.evict_every, status.height, blocks, at_once,
              std::string(gf::name(gf::kernel())).c_str());
  std::printf("write  %8.0f accesses/s  %7.2f MB/s\n", static_cast<double>(blocks) / writing,
              mb / writing);
  std::printf("read   %8.0f accesses/s  %7.2f MB/s\n", static_cast<double>(blocks) / reading,
              mb / reading);
  std::printf(
      "one read, median of %zu: total %.2f ms (99 %%: %.2f); a server's disk %.2f ms, arithmetic "
      "%.2f ms; "
      "messages and the rest %.2f ms\n",
      alone.size(), total * 1e3, p99 * 1e3, split.disk * 1e3, split.arithmetic * 1e3,
      (total - split.disk - split.arithmetic) * 1e3);
  return 0;
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  const auto number = [&](int at, unsigned long otherwise) {
    return argc > at ? std::stoul(argv[at]) : otherwise;
  };
  auto evictor = s3oram::Evictor::shuffle;
  for (const auto& [name, each] : s3oram::kEvictors)
    if (argc > 4 && name == argv[4]) evictor = each;
  return s3oram::run(static_cast<std::uint32_t>(number(1, 4096)), number(2, 4000), number(3, 32),
                     evictor);
}
