// Random runs of the simulator.
//
//   sim_run [--mirror | --ring] [--lose-client | --lose-server] [--seed N] [--runs N] [--seconds N]
//           [--verbose]
//
// Runs seeds N, N+1, ... (starting from a random seed if none is given) until `runs` have run or
// `seconds` have passed, and prints what they covered. A run that fails ends the program, with exit
// code 1 and the line that replays it. With --lose-client the client now and then loses its disk
// when it dies, and its state is rebuilt from the servers; with --lose-server a server does, and
// its shares are rebuilt from the others'. --verbose shows what the programs log.
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/sim/simulation.h"

namespace s3oram::test {
namespace {

std::uint64_t g_seed = 0;
Loser g_loser = Loser::nobody;
SchemeKind g_kind = SchemeKind::s3oram;
constexpr const char* kOptions[] = {"", " --lose-client", " --lose-server"};  // by Loser

const char* kind_option() {
  return g_kind == SchemeKind::mirror ? " --mirror" : g_kind == SchemeKind::ring ? " --ring" : "";
}

void print_replay() {
  std::fprintf(stderr, "replay with: sim_run%s%s --seed %llu --runs 1 --verbose   (source %s)\n",
               kind_option(), kOptions[static_cast<int>(g_loser)],
               static_cast<unsigned long long>(g_seed), S3O_REVISION);
}

int run(std::uint64_t first, std::uint64_t runs, double seconds) {
  // A fault may end the process, so say where before it does.
  std::set_terminate([] {
    print_replay();
    std::abort();
  });
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::printf("source %s, first seed %llu\n", S3O_REVISION, static_cast<unsigned long long>(first));
  RunReport sum;
  std::uint64_t grown = 0, done = 0, steps = 0;
  for (; done < runs && passed() < seconds; ++done) {
    g_seed = first + done;
    const RunReport report = simulate(g_seed, g_loser, g_kind);
    if (runs == 1)
      std::printf("%s, trace %016llx\n", report.shape.c_str(),
                  static_cast<unsigned long long>(report.trace));
    if (!report.failure.empty()) {
      std::printf("seed %llu (%s): %s\n", static_cast<unsigned long long>(g_seed),
                  report.shape.c_str(), report.failure.c_str());
      std::fflush(stdout);
      print_replay();
      return 1;
    }
    steps += report.steps;
    sum.operations += report.operations;
    sum.troubles += report.troubles;
    sum.cuts += report.cuts;
    sum.evictions += report.evictions;
    sum.rebuilds += report.rebuilds;
    sum.repairs += report.repairs;
    grown += report.height > 1;
    sum.coverage.add(report.coverage);
  }
  std::printf(
      "%llu runs in %.1f s: %llu operations, %llu troubles, %llu power cuts, %llu evictions, the "
      "tree grew in %llu runs, %llu rebuilds, %llu repairs, %llu steps\n",
      static_cast<unsigned long long>(done), passed(),
      static_cast<unsigned long long>(sum.operations),
      static_cast<unsigned long long>(sum.troubles), static_cast<unsigned long long>(sum.cuts),
      static_cast<unsigned long long>(sum.evictions), static_cast<unsigned long long>(grown),
      static_cast<unsigned long long>(sum.rebuilds), static_cast<unsigned long long>(sum.repairs),
      static_cast<unsigned long long>(steps));
  std::printf("power cuts by what had been persisted (step, parties: times):\n%s",
              sum.coverage.table(4).c_str());
  return 0;
}

}  // namespace
}  // namespace s3oram::test

int main(int argc, char** argv) {
  CLI::App app("Random runs of the simulator");
  std::uint64_t seed = std::random_device{}(), runs = ~std::uint64_t{0};
  double seconds = 60;
  bool verbose = false, lose = false, lose_server = false, mirror = false, ring = false;
  app.add_option("--seed", seed, "the first seed");
  app.add_option("--runs", runs, "at most so many runs");
  app.add_option("--seconds", seconds, "no new run after so long")->capture_default_str();
  app.add_flag("--lose-client", lose, "the client loses its disk when it dies, now and then");
  app.add_flag("--lose-server", lose_server, "so does a server, one at a time")
      ->excludes("--lose-client");
  app.add_flag("--mirror", mirror, "volumes of mirror instead of s3oram");
  app.add_flag("--ring", ring, "volumes of ring, which has one server")
      ->excludes("--mirror")
      ->excludes("--lose-server");
  app.add_flag("--verbose", verbose, "show what the programs log");
  CLI11_PARSE(app, argc, argv);
  // Files in memory come and go; do not ask the kernel for memory each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  spdlog::set_level(verbose ? spdlog::level::debug : spdlog::level::off);
  if (lose) s3oram::test::g_loser = s3oram::test::Loser::client;
  if (lose_server) s3oram::test::g_loser = s3oram::test::Loser::server;
  if (mirror) s3oram::test::g_kind = s3oram::SchemeKind::mirror;
  if (ring) s3oram::test::g_kind = s3oram::SchemeKind::ring;
  return s3oram::test::run(seed, runs, seconds);
}
