// Measures what it costs not to trust the servers: makes the same accesses of a local vault with
// `security` honest-but-curious and malicious in turn, and prints the ratios of time, processor
// time and traffic.
//
//   security_bench [BLOCK_SIZE [BLOCKS [ROUNDS]]]      (131072 600 3)
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "oramcore/protocol/sizing.h"
#include "oramcore/volume/volume.h"

namespace s3oram {
namespace {

template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "security_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

double processor_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The cost of an access, in ms and bytes.
struct Cost {
  double time = 0, client = 0, servers = 0;  // time, and processor time
  double up = 0, down = 0;                   // over the client's links
};

VolumeParams params_for(std::uint32_t block_size, std::size_t blocks, Security security) {
  auto choice = need(choose_params({.scheme = {1, 3},
                                    .local = true,
                                    .expect = block_size * std::uint64_t{blocks},
                                    .evictor = Evictor::shuffle,
                                    .block_size = block_size,
                                    .bucket_size = {},
                                    .evict_every = {}}));
  choice.params.security = security;
  return choice.params;
}

/// Writes every block and reads as many, with several under way.
Cost measure(std::uint32_t block_size, std::size_t blocks, Security security) {
  std::string pattern = (std::filesystem::temp_directory_path() / "s3oramfs-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data())) std::exit(1);
  const std::filesystem::path directory = pattern;
  SystemRandom random;
  VaultConfig config;
  config.local = true;
  config.servers.resize(3);
  config.params = params_for(block_size, blocks, security);
  random.fill(config.volume);
  auto vault = need(Vault::create(directory / "vault", config, Credential{}, random));
  const auto keys = need(vault.unlock(Credential{}));
  const VolumeOptions options{.serverd = S3O_SERVERD, .record = {}, .progress = {}};
  need(Volume::create(vault, keys, options));
  const double client_before = processor_seconds(RUSAGE_SELF);
  const double servers_before = processor_seconds(RUSAGE_CHILDREN);
  auto volume = need(Volume::open(vault, keys, options));

  std::mutex mutex;
  std::condition_variable ended;
  std::size_t under_way = 0;
  const auto one_ended = [&](Status status) {
    need(std::move(status));
    const std::lock_guard guard(mutex);
    --under_way;
    ended.notify_one();
  };
  const Bytes content(block_size, 0x5a);
  std::mt19937_64 choice(7);
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < 2 * blocks; ++i) {
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return under_way < 8; });
    ++under_way;
    lock.unlock();
    if (i < blocks)
      volume->device().write(i, content, one_ended);
    else
      volume->device().read(choice() % blocks, [&](Result<Bytes> got) {
        one_ended(got ? Status{} : Status(fail(got.error())));
      });
  }
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return under_way == 0; });
  lock.unlock();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const VolumeStatus status = volume->status();
  need(volume->close());
  volume.reset();
  std::filesystem::remove_all(directory);

  const auto each = static_cast<double>(status.accesses);
  Cost cost{.time = 1e3 * took.count() / each,
            .client = 1e3 * (processor_seconds(RUSAGE_SELF) - client_before) / each,
            .servers = 1e3 * (processor_seconds(RUSAGE_CHILDREN) - servers_before) / each};
  for (const auto& server : status.servers) {
    cost.up += static_cast<double>(server.bytes_sent) / each;
    cost.down += static_cast<double>(server.bytes_received) / each;
  }
  return cost;
}

double median(std::vector<Cost>& costs, double Cost::*of) {
  std::ranges::nth_element(costs, costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2), {},
                           of);
  return costs[costs.size() / 2].*of;
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) {
  using namespace s3oram;
  const auto number = [&](int at, unsigned long otherwise) {
    return argc > at ? std::stoul(argv[at]) : otherwise;
  };
  const auto block_size = static_cast<std::uint32_t>(number(1, 131072));
  std::vector<Cost> honest, malicious;
  for (unsigned long round = 0; round < number(3, 3); ++round) {
    honest.push_back(measure(block_size, number(2, 600), Security::honest_but_curious));
    malicious.push_back(measure(block_size, number(2, 600), Security::malicious));
  }
  std::printf("an access, median of %zu     honest-but-curious    malicious     ratio\n",
              honest.size());
  const std::pair<const char*, double Cost::*> rows[] = {
      {"ms", &Cost::time},
      {"client, ms of processor", &Cost::client},
      {"servers, ms of processor", &Cost::servers},
      {"bytes up", &Cost::up},
      {"bytes down", &Cost::down}};
  for (const auto& [name, of] : rows) {
    const double one = median(honest, of), other = median(malicious, of);
    std::printf("%-28s %16.2f %16.2f %9.3f\n", name, one, other, other / one);
  }
  return 0;
}
