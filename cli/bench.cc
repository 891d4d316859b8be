// s3oramfs bench: measures how fast a volume is, or compares directories.
#include <iostream>
#include <memory>

#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/json_text.h"
#include "cli/picture_file.h"
#include "cli/progress_bar.h"
#include "oramcore/base/help.h"

namespace s3oram {
namespace {

constexpr std::uint64_t kLeast = 1 << 20;

/// Measures one column after another. After an error, the columns before it are kept.
Status measure(const std::vector<std::string>& targets, const BenchOptions& options,
               std::vector<BenchColumn>& columns) {
  const Interrupts interrupts;
  std::vector<std::unique_ptr<BenchPlace>> places;  // all are created before the first is measured
  for (const std::string& target : targets) {
    S3O_ASSIGN(auto place, BenchPlace::make(target, options.size));
    places.push_back(std::move(place));
  }
  ProgressBar bar;
  const auto all = static_cast<double>(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string& target = targets[i];
    if (places[i]->keeps_memory())
      std::cerr << "s3oramfs: " << target
                << ": the vault is another user's, and its daemon keeps in "
                << "memory what was written: reads will seem faster than they are\n";
    const auto before = static_cast<double>(i);
    auto found = measure_place(*places[i], options, [&](double done, const std::string& doing) {
      bar.show((before + done) / all,
               targets.size() > 1 ? fmt::format("{}: {}", target, doing) : doing);
    });
    if (!found) return fail(found.error().code, "{}: {}", target, found.error().message);
    columns.push_back({target, places[i]->filesystem(), std::move(*found)});
    bar.show((before + 1) / all, "removing what was written");
    places[i] = nullptr;
  }
  return {};
}

}  // namespace

Status run_bench(const Args& args) {
  CLI::App app(
      "Measures the speed of mounted vaults or other directories, side by side.\n"
      "It works in a new subdirectory, and removes it even if it is interrupted.",
      "s3oramfs bench");
  std::vector<std::string> targets;
  std::string picture;
  BenchOptions options;
  bool as_json = false;
  app.add_option("VAULT|DIRECTORY", targets, "What to measure; default: the current directory");
  app.add_option("--size", options.size, "How much to write and read")
      ->transform(size_from(kLeast))
      ->default_str(short_size(options.size))
      ->type_name("SIZE");
  app.add_option("--seconds", options.seconds, "Longest time of each other measurement")
      ->capture_default_str()
      ->type_name("SECONDS");
  app.add_option("--plot", picture, "Also draw a picture: FILE ends in .svg or .png")
      ->type_name("FILE");
  app.add_flag("--json", as_json, "Print JSON, for programs");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  if (!(options.seconds > 0)) return fail(Errc::usage, "--seconds: give more than 0");
  if (targets.empty()) targets.push_back(".");
  if (!picture.empty()) S3O_TRY(check_picture(picture));

  std::vector<BenchColumn> columns;
  Status measured = measure(targets, options, columns);
  if (columns.empty()) return measured;
  if (as_json)
    std::cout << json_text(bench_json(columns, options)) << "\n";
  else
    std::cout << bench_table(columns);
  if (!picture.empty()) S3O_TRY(write_picture(picture, bench_picture(columns)));
  return measured;
}

}  // namespace s3oram
