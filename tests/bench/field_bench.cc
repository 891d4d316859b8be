// The field's kernels against the memory of this machine, measured in the same run:
//   bin/field_bench
// GB/s is payload: bytes of rows for the inner product; for the matrix product bytes of rows once
// for each multiply-add. of_read is the inner product over a plain read of the same rows, the two
// taken in turns.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "oramcore/base/random.h"
#include "oramcore/field/gf256.h"

namespace s3oram {
namespace {

constexpr std::size_t kStore = std::size_t{256} << 20;  // far more than the caches hold

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Bytes random_bytes(std::size_t size) {
  Bytes bytes(size);
  Prg(Seed{}, as_view("field_bench")).fill(bytes);
  return bytes;
}

/// Shared by all threads of a benchmark: rows are only read.
const Bytes& store() {
  static const Bytes bytes = random_bytes(kStore);
  return bytes;
}

std::vector<const std::uint8_t*> rows_of(View bytes, std::size_t length) {
  std::vector<const std::uint8_t*> rows;
  for (std::size_t at = 0; at + length <= bytes.size(); at += length)
    rows.push_back(bytes.data() + at);
  return rows;
}

/// XOR of all words: as little work as a read can come with.
std::uint64_t read_all(View bytes) {
  constexpr std::size_t kWords = 16;
  std::uint64_t sums[kWords] = {};
  for (std::size_t at = 0; at + sizeof sums <= bytes.size(); at += sizeof sums) {
    std::uint64_t words[kWords];
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < kWords; ++i) sums[i] ^= words[i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum ^= part;
  return sum;
}

/// Retrieval: (kernel, bytes a row).
void bench_inner_product(benchmark::State& state) {
  const auto before = gf::kernel();
  const auto kernel = static_cast<gf::Kernel>(state.range(0));
  if (!gf::use(kernel)) return state.SkipWithError("not on this machine");
  const auto length = static_cast<std::size_t>(state.range(1));
  // Each thread has its part of the rows, as the workers of a server have.
  const std::size_t part = kStore / static_cast<std::size_t>(state.threads());
  const View mine =
      View(store()).subspan(part * static_cast<std::size_t>(state.thread_index()), part);
  const auto rows = rows_of(mine, length);
  const Bytes coefficients = random_bytes(rows.size());
  Bytes out(length);
  double multiplying = 0;
  double reading = 0;
  for (auto _ : state) {
    reading += seconds([&] { benchmark::DoNotOptimize(read_all(mine)); });
    const double time = seconds([&] { gf::inner_product(coefficients, rows, out); });
    benchmark::DoNotOptimize(out.data());
    multiplying += time;
    state.SetIterationTime(time);
  }
  using benchmark::Counter;
  const double bytes = static_cast<double>(state.iterations()) * static_cast<double>(mine.size());
  state.counters["GB/s"] = Counter(bytes / multiplying / 1e9);
  state.counters["read_GB/s"] = Counter(bytes / reading / 1e9);
  state.counters["of_read"] = Counter(reading / multiplying, Counter::kAvgThreads);
  state.SetLabel(std::string(gf::name(kernel)));
  gf::use(before);
}

/// Eviction: (kernel, Z, bytes a row); 2Z rows times a 2Z x Z matrix.
void bench_matrix_product(benchmark::State& state) {
  const auto before = gf::kernel();
  const auto kernel = static_cast<gf::Kernel>(state.range(0));
  if (!gf::use(kernel)) return state.SkipWithError("not on this machine");
  const auto columns = static_cast<std::size_t>(state.range(1));
  const auto length = static_cast<std::size_t>(state.range(2));
  const std::size_t count = 2 * columns;
  const Bytes matrix = random_bytes(count * columns);
  const auto rows = rows_of(View(store()).first(count * length), length);
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
  gf::use(before);
}

const std::int64_t kAvx2 = static_cast<std::int64_t>(gf::Kernel::avx2);
const std::int64_t kSsse3 = static_cast<std::int64_t>(gf::Kernel::ssse3);
const std::int64_t kPortable = static_cast<std::int64_t>(gf::Kernel::portable);

BENCHMARK(bench_inner_product)
    ->ArgNames({"kernel", "length"})
    ->ArgsProduct({{kAvx2}, {4096, 4136, 131072}})
    ->ThreadRange(1, 2)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_inner_product)
    ->ArgNames({"kernel", "length"})
    ->ArgsProduct({{kSsse3, kPortable}, {131072}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_matrix_product)
    ->ArgNames({"kernel", "Z", "length"})
    ->ArgsProduct({{kAvx2, kSsse3, kPortable}, {16, 64, 333}, {4096}})
    ->ArgsProduct({{kAvx2}, {16, 64, 333}, {131072}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace s3oram
