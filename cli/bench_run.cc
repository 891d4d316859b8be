// Runs the measurements of `s3oramfs bench`, one after another, in its directory.
#include "cli/bench_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "oramcore/base/bytes.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/random.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kRegion = 64 << 10;
constexpr std::size_t kSmall = 4 << 10;
constexpr unsigned kAtATime = 64;      // writes for each fsync
constexpr std::size_t kFiles = 2'000;  // files that the benchmark makes, at most
constexpr unsigned kSteps = 12;        // steps of the progress

double since(Steady::time_point begun) {
  return std::chrono::duration<double>(Steady::now() - begun).count();
}

tl::unexpected<Error> failure(const char* doing) { return system_failure(errno, "{}", doing); }

class Bench {
 public:
  Bench(const BenchPlace& place, const BenchOptions& options, const BenchProgress& progress)
      : place_(place),
        options_(options),
        progress_(progress),
        path_(place.directory() / "data"),
        pieces_(std::max<std::uint64_t>(1, options.size / kPiece)),
        noise_(kPiece) {
    SystemRandom().fill(noise_);
  }

  Result<std::vector<Measurement>> run() {
    const Descriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return failure("creating a file");
    S3O_TRY(write_in_sequence(file.get()));
    S3O_TRY(read_in_sequence(file.get()));
    S3O_TRY(read_at_random(file.get(), kSmall, "rand_read_4k", "random read, 4 KiB"));
    S3O_TRY(read_at_random(file.get(), kRegion, "rand_read_64k", "random read, 64 KiB"));
    S3O_TRY(write_at_random(file.get(), kSmall, "rand_write_4k", "random write, 4 KiB"));
    S3O_TRY(write_at_random(file.get(), kRegion, "rand_write_64k", "random write, 64 KiB"));
    S3O_TRY(write_durably(file.get()));
    S3O_TRY(use_files());
    return std::move(found_);
  }

 private:
  Status begin(const std::string& doing) {
    doing_ = doing;
    ++step_;
    return go_on(0);
  }
  /// Reports that `part` of the step is done. Errors: failed (interrupted).
  Status go_on(double part) {
    if (interrupted()) return fail(Errc::failed, "interrupted; what was written is removed");
    progress_((step_ - 1 + std::min(part, 1.0)) / kSteps, doing_);
    return {};
  }
  void add(const std::string& name, const std::string& title, const std::string& unit,
           double value) {
    found_.push_back({name, title, unit, value, unit != "ms"});
  }
  void add_latency(const std::string& name, const std::vector<double>& took) {
    add(name + "_p50", "  one takes: median", "ms", percentile(took, 0.5) * 1e3);
    add(name + "_p99", "  99 of 100 at most", "ms", percentile(took, 0.99) * 1e3);
  }
  std::uint64_t size() const { return pieces_ * kPiece; }
  double megabytes() const { return static_cast<double>(size()) / 1e6; }

  Status write(int file, std::uint64_t offset, ByteSpan data) {
    while (!data.empty()) {
      const ssize_t put = ::pwrite(file, data.data(), data.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failure("writing");
      offset += static_cast<std::uint64_t>(put);
      data = data.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }
  Status read(int file, std::uint64_t offset, MutableByteSpan out) {
    while (!out.empty()) {
      const ssize_t got = ::pread(file, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure("reading");
      if (got == 0) return fail(Errc::corrupt, "reading: the file has become shorter");
      offset += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  Status write_in_sequence(int file) {
    S3O_TRY(begin("writing in sequence"));
    const auto begun = Steady::now();
    for (std::uint64_t i = 0; i < pieces_; ++i) {
      std::memcpy(noise_.data(), &i, sizeof i);  // no two pieces are the same
      S3O_TRY(write(file, i * kPiece, noise_));
      S3O_TRY(go_on(static_cast<double>(i) / static_cast<double>(pieces_)));
    }
    if (::fsync(file) != 0) return failure("fsync");
    add("seq_write", "sequential write", "MB/s", megabytes() / since(begun));
    return {};
  }

  Status read_in_sequence(int file) {
    S3O_TRY(begin("reading in sequence"));
    S3O_TRY(place_.forget(file));
    Bytes piece(kPiece);
    const auto begun = Steady::now();
    for (std::uint64_t i = 0; i < pieces_; ++i) {
      S3O_TRY(read(file, i * kPiece, piece));
      std::memcpy(noise_.data(), &i, sizeof i);
      if (piece != noise_) return fail(Errc::corrupt, "what was read is not what was written");
      S3O_TRY(go_on(static_cast<double>(i) / static_cast<double>(pieces_)));
    }
    add("seq_read", "sequential read", "MB/s", megabytes() / since(begun));
    return {};
  }

  /// Returns all regions of the file in random order.
  std::vector<std::uint64_t> regions() {
    std::vector<std::uint64_t> order(size() / kRegion);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), chance_);
    return order;
  }
  /// Returns a random offset for `bytes` in a region.
  std::uint64_t place_in(std::uint64_t region, std::size_t bytes) {
    const std::size_t places = kRegion / bytes;
    return region * kRegion + chance_() % places * bytes;
  }

  Status read_at_random(int file, std::size_t bytes, const std::string& name,
                        const std::string& title) {
    S3O_TRY(begin(title));
    if (const int error = ::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM); error != 0)
      return system_failure(error, "posix_fadvise");
    Bytes piece(bytes);
    std::vector<double> took;
    std::vector<std::uint64_t> left;
    double spent = 0;  // without the time that forget() takes
    while (spent < options_.seconds) {
      if (left.empty()) {
        left = regions();
        S3O_TRY(place_.forget(file));
      }
      const std::uint64_t offset = place_in(left.back(), bytes);
      left.pop_back();
      const auto begun = Steady::now();
      S3O_TRY(read(file, offset, piece));
      took.push_back(since(begun));
      spent += took.back();
      S3O_TRY(go_on(spent / options_.seconds));
    }
    add(name, title, "1/s", static_cast<double>(took.size()) / spent);
    add_latency(name, took);
    return {};
  }

  Status write_at_random(int file, std::size_t bytes, const std::string& name,
                         const std::string& title) {
    S3O_TRY(begin(title));
    const ByteSpan data = ByteSpan(noise_).first(bytes);
    std::vector<std::uint64_t> left;
    std::uint64_t done = 0;
    const auto begun = Steady::now();
    while (since(begun) < options_.seconds) {
      for (unsigned i = 0; i < kAtATime; ++i, ++done) {
        if (left.empty()) left = regions();
        S3O_TRY(write(file, place_in(left.back(), bytes), data));
        left.pop_back();
      }
      if (::fsync(file) != 0) return failure("fsync");
      S3O_TRY(go_on(since(begun) / options_.seconds));
    }
    add(name, title, "1/s", static_cast<double>(done) / since(begun));
    return {};
  }

  Status write_durably(int file) {
    S3O_TRY(begin("durable writes"));
    const ByteSpan data = ByteSpan(noise_).first(kSmall);
    std::vector<double> took;
    std::vector<std::uint64_t> left;
    const auto begun = Steady::now();
    while (since(begun) < options_.seconds) {
      if (left.empty()) left = regions();
      const auto each = Steady::now();
      S3O_TRY(write(file, place_in(left.back(), kSmall), data));
      if (::fdatasync(file) != 0) return failure("fdatasync");
      left.pop_back();
      took.push_back(since(each));
      S3O_TRY(go_on(since(begun) / options_.seconds));
    }
    add("sync_write_4k", "durable write, 4 KiB", "1/s",
        static_cast<double>(took.size()) / since(begun));
    add_latency("sync_write_4k", took);
    return {};
  }

  // ---- names

  std::string name(std::size_t number, const char* of = "file") const {
    return (place_.directory() / fmt::format("{}-{:05}", of, number)).string();
  }

  /// Calls each(number) for files 0, 1, ...: for `most` of them, or as long as there is time.
  template <class Each>
  Result<std::size_t> for_files(const std::string& measured, const std::string& doing,
                                std::size_t most, bool all, Each each) {
    S3O_TRY(begin(doing));
    std::size_t done = 0;
    const auto begun = Steady::now();
    for (; done < most && (all || done == 0 || since(begun) < options_.seconds); ++done) {
      if (!each(done)) return failure(doing.c_str());
      S3O_TRY(go_on(std::max(static_cast<double>(done) / static_cast<double>(most),
                             all ? 0 : since(begun) / options_.seconds)));
    }
    add(measured, doing, "1/s", static_cast<double>(done) / since(begun));
    return done;
  }

  Status use_files() {
    const auto made = for_files("create", "create files", kFiles, false, [&](std::size_t number) {
      const Descriptor file(
          ::open(name(number).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      return file.get() >= 0;
    });
    if (!made) return fail(made.error());
    auto done = for_files("stat", "stat files", *made, true, [&](std::size_t number) {
      struct stat status {};
      return ::stat(name(number).c_str(), &status) == 0;
    });
    if (!done) return fail(done.error());
    S3O_TRY(list(*made));
    done = for_files("rename", "rename files", *made, true, [&](std::size_t number) {
      return ::rename(name(number).c_str(), name(number, "renamed").c_str()) == 0;
    });
    if (!done) return fail(done.error());
    done = for_files("delete", "delete files", *made, true, [&](std::size_t number) {
      return ::unlink(name(number, "renamed").c_str()) == 0;
    });
    if (!done) return fail(done.error());
    return {};
  }

  Status list(std::size_t files) {
    S3O_TRY(begin("list files"));
    const auto begun = Steady::now();
    DIR* directory = ::opendir(place_.directory().c_str());
    if (!directory) return failure("listing");
    std::size_t seen = 0;
    while (::readdir(directory)) ++seen;
    ::closedir(directory);
    const double took = since(begun);
    if (seen < files)
      return fail(Errc::corrupt, "{} files were created, but {} are there", files, seen);
    add("list", "list files", "1/s", static_cast<double>(seen) / took);
    return {};
  }

  const BenchPlace& place_;
  const BenchOptions options_;
  const BenchProgress& progress_;
  const std::filesystem::path path_;
  const std::uint64_t pieces_;
  Bytes noise_;
  std::mt19937_64 chance_{1};  // a fixed seed: the same places each time
  std::string doing_;
  unsigned step_ = 0;
  std::vector<Measurement> found_;
};

}  // namespace

double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

Result<std::vector<Measurement>> measure_place(const BenchPlace& place, const BenchOptions& options,
                                               const BenchProgress& progress) {
  return Bench(place, options, progress).run();
}

}  // namespace s3oram
