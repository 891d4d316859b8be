// s3oramfs top: shows live what a mounted vault does.
#include <unistd.h>

#include <chrono>
#include <deque>
#include <iostream>
#include <thread>

#include "cli/bench_place.h"
#include "cli/command.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/top_text.h"
#include "cli/vault_argument.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr std::size_t kMostSamples = 240;

double seconds_of_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Shows the text. On a terminal it replaces what was shown before; elsewhere it follows it.
void show(const std::string& text) {
  constexpr const char* kFromTheTop = "\033[H\033[J";
  if (::isatty(STDOUT_FILENO) == 1) std::cout << kFromTheTop;
  std::cout << printable_lines(text) << std::flush;
}

}  // namespace

Status run_top(const Args& args) {
  CLI::App app("Shows the activity of a mounted vault every second, until it is interrupted.",
               "s3oramfs top");
  std::string name;
  unsigned count = 0;
  add_vault(app, "VAULT", name, "The vault, or the directory where it is mounted");
  app.add_option("--count", count, "Stop after N updates")
      ->type_name("N")
      ->check(CLI::Range(1U, 1U << 30));
  S3O_ASSIGN(const auto parsed, parse(app, args));
  if (!parsed) return {};
  S3O_TRY(become_owner(name));
  const auto mount = find_mount(name);
  S3O_ASSIGN(const auto vault, find_vault(mount ? mount->vault : std::filesystem::path(name)));
  const Interrupts interrupts;
  std::deque<TopSample> samples;
  for (unsigned shown = 0; !interrupted() && (count == 0 || shown < count); ++shown) {
    if (shown > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    S3O_ASSIGN(const auto status, ask_daemon(vault, "status", kStatusPatience));
    samples.push_back(top_sample(status, seconds_of_clock()));
    if (samples.size() > kMostSamples) samples.pop_front();
    show(top_text(samples, vault.directory().string(), terminal_width()));
  }
  return {};
}

}  // namespace s3oram
