// Random lies, for as long as you like:
//
//   lies_run [--mirror] [--seed N] [--runs N] [--rounds N] [--seconds N] [--verbose]
//
// Runs seeds N, N+1, ..., each with this many rounds of lies in two volumes (lies.h), until `runs`
// have run or `seconds` have passed. A run that fails ends the program, with exit code 1 and the
// line that replays it.
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <random>

#include "tests/sim/lies.h"

int main(int argc, char** argv) {
  using namespace s3oram;
  using namespace s3oram::test;
  CLI::App app("Random lies in the simulator");
  std::uint64_t first = std::random_device{}(), runs = ~std::uint64_t{0};
  unsigned rounds = 100;
  double seconds = 60;
  bool mirror = false, verbose = false, go_on = false;
  app.add_flag("--mirror", mirror, "in a mirror, not in s3oram");
  app.add_option("--seed", first, "the first seed");
  app.add_option("--runs", runs, "at most so many runs");
  app.add_option("--rounds", rounds, "rounds of each")->capture_default_str();
  app.add_option("--seconds", seconds, "no new run after so long")->capture_default_str();
  app.add_flag("--go-on", go_on, "go on after a run that fails");
  app.add_flag("--verbose", verbose, "show what the programs log");
  CLI11_PARSE(app, argc, argv);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  spdlog::set_level(verbose ? spdlog::level::debug : spdlog::level::off);
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  LiesReport sum;
  std::uint64_t done = 0, failures = 0;
  for (; done < runs && passed() < seconds; ++done) {
    const std::uint64_t seed = first + done;
    LiesReport report;
    try {
      report = live_with_lies(seed, rounds, mirror ? Evictor::selection : Evictor::shuffle);
    } catch (const std::exception& error) {
      report.failure = error.what();
    }
    sum.lies += report.lies;
    sum.rounds += report.rounds;
    sum.accesses += report.accesses;
    sum.failed += report.failed;
    sum.named += report.named;
    sum.stopped += report.stopped;
    if (report.failure.empty()) continue;
    std::printf("%s\nreplay with: lies_run%s --seed %llu --rounds %u --runs 1 --verbose\n",
                report.failure.c_str(), mirror ? " --mirror" : "",
                static_cast<unsigned long long>(seed), rounds);
    std::fflush(stdout);
    ++failures;
    if (!go_on) break;
  }
  std::printf(
      "%llu runs in %.1f s: %llu lies in %llu rounds, %llu accesses, %llu of them failed; the liar "
      "was named after %llu rounds, evictions stopped after %llu; %llu runs failed\n",
      static_cast<unsigned long long>(done), passed(), static_cast<unsigned long long>(sum.lies),
      static_cast<unsigned long long>(sum.rounds), static_cast<unsigned long long>(sum.accesses),
      static_cast<unsigned long long>(sum.failed), static_cast<unsigned long long>(sum.named),
      static_cast<unsigned long long>(sum.stopped), static_cast<unsigned long long>(failures));
  return failures > 0 ? 1 : 0;
}
