// s3oramfs record plot: a page of what a server has recorded (s3oramfs-serverd --record).
#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/page_file.h"
#include "cli/record_picture.h"
#include "oramcore/base/help.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

const std::vector<std::string> kAfter{
    "Each access reads one path from the root to a leaf (of a ring, below what its client keeps, "
    "and one point of each bucket). The path is chosen uniformly at random, whichever block is "
    "wanted: \"Are all paths as likely?\" is the probability of counts at least as uneven as these "
    "if that is so (the chi-square test; of the accesses since the tree last grew). "
    "Only a value near 0 speaks against it. Evictions write paths in a fixed order.",
    "When accesses happen, and how many, does show: docs/leakage.md says to whom, and what else."};

RecordStretch stretch_of(Record record, const std::string& title) {
  RecordStretch stretch{title, "", {}, {}};
  const auto [first, last] = std::minmax_element(
      record.requests.begin(), record.requests.end(),
      [](const RecordedRequest& a, const RecordedRequest& b) { return a.time < b.time; });
  stretch.begin = first->time;
  stretch.seconds = last->time - first->time;
  stretch.seen = std::move(record.requests);
  return stretch;
}

Status plot(const std::string& file, const std::string& output) {
  S3O_ASSIGN(const auto page, PageFile::check(output));
  S3O_ASSIGN(auto record, read_record(file));
  if (record.requests.empty())
    return fail(Errc::usage, "{}: nothing is recorded in it yet; use the vault, and try again",
                file);
  std::vector<std::string> before{
      "Everything that the server read and wrote while this was recorded."};
  if (record.left_out > 0)
    before.push_back(
        fmt::format("{} lines are missing: the disk was slower than the server.", record.left_out));
  const RecordStretch stretch = stretch_of(std::move(record), "What one s3oramfs server sees");
  const FindingsTable table = describe(stretch);
  S3O_TRY(page.write(record_picture(stretch, table), [&] {
    return record_page(stretch.title, before, record_picture(stretch, {}), table, kAfter);
  }));
  std::cout << "Made " << printable(output) << " from " << printable(file) << ".\n";
  return {};
}

}  // namespace

Status run_record(const Args& args) {
  CLI::App app("Works on a recording made by s3oramfs-serverd --record FILE.", "s3oramfs record");
  std::string file, output = "s3oramfs-record.html";
  app.require_subcommand(1);
  auto* const command = app.add_subcommand("plot", "Create a page from a recording");
  command->formatter(std::make_shared<HelpFormatter>());
  command->add_option("FILE", file, "The record")->required();
  command->add_option("--output", output, "The page, or with .svg or .png only its picture")
      ->capture_default_str()
      ->type_name("FILE");
  S3O_ASSIGN(const auto parsed, parse(app, args));
  if (!parsed) return {};
  return plot(file, output);
}

}  // namespace s3oram
