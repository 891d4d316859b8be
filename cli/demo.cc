// s3oramfs demo: runs three very different workloads on a local vault of its own, with three
// servers or one, and makes a page that shows what a server sees of them.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <future>
#include <iostream>
#include <thread>

#include "cli/bench_place.h"
#include "cli/command.h"
#include "cli/demo_workload.h"
#include "cli/page_file.h"
#include "cli/progress_bar.h"
#include "cli/record_picture.h"
#include "oramcore/base/help.h"
#include "oramcore/base/human.h"
#include "oramcore/base/random.h"
#include "oramcore/base/system_error.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/vault.h"
#include "oramcore/volume/volume.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint32_t kBlockSize = 4096;
constexpr std::uint64_t kBlocks = 512;
constexpr std::uint8_t kHeight = 8;         // 256 paths
constexpr microseconds kLeastPace{18'000};  // the mean time between accesses, at least
constexpr int kSlack = 3;                   // the pace is this many times what an access takes
constexpr unsigned kLeastAccesses = 100, kMostAccesses = 20'000;
// A ring with as many blocks as its tree holds, so that all its paths are written after few
// accesses.
constexpr std::uint16_t kRingBucket = 8, kRingEvictEvery = 4;
constexpr std::uint8_t kRingTop = 3;
constexpr std::uint64_t kPaths = std::uint64_t{1} << kHeight;

/// A directory of our own, which is removed with the object.
class Scratch {
 public:
  static Result<std::unique_ptr<Scratch>> make() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "s3oramfs-demo-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      return system_failure(errno, "a temporary directory (TMPDIR)");
    return std::unique_ptr<Scratch>(new Scratch(name));
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(directory_, error);
    if (error)
      std::cerr << "s3oramfs: " << directory_.string() << " is left behind: " << error.message()
                << "\n";
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& directory() const { return directory_; }

 private:
  explicit Scratch(fs::path directory) : directory_(std::move(directory)) {}
  const fs::path directory_;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The demonstration's vault, in use.
class DemoVolume {
 public:
  static Result<std::unique_ptr<DemoVolume>> make(const fs::path& scratch, SchemeKind kind) {
    std::unique_ptr<DemoVolume> made(new DemoVolume(scratch / "record"));
    SystemRandom random;
    S3O_ASSIGN(const VolumeParams params, numbers_of(kind));
    VaultConfig config;
    random.fill(config.volume);
    config.params = params;
    config.params.first_height = kHeight;
    config.local = true;
    config.servers.resize(config.params.scheme.servers);
    const Credential none;
    S3O_ASSIGN(auto vault, Vault::create(scratch / "vault", config, none, random));
    made->vault_.emplace(std::move(vault));
    S3O_TRY(made->vault_->lock());
    S3O_ASSIGN(auto keys, made->vault_->unlock(none));
    VolumeOptions how;
    S3O_ASSIGN(how.serverd, program_beside("s3oramfs-serverd"));
    S3O_TRY(Volume::create(*made->vault_, keys, how));
    how.record = made->record_;
    S3O_ASSIGN(made->volume_, Volume::open(*made->vault_, keys, how));
    return made;
  }

  /// Makes one access, and waits for its end. Errors: failed (the program is interrupted), those of
  /// the device.
  Status access(const PlannedAccess& planned) {
    if (interrupted())
      return fail(Errc::failed, "interrupted; the demonstration's vault is removed");
    BlockDevice& device = volume_->device();
    std::promise<Status> done;
    if (planned.writes)
      device.write(planned.block, Bytes(device.block_size(), 1),
                   [&](Status status) { done.set_value(std::move(status)); });
    else
      device.read(planned.block, [&](Result<Bytes> content) {
        done.set_value(content ? Status() : Status(fail(std::move(content).error())));
      });
    return done.get_future().get();
  }

  /// Returns whether each path of the tree has been evicted. A ring's client requests no bucket
  /// that was never written, so before that the record would show which these are, and nothing
  /// else.
  bool is_written() const {
    return volume_->status().evictions >= kPaths || !vault_->config().params.is_ring();
  }

  /// Closes the volume, and returns what server 1 has read and written since it was opened.
  Result<Record> close() {
    S3O_TRY(volume_->close());
    volume_ = nullptr;
    return read_record(record_);
  }

 private:
  explicit DemoVolume(fs::path record) : record_(std::move(record)) {}
  static Result<VolumeParams> numbers_of(SchemeKind kind) {
    const bool ring = kind == SchemeKind::ring;
    Wishes wishes{.kind = kind,
                  .scheme = ring ? Scheme{0, 1} : Scheme{1, 3},
                  .local = true,
                  .expect = kBlocks * kBlockSize,
                  .block_size = kBlockSize};
    if (ring) wishes.bucket_size = kRingBucket;
    if (ring) wishes.evict_every = kRingEvictEvery;
    S3O_ASSIGN(auto choice, choose_volume(wishes));
    if (ring) choice.params.top_levels = kRingTop;
    return choice.params;
  }

  const fs::path record_;
  std::optional<Vault> vault_;
  std::unique_ptr<Volume> volume_;
};

/// Runs the workload, and notes the times and the requested blocks.
Result<RecordStretch> run(DemoVolume& volume, const Workload& workload, microseconds time,
                          const std::function<void(double)>& progress) {
  RecordStretch stretch{workload.title, workload.about, {}, {}};
  stretch.begin = seconds_now();
  const auto begin = SteadyClock::now();
  for (const PlannedAccess& each : workload.accesses) {
    std::this_thread::sleep_until(begin + each.when);
    S3O_TRY(volume.access(each));
    stretch.asked.push_back(
        {static_cast<double>(each.block) / static_cast<double>(kBlocks), each.writes});
    progress(static_cast<double>(stretch.asked.size()) /
             static_cast<double>(workload.accesses.size()));
  }
  std::this_thread::sleep_until(begin + time);
  stretch.seconds = seconds_now() - stretch.begin;
  return stretch;
}

Result<std::vector<RecordStretch>> measure(std::size_t accesses, SchemeKind kind) {
  const Interrupts interrupts;
  S3O_ASSIGN(const auto scratch, Scratch::make());
  ProgressBar bar;
  bar.show(0, "making a local vault");
  S3O_ASSIGN(const auto volume, DemoVolume::make(scratch->directory(), kind));
  const auto begin = SteadyClock::now();
  std::int64_t written = 0;
  for (; written < static_cast<std::int64_t>(kBlocks) || !volume->is_written(); ++written) {
    const auto block = static_cast<std::uint64_t>(written) % kBlocks;
    S3O_TRY(volume->access({.block = block, .writes = true}));
    bar.show(0, "filling it");
  }
  // Choose a pace that this machine can keep. Otherwise the timing of all workloads would look
  // alike.
  const auto filled = std::chrono::duration_cast<microseconds>(SteadyClock::now() - begin);
  const microseconds pace = std::max(kLeastPace, kSlack * filled / written);
  const microseconds time = pace * static_cast<std::int64_t>(accesses);
  SystemRandom random;
  std::vector<RecordStretch> stretches;
  for (const Workload& workload : demo_workloads(accesses, kBlocks, time, random)) {
    const auto before = static_cast<double>(stretches.size());
    S3O_ASSIGN(auto stretch, run(*volume, workload, time, [&](double done) {
                 bar.show((before + done) / 3, workload.title);
               }));
    stretches.push_back(std::move(stretch));
  }
  S3O_ASSIGN(const auto record, volume->close());
  for (const RecordedRequest& each : record.requests)
    for (RecordStretch& stretch : stretches)
      if (each.time >= stretch.begin && each.time < stretch.begin + stretch.seconds)
        stretch.seen.push_back(each);
  return stretches;
}

std::vector<std::string> before(SchemeKind kind) {
  return {fmt::format(
      "Three workloads ran on an s3oramfs vault with {} on this machine. {} recorded every slot "
      "that it read and wrote (s3oramfs-serverd --record). The upper row of pictures is what a "
      "plain server records, even if all files are encrypted; the middle row is what {} recorded.",
      kind == SchemeKind::ring ? "one server" : "three servers",
      kind == SchemeKind::ring ? "The server" : "Server 1",
      kind == SchemeKind::ring ? "this one" : "server 1")};
}

const std::vector<std::string> kAfterDemo{
    "\"Are two of the three alike?\" asks how probable it is that two samples as different as "
    "these come from one and the same source (the chi-square test, over 64 equal parts of all "
    "places). Of the three pairs the least probability is shown. Near 0, a server can tell the "
    "workloads apart. By chance alone, one of three pairs is below 0.05 in about every seventh "
    "run.",
    "The lower row is what s3oramfs does not hide: when there are accesses, and how many. Here it "
    "tells the three workloads apart at a glance. docs/leakage.md says what else shows, and to "
    "whom.",
    "The demonstration asks for blocks directly, so that each workload makes exactly as many "
    "accesses as the others. In a mounted directory, recently used data comes from memory, without "
    "an access."};

std::vector<std::string> after(SchemeKind kind) {
  std::vector<std::string> paragraphs = kAfterDemo;
  paragraphs.push_back(
      kind == SchemeKind::ring
          ? "The server also sees which of 256 points of each bucket on the path is asked for: "
            "drawn at random, and none twice until the bucket is written again. The record has "
            "them; the pictures do not show them. One in 256 accesses is the client's own."
          : "All of this is what one server alone sees: two servers that compare their notes "
            "can find out which block is used.");
  return paragraphs;
}

}  // namespace

Status run_demo(const Args& args) {
  CLI::App app(
      "Shows what a server sees: runs three different workloads on a local vault of its\n"
      "own for about a minute, and draws what server 1 read and wrote.",
      "s3oramfs demo");
  std::string output = "s3oramfs-demo.html";
  std::size_t accesses = 600;
  std::string scheme = "s3oram";
  app.add_option("--scheme", scheme, "ring (one server) or s3oram (three servers)")
      ->capture_default_str()
      ->type_name("KIND");
  app.add_option("--output", output, "The page; .svg or .png: only its picture")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_option("--accesses", accesses, "Accesses of each workload")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(kLeastAccesses, kMostAccesses));
  S3O_ASSIGN(const auto parsed, parse(app, args));
  if (!parsed) return {};
  SchemeKind kind = SchemeKind::s3oram;
  S3O_TRY(take_name(kSchemes, "--scheme", scheme, kind));
  if (kind == SchemeKind::mirror)
    return fail(Errc::usage, "--scheme {}: the demonstration has s3oram and ring", scheme);
  S3O_ASSIGN(const auto page, PageFile::check(output));
  S3O_ASSIGN(const auto stretches, measure(accesses, kind));
  const FindingsTable table = compare(stretches);
  S3O_TRY(page.write(comparison_picture(stretches, table), [&] {
    return record_page("What a server sees", before(kind), comparison_picture(stretches, {}), table,
                       after(kind));
  }));
  std::cout << "Made " << printable(output)
            << ": what a plain server and an s3oramfs server see of "
            << "the same " << 3 * accesses << " accesses.\n";
  return {};
}

}  // namespace s3oram
