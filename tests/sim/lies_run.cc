// Random lies, for as long as you like:
//
//   lies_run [--mirror [--servers N]] [--seed N] [--runs N] [--rounds N] [--seconds N] [--verbose]
//
// Runs seeds N, N+1, ..., each with this many rounds of lies in two volumes (lies.h), until `runs`
// have run or `seconds` have passed. A run that fails ends the program, with exit code 1 and the
// line that replays it. Says every minute what it has done so far. SIGTERM or SIGINT ends it after
// the round under way, which is checked like any last one; a second signal ends it at once.
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <random>

#include "tests/sim/lies.h"

namespace s3oram::test {
namespace {

constexpr double kTellEvery = 60;  // seconds

volatile sig_atomic_t stopped = 0;

void stop(int number) {
  stopped = 1;
  signal(number, SIG_DFL);
}

/// The work of all runs so far.
class Tally {
 public:
  void add(const LiesReport& report) {
    ++runs;
    failures += !report.failure.empty();
    sum_.lies += report.lies;
    sum_.rounds += report.rounds;
    sum_.accesses += report.accesses;
    sum_.failed += report.failed;
    sum_.named += report.named;
    sum_.stopped += report.stopped;
    sum_.stalls += report.stalls;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }
  void tell() const {
    std::printf(
        "%llu runs in %.1f s: %llu lies in %llu rounds, %llu accesses, %llu of them failed; the "
        "liar was named after %llu rounds, evictions stopped after %llu; a lie delayed something "
        "%llu times; %llu runs failed\n",
        static_cast<unsigned long long>(runs), seconds(),
        static_cast<unsigned long long>(sum_.lies), static_cast<unsigned long long>(sum_.rounds),
        static_cast<unsigned long long>(sum_.accesses),
        static_cast<unsigned long long>(sum_.failed), static_cast<unsigned long long>(sum_.named),
        static_cast<unsigned long long>(sum_.stopped), static_cast<unsigned long long>(sum_.stalls),
        static_cast<unsigned long long>(failures));
    std::fflush(stdout);
  }

  std::uint64_t runs = 0, failures = 0;

 private:
  LiesReport sum_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace
}  // namespace s3oram::test

int main(int argc, char** argv) {
  using namespace s3oram;
  using namespace s3oram::test;
  CLI::App app("Random lies in the simulator");
  std::uint64_t first = std::random_device{}(), runs = ~std::uint64_t{0};
  unsigned rounds = 100, servers = 3;
  double seconds = 60;
  bool mirror = false, verbose = false, go_on = false;
  app.add_flag("--mirror", mirror, "in a mirror, not in s3oram");
  app.add_option("--servers", servers, "in a mirror: 2 to 4")
      ->check(CLI::Range(2, 4))
      ->capture_default_str();
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
  signal(SIGTERM, stop);
  signal(SIGINT, stop);
  Tally tally;
  double tell_at = kTellEvery;
  while (tally.runs < runs && tally.seconds() < seconds && stopped == 0) {
    const std::uint64_t seed = first + tally.runs;
    LiesReport report;
    try {
      report = live_with_lies(seed, rounds, mirror ? Evictor::selection : Evictor::shuffle,
                              static_cast<Party>(servers), [] { return stopped == 0; });
    } catch (const std::exception& error) {
      report.failure = error.what();
    }
    tally.add(report);
    if (!report.failure.empty()) {
      std::printf("%s\nreplay with: lies_run%s --seed %llu --rounds %u --runs 1 --verbose\n",
                  report.failure.c_str(),
                  mirror ? fmt::format(" --mirror --servers {}", servers).c_str() : "",
                  static_cast<unsigned long long>(seed),
                  stopped == 0 ? rounds : static_cast<unsigned>(report.rounds));
      std::fflush(stdout);
      if (!go_on) break;
    }
    if (tally.seconds() < tell_at) continue;
    tally.tell();
    tell_at = tally.seconds() + kTellEvery;
  }
  tally.tell();
  return tally.failures > 0 ? 1 : 0;
}
