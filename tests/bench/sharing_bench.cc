// Measures sharing and recovering a block. GB/s counts the secret's bytes; each server's share has
// as many.
#include <benchmark/benchmark.h>

#include "oramcore/sharing/shamir.h"
#include "oramcore/sharing/share_mark.h"

namespace s3oram {
namespace {

constexpr std::size_t kBlock = 131072;

void bench_create_shares(benchmark::State& state) {
  const Scheme scheme{static_cast<std::uint8_t>(state.range(0)),
                      static_cast<std::uint8_t>(state.range(1))};
  const Bytes secret(kBlock, 0x5a);
  Prg random(Seed{}, as_bytes("sharing_bench"));
  std::vector<Bytes> shares(scheme.servers, Bytes(kBlock));
  const std::vector<MutableByteSpan> views(shares.begin(), shares.end());
  for (auto _ : state) {
    create_shares(scheme, secret, random, views);
    benchmark::DoNotOptimize(shares.data());
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kBlock / 1e9, benchmark::Counter::kIsRate);
}
BENCHMARK(bench_create_shares)->ArgNames({"t", "l"})->Args({1, 3})->Args({1, 4})->Args({2, 5});

/// A bound for create_shares: its random bytes alone, for t = 1.
void bench_random_bytes(benchmark::State& state) {
  Prg random(Seed{}, as_bytes("sharing_bench"));
  Bytes out(kBlock);
  for (auto _ : state) {
    random.fill(out);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kBlock / 1e9, benchmark::Counter::kIsRate);
}
BENCHMARK(bench_random_bytes);

/// The mark of a bucket of 16 slots, which a server computes once for each bucket that an eviction
/// writes.
void bench_share_mark(benchmark::State& state) {
  Prg random(Seed{}, as_bytes("sharing_bench"));
  std::vector<Bytes> shares(16, Bytes(kBlock));
  std::vector<const std::uint8_t*> slots;
  for (Bytes& share : shares) {
    random.fill(share);
    slots.push_back(share.data());
  }
  const ShareMark mark(Seed{}, kBlock);
  for (auto _ : state) benchmark::DoNotOptimize(mark.of(slots));
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * shares.size()) * kBlock / 1e9,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(bench_share_mark);

void bench_recover(benchmark::State& state) {
  Prg random(Seed{}, as_bytes("sharing_bench"));
  const auto shares =
      create_shares(Scheme{}, Bytes(static_cast<std::size_t>(state.range(0))), random);
  const std::vector<ByteSpan> views(shares.begin(), shares.end());
  const Bytes points = {1, 2, 3};
  for (auto _ : state) benchmark::DoNotOptimize(recover(points, views));
}
BENCHMARK(bench_recover)->ArgName("length")->Arg(4096)->Arg(kBlock);

void bench_lagrange(benchmark::State& state) {
  const Bytes points = {1, 2, 3};
  for (auto _ : state) benchmark::DoNotOptimize(lagrange_at_zero(points));
}
BENCHMARK(bench_lagrange);

}  // namespace
}  // namespace s3oram
