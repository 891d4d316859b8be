// Compares the field's kernels with the memory of this machine, in the same run:
//   bin/field_bench
// GB/s counts the payload: for the inner product, the bytes of the rows; for the matrix product,
// the bytes of the rows once for each multiply-add. of_read is the rate of the inner product
// divided by that of the faster of two plain reads of the same rows (in_order and abreast, GB/s).
// All three take turns, and the medians of the turns count. The sum and the bit product are those
// of a mirror: over half of the rows, and in an eviction.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <ctime>
#include <string>

#include "oramcore/base/random.h"
#include "oramcore/field/gf256.h"

namespace s3oram {
namespace {

const gf::Kernel kBest = gf::kernel();
constexpr std::size_t kStore = std::size_t{256} << 20;  // far more than the caches hold

/// Returns the processor time of this thread, so that other work on the machine does not count.
double seconds(const auto& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

Bytes random_bytes(std::size_t size) {
  Bytes bytes(size);
  Prg(Seed{}, as_bytes("field_bench")).fill(bytes);
  return bytes;
}

/// Shared by all threads of a benchmark: rows are only read.
const Bytes& store() {
  static const Bytes bytes = random_bytes(kStore);
  return bytes;
}

std::vector<const std::uint8_t*> rows_of(ByteSpan bytes, std::size_t length) {
  std::vector<const std::uint8_t*> rows;
  for (std::size_t at = 0; at + length <= bytes.size(); at += length)
    rows.push_back(bytes.data() + at);
  return rows;
}

// A plain read: the XOR of all words, the least work that a read can come with, in the widest
// vectors that the machine has. Which order is faster depends on the machine, so both are measured,
// and the kernel is compared with the faster one.
using Vector = std::uint64_t __attribute__((vector_size(64)));
#ifdef __x86_64__
#define S3O_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define S3O_WIDEST
#endif
constexpr std::size_t kRows = 8;

std::uint64_t fold(const Vector (&sums)[kRows]) {
  Vector sum = {};
  for (const Vector& part : sums) sum ^= part;
  std::uint64_t words = 0;
  for (std::size_t i = 0; i < sizeof sum / sizeof words; ++i) words ^= sum[i];
  return words;
}

/// Reads from the first byte to the last.
S3O_WIDEST std::uint64_t read_in_order(const std::uint8_t* from, std::size_t size) {
  Vector sums[kRows] = {};
  for (std::size_t at = 0; at + sizeof sums <= size; at += sizeof sums)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      __builtin_prefetch(from + at + 4096 + i * sizeof(Vector), 0, 3);
      Vector words;
      std::memcpy(&words, from + at + i * sizeof words, sizeof words);
      sums[i] ^= words;
    }
  return fold(sums);
}

/// Reads eight rows of `length` bytes abreast, and fetches the next eight meanwhile.
S3O_WIDEST std::uint64_t read_abreast(const std::uint8_t* from, std::size_t size,
                                      std::size_t length) {
  Vector sums[kRows] = {};
  for (; size >= kRows * length; from += kRows * length, size -= kRows * length)
    for (std::size_t at = 0; at + sizeof(Vector) <= length; at += sizeof(Vector))
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kRows; ++i) {
        __builtin_prefetch(from + (kRows + i) * length + at, 0, 3);
        Vector words;
        std::memcpy(&words, from + i * length + at, sizeof words);
        sums[i] ^= words;
      }
  return fold(sums);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Retrieval: (kernel, bytes a row).
void bench_inner_product(benchmark::State& state) {
  const auto kernel = static_cast<gf::Kernel>(state.range(0));
  if (!gf::use(kernel)) return state.SkipWithError("not on this machine");
  const auto length = static_cast<std::size_t>(state.range(1));
  // Each thread gets its part of the rows, as a server's workers do.
  const std::size_t part = kStore / static_cast<std::size_t>(state.threads());
  const ByteSpan mine =
      ByteSpan(store()).subspan(part * static_cast<std::size_t>(state.thread_index()), part);
  const auto rows = rows_of(mine, length);
  const Bytes coefficients = random_bytes(rows.size());
  Bytes out(length);
  // Both threads do the same work at the same time.
  static std::barrier<> both(2);
  const auto timed = [&](const auto& work) {
    if (state.threads() == 2) both.arrive_and_wait();
    return seconds(work);
  };
  std::vector<double> in_order, abreast, multiplying;
  for (auto _ : state) {
    in_order.push_back(
        timed([&] { benchmark::DoNotOptimize(read_in_order(mine.data(), mine.size())); }));
    multiplying.push_back(timed([&] {
      gf::inner_product(coefficients, rows, out);
      benchmark::DoNotOptimize(out.data());
    }));
    abreast.push_back(
        timed([&] { benchmark::DoNotOptimize(read_abreast(mine.data(), mine.size(), length)); }));
    state.SetIterationTime(multiplying.back());
  }
  using benchmark::Counter;
  const double gigabytes = static_cast<double>(mine.size()) / 1e9;
  const double product = median(multiplying);
  const double ordered = median(in_order);
  const double eight = median(abreast);
  state.counters["GB/s"] = Counter(gigabytes / product);
  state.counters["in_order"] = Counter(gigabytes / ordered);
  state.counters["abreast"] = Counter(gigabytes / eight);
  state.counters["of_read"] = Counter(std::min(ordered, eight) / product, Counter::kAvgThreads);
  state.SetLabel(std::string(gf::name(kernel)));
  gf::use(kBest);
}

/// Eviction: (kernel, Z, bytes a row); 2Z rows times a 2Z x Z matrix.
void bench_matrix_product(benchmark::State& state) {
  const auto kernel = static_cast<gf::Kernel>(state.range(0));
  if (!gf::use(kernel)) return state.SkipWithError("not on this machine");
  const auto columns = static_cast<std::size_t>(state.range(1));
  const auto length = static_cast<std::size_t>(state.range(2));
  const std::size_t count = 2 * columns;
  const Bytes matrix = random_bytes(count * columns);
  const auto rows = rows_of(ByteSpan(store()).first(count * length), length);
  Bytes out(columns * length);
  std::vector<std::uint8_t*> outs;
  for (std::size_t k = 0; k < columns; ++k) outs.push_back(out.data() + k * length);
  double multiplying = 0;
  for (auto _ : state) {
    const double time = seconds([&] { gf::matrix_product(matrix, rows, outs, length); });
    benchmark::DoNotOptimize(out.data());
    multiplying += time;
    state.SetIterationTime(time);
  }
  const double payload = static_cast<double>(count * columns * length);
  state.counters["GB/s"] = static_cast<double>(state.iterations()) * payload / multiplying / 1e9;
  state.SetLabel(std::string(gf::name(kernel)));
  gf::use(kBest);
}

/// Retrieval of a mirror: (kernel, bytes a row); the sum of half of the rows, chosen at random,
/// over a plain read of as many bytes.
void bench_sum(benchmark::State& state) {
  const auto kernel = static_cast<gf::Kernel>(state.range(0));
  if (!gf::use(kernel)) return state.SkipWithError("not on this machine");
  const auto length = static_cast<std::size_t>(state.range(1));
  const auto rows = rows_of(store(), length);
  const Bytes coins = random_bytes(rows.size());
  std::vector<const std::uint8_t*> chosen;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (coins[i] & 1) chosen.push_back(rows[i]);
  Bytes out(length);
  std::vector<double> reading, adding;
  for (auto _ : state) {
    reading.push_back(
        seconds([&] { benchmark::DoNotOptimize(read_in_order(store().data(), kStore)); }));
    adding.push_back(seconds([&] {
      gf::sum(chosen, out);
      benchmark::DoNotOptimize(out.data());
    }));
    state.SetIterationTime(adding.back());
  }
  const double rate = static_cast<double>(chosen.size() * length) / median(adding);
  state.counters["GB/s"] = rate / 1e9;
  state.counters["of_read"] = rate / (static_cast<double>(kStore) / median(reading));
  state.SetLabel(std::string(gf::name(kernel)));
  gf::use(kBest);
}

/// Eviction of a mirror: (kernel, rows, of which all but 20 are made, bytes a row), in tiles as the
/// servers have them.
void bench_bit_product(benchmark::State& state) {
  const auto kernel = static_cast<gf::Kernel>(state.range(0));
  if (!gf::use(kernel)) return state.SkipWithError("not on this machine");
  const auto count = static_cast<std::size_t>(state.range(1));
  const auto length = static_cast<std::size_t>(state.range(2));
  constexpr std::size_t kTile = 768, kDropped = 20;
  const Bytes bits = random_bytes((count - kDropped) * gf::bit_row(count));
  const auto rows = rows_of(ByteSpan(store()).first(count * length), length);
  Bytes out((count - kDropped) * kTile);
  std::vector<std::uint8_t*> outs;
  for (std::size_t k = 0; k < count - kDropped; ++k) outs.push_back(out.data() + k * kTile);
  double multiplying = 0;
  for (auto _ : state) {
    const double time = seconds([&] {
      auto columns = rows;
      for (std::size_t begin = 0; begin + kTile <= length; begin += kTile) {
        gf::bit_product(bits, columns, outs, kTile);
        for (const std::uint8_t*& row : columns) row += kTile;
      }
    });
    benchmark::DoNotOptimize(out.data());
    multiplying += time;
    state.SetIterationTime(time);
  }
  state.counters["ms/access"] =
      1e3 * multiplying / static_cast<double>(state.iterations()) / kDropped;
  state.SetLabel(std::string(gf::name(kernel)));
  gf::use(kBest);
}

/// The kernels of this machine, the best one last.
std::vector<std::int64_t> kernels_here() {
  std::vector<std::int64_t> kernels;
  for (const gf::Kernel kernel : gf::kKernels)
    if (gf::use(kernel)) kernels.push_back(static_cast<std::int64_t>(kernel));
  gf::use(kBest);
  return kernels;
}
const std::int64_t kBestHere = static_cast<std::int64_t>(kBest);

// Slots of 4 KiB and of 128 KiB, without and with what the client adds to a block.
BENCHMARK(bench_inner_product)
    ->ArgNames({"kernel", "length"})
    ->ArgsProduct({kernels_here(), {4096, 4176, 131072, 131152}})
    ->ThreadRange(1, 2)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_sum)
    ->ArgNames({"kernel", "length"})
    ->ArgsProduct({kernels_here(), {4096, 66640, 132176}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_bit_product)
    ->ArgNames({"kernel", "rows", "length"})
    ->ArgsProduct({kernels_here(), {260, 356}, {65536}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_matrix_product)
    ->ArgNames({"kernel", "Z", "length"})
    ->ArgsProduct({kernels_here(), {16, 64, 333}, {4096}})
    ->ArgsProduct({{kBestHere}, {16, 64, 333}, {131072}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace s3oram
