// Makes accesses of an existing vault, which it opens as the file system daemon would.
//
//   volume_bench [OPTION...] VAULT       (made with init --no-passphrase)
//
// Each line of standard input is a phase, and is answered with one line of JSON:
//
//   fill COUNT AT_ONCE     writes the blocks 0 to COUNT - 1, which further phases use
//   writes COUNT AT_ONCE   writes of random blocks, AT_ONCE under way
//   reads COUNT AT_ONCE    reads of random blocks; the last access is a write, see below
//   alone COUNT            COUNT reads with no other access under way; each is followed by a write,
//                          whose end says that nothing of the read is left (but the eviction that
//                          a write causes may delay the next read)
//   paced COUNT RATE       reads of random blocks, RATE begun each second whatever is under way; a
//                          read's delay counts from when it was to begin; the last is a write
//
// A phase begins when nothing is under way, and ends when nothing is under way again, after as many
// evictions as COUNT accesses cause. So if COUNT is a multiple of the accesses between two
// evictions, seconds / accesses is the cost of an access, including evictions. (A write ends when
// it and all accesses before it are durable. A read's caller has the block earlier, while the block
// is still being written back.) `delay` is how long callers wait; only for reads if a phase has
// both. Bytes are those of messages, to and from each server. `times` says how often the client did
// the steps of an access, and the seconds that these took in all.
#include <signal.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "oramcore/client/engine_metrics.h"
#include "oramcore/service/log.h"
#include "oramcore/volume/volume.h"

namespace s3oram {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kPoll = std::chrono::milliseconds(1);
constexpr std::size_t kNoLimit = -1;  // no limit for the accesses under way

Json summary(std::vector<double> delays) {
  if (delays.empty()) return nullptr;
  std::sort(delays.begin(), delays.end());
  const auto at = [&](std::size_t percent) { return delays[(delays.size() * percent - 1) / 100]; };
  const double sum = std::accumulate(delays.begin(), delays.end(), 0.0);
  return {{"samples", delays.size()}, {"mean", sum / static_cast<double>(delays.size())},
          {"median", at(50)},         {"p99", at(99)},
          {"min", delays.front()},    {"max", delays.back()}};
}

/// What the client has done so far, and for how long.
struct Times {
  struct Step {
    std::uint64_t count = 0;
    double seconds = 0;
  };
  explicit Times(const EngineMetrics& metrics) {
    const auto keep = [this](const char* name, const Histogram& histogram) {
      const Histogram::Snapshot now = histogram.snapshot();
      steps[name] = {now.below.back(), now.sum};
    };
    keep("access", metrics.access_seconds);
    keep("commit", metrics.commit_seconds);
    keep("eviction", metrics.eviction_seconds);
    keep("retrieval", metrics.retrieval_seconds);
  }
  Json since(const Times& before) const {
    Json result;
    for (const auto& [name, step] : steps)
      result[name] = {{"count", step.count - before.steps.at(name).count},
                      {"seconds", step.seconds - before.steps.at(name).seconds}};
    return result;
  }

  std::map<std::string, Step> steps;
};

class Bench {
 public:
  Bench(Volume& volume, const VolumeParams& params, Metrics& metrics, std::chrono::seconds patience)
      : volume_(volume),
        device_(volume.device()),
        params_(params),
        metrics_(metrics),
        patience_(patience),
        blocks_(volume.status().blocks) {}

  /// `pace`: RATE of a paced phase, or else AT_ONCE.
  Result<Json> run(const std::string& kind, std::size_t count, double pace) {
    const std::size_t at_once = kind == "paced" ? kNoLimit : static_cast<std::size_t>(pace);
    if (count == 0 || at_once == 0 || pace <= 0)
      return fail(Errc::usage, "{}: nothing to do", kind);
    if (kind != "fill" && blocks_ == 0) return fail(Errc::usage, "{}: fill comes first", kind);
    reads_.clear();
    writes_.clear();
    const VolumeStatus before = volume_.status();
    const Times times(metrics_);
    const auto start = Clock::now();
    S3O_TRY(kind == "paced" ? go_paced(count, Seconds(1 / pace)) : go(kind, count, at_once));
    not_evicted_ += kind == "alone" ? 2 * count : count;
    S3O_TRY(wait_for_eviction(before.evictions + not_evicted_ / params_.evict_every));
    not_evicted_ %= params_.evict_every;
    const double seconds = Seconds(Clock::now() - start).count();
    if (kind == "fill") blocks_ = count;
    Json result = report(kind, pace, seconds, before);
    result["times"] = Times(metrics_).since(times);
    return result;
  }

  Json describe() const {
    const VolumeStatus status = volume_.status();
    return {{"block_size", params_.block_size},
            {"bucket_size", params_.bucket_size},
            {"evict_every", params_.evict_every},
            {"stash_slots", params_.stash_slots},
            {"slot_size", params_.slot_size()},
            {"height", status.height},
            {"capacity", status.capacity},
            {"blocks", status.blocks},
            {"stash", status.stash}};
  }

 private:
  Status go(const std::string& kind, std::size_t count, std::size_t at_once) {
    for (std::size_t i = 0; i < count; ++i) {
      if (kind == "fill") {
        write(i, at_once);
      } else if (kind == "writes") {
        write(any_block(), at_once);
      } else if (kind == "reads") {
        i + 1 < count ? read(any_block(), at_once) : write(any_block(), at_once);
      } else if (kind == "alone") {
        read(any_block(), 1);
        write(any_block(), 1);
      } else {
        return fail(Errc::usage, "{}: fill, writes, reads, alone or paced", kind);
      }
    }
    return wait_for_all();
  }

  Status go_paced(std::size_t count, Seconds pause) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < count; ++i) {
      const auto planned =
          start + std::chrono::duration_cast<Clock::duration>(static_cast<double>(i) * pause);
      std::this_thread::sleep_until(planned);
      if (i + 1 == count) {
        write(any_block(), kNoLimit);
      } else {
        begin(kNoLimit);
        read_since(planned, any_block());
      }
    }
    return wait_for_all();
  }

  Status wait_for_all() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return under_way_ == 0; });
    return failed_;
  }

  BlockId any_block() { return choice_() % blocks_; }

  void read(BlockId block, std::size_t at_once) {
    begin(at_once);
    read_since(Clock::now(), block);
  }

  void read_since(Clock::time_point start, BlockId block) {
    device_.read(block, [this, start](Result<Bytes> got) {
      end(reads_, start, got ? Status{} : Status(fail(got.error())));
    });
  }

  void write(BlockId block, std::size_t at_once) {
    begin(at_once);
    device_.write(block, Bytes(params_.block_size, static_cast<std::uint8_t>(block)),
                  [this, start = Clock::now()](Status status) { end(writes_, start, status); });
  }

  void begin(std::size_t at_once) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return under_way_ < at_once; });
    ++under_way_;
  }

  void end(std::vector<double>& delays, Clock::time_point start, const Status& status) {
    std::lock_guard lock(mutex_);
    delays.push_back(Seconds(Clock::now() - start).count());
    if (!status && failed_) failed_ = status;
    --under_way_;
    ended_.notify_one();
  }

  Status wait_for_eviction(std::uint64_t eviction) {
    const auto limit = Clock::now() + patience_;
    while (volume_.status().evictions < eviction) {
      if (Clock::now() > limit)
        return fail(Errc::failed, "eviction {} does not end within {} s", eviction,
                    patience_.count());
      std::this_thread::sleep_for(kPoll);
    }
    return {};
  }

  Json report(const std::string& kind, double pace, double seconds, const VolumeStatus& before) {
    const VolumeStatus after = volume_.status();
    Json servers = Json::array();
    for (std::size_t i = 0; i < after.servers.size(); ++i)
      servers.push_back(
          {{"sent", after.servers[i].bytes_sent - before.servers[i].bytes_sent},
           {"received", after.servers[i].bytes_received - before.servers[i].bytes_received}});
    Json result{{"phase", kind},
                {"seconds", seconds},
                {"accesses", after.accesses - before.accesses},
                {"evictions", after.evictions - before.evictions},
                {"delay", summary(reads_.empty() ? writes_ : reads_)},
                {"bytes", servers},
                {"volume", describe()}};
    if (kind == "paced") {
      result["rate"] = pace;
    } else {
      result["at_once"] = static_cast<std::size_t>(pace);
    }
    return result;
  }

  Volume& volume_;
  BlockDevice& device_;
  const VolumeParams params_;
  const EngineMetrics metrics_;
  const std::chrono::seconds patience_;
  std::uint64_t blocks_;
  std::uint64_t not_evicted_ = 0;  // accesses since the last eviction
  std::mt19937_64 choice_{7};
  // Guarded by the mutex, because callbacks come on the device's thread.
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t under_way_ = 0;
  Status failed_;
  std::vector<double> reads_, writes_;
};

Status serve(const std::filesystem::path& directory, unsigned timeout) {
  auto vault = Vault::find(directory);
  if (!vault) return fail(vault.error());
  S3O_TRY(vault->lock());
  auto keys = vault->unlock(Credential{});
  if (!keys) return fail(keys.error());
  const std::chrono::seconds patience(timeout);
  VolumeOptions how;
  how.deadline = patience;
  Metrics metrics;
  how.metrics = &metrics;
  auto volume = Volume::open(*vault, *keys, how);
  if (!volume) return fail(volume.error());
  Bench bench(**volume, vault->config().params, metrics, patience);
  std::cout << bench.describe() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string kind;
    std::size_t count = 0;
    double pace = 1;
    if (words >> kind >> count && !(words >> pace)) pace = 1;
    auto result = bench.run(kind, count, pace);
    if (!result) return fail(result.error());
    std::cout << *result << std::endl;
  }
  return (*volume)->close();
}

int run(int argc, char** argv) {
  std::filesystem::path vault;
  unsigned timeout = 900;
  CLI::App app("Accesses of a vault that exists; phases on standard input.", "volume_bench");
  app.add_option("VAULT", vault)->required();
  bool exit_with_parent = false;
  app.add_option("--timeout", timeout, "Seconds to wait for servers, or for an eviction to end");
  app.add_flag("--exit-with-parent", exit_with_parent, "Be killed when the starter ends");
  CLI11_PARSE(app, argc, argv);
  if (exit_with_parent && ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    std::cerr << "volume_bench: --exit-with-parent is not possible here\n";
    return static_cast<int>(Errc::unsupported);
  }
  log_to_stderr("volume_bench");  // because standard output is for the answers
  const Status status = serve(vault, timeout);
  if (status) return 0;
  std::cerr << "volume_bench: " << status.error().message << "\n";
  return static_cast<int>(status.error().code);
}

}  // namespace
}  // namespace s3oram

int main(int argc, char** argv) { return s3oram::run(argc, argv); }
