// Measures one server's disk part in a retrieval whose path is not in memory: its bucket versions
// are read one after another, and at the same time by threads.
//
//   path_bench DIRECTORY [BLOCK_SIZE [Z [HEIGHT [THREADS]]]]      (131072 16 10 8)
//
// Makes a store of all of the tree's bucket versions in DIRECTORY, which must be on the disk to be
// measured, and takes random paths. Each time, the kernel is made to forget the file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <latch>
#include <random>
#include <string>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/disk.h"
#include "oramcore/oram/geometry.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {
namespace {

constexpr std::size_t kRounds = 41;

template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "path_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void drop_pages(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) != 0) std::exit(1);
  ::close(descriptor);
}

template <class Work>
double timed(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const std::filesystem::path& directory, std::size_t block_size, std::size_t z,
        unsigned height, std::size_t threads) {
  const std::filesystem::path file = directory / "path_bench.slots";
  std::filesystem::remove(file);
  BucketStore store(need(system_disk().open(file)), {}, 0, z, block_size, 0);
  // Evictions leave a bucket's version anywhere in the file.
  std::mt19937_64 random(1);
  std::vector<BucketVersionNumber> version_of(bucket_count(height) + 1);
  for (std::size_t i = 0; i < version_of.size(); ++i)
    version_of[i] = static_cast<BucketVersionNumber>(i);
  std::shuffle(version_of.begin() + 1, version_of.end(), random);
  Bytes noise(z * (block_size + BucketVersion::kTrailer));
  for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
  for (BucketIndex bucket = 1; bucket < version_of.size(); ++bucket) {
    auto content = std::make_shared<BucketVersion>(z, block_size);
    std::copy(noise.begin(), noise.end(), content->bytes().begin());
    need(store.write(version_of[bucket], std::move(content), 1));
  }
  need(store.sync());

  asio::thread_pool pool(threads);
  std::vector<double> one_by_one, at_once;
  for (std::size_t round = 0; round < 2 * kRounds; ++round) {
    std::vector<BucketVersionNumber> path;
    const Leaf leaf = random();
    for (unsigned level = 1; level <= height; ++level)
      path.push_back(version_of[bucket_on_path(leaf, level)]);
    for (const BucketVersionNumber number : path) store.forget(number);
    drop_pages(file);
    if (round % 2 == 0) {
      one_by_one.push_back(timed([&] {
        for (const BucketVersionNumber number : path)
          need(store.read({number, static_cast<std::uint16_t>(z)}));
      }));
    } else {
      at_once.push_back(timed([&] {
        std::latch all_read(static_cast<std::ptrdiff_t>(path.size()));
        for (const BucketVersionNumber number : path)
          asio::post(pool, [&, number] {
            need(store.read({number, static_cast<std::uint16_t>(z)}));
            all_read.count_down();
          });
        all_read.wait();
      }));
    }
  }
  std::filesystem::remove(file);
  std::printf("%zu-byte blocks, Z=%zu, %u levels: a path is %.1f MB; median of %zu cold reads\n",
              block_size, z, height, static_cast<double>(noise.size() * height) / 1e6, kRounds);
  for (auto* times : {&one_by_one, &at_once}) {
    std::sort(times->begin(), times->end());
    const bool threaded = times == &at_once;
    std::printf("%-14s %8.2f ms  (90 %%: %.2f)\n", threaded ? "at once" : "one by one",
                (*times)[kRounds / 2] * 1e3, (*times)[kRounds * 9 / 10] * 1e3);
  }
  return 0;
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  const auto number = [&](int at, unsigned long otherwise) {
    return argc > at ? std::stoul(argv[at]) : otherwise;
  };
  if (argc < 2) {
    std::fprintf(stderr, "path_bench DIRECTORY [BLOCK_SIZE [Z [HEIGHT [THREADS]]]]\n");
    return 2;
  }
  return s3oram::run(argv[1], number(2, 131072), number(3, 16),
                     static_cast<unsigned>(number(4, 10)), number(5, 8));
}
