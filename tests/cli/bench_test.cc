// Tests s3oramfs bench: its measurements, its reports, and its output on a terminal.
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "cli/bench_report.h"
#include "cli/picture_file.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

TEST(Percentile, IsTheNearestRank) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({3}, 0.99), 3);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 1.0), 4);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(percentile(hundred, 0.99), 99);
  EXPECT_EQ(percentile(hundred, 0.0), 1);
}

TEST(ThreeDigits, AreShownWhateverTheSize) {
  EXPECT_EQ(three_digits(0), "0");
  EXPECT_EQ(three_digits(0.0123), "0.012");
  EXPECT_EQ(three_digits(7.648), "7.65");
  EXPECT_EQ(three_digits(76.48), "76.5");
  EXPECT_EQ(three_digits(764.8), "765");
  EXPECT_EQ(three_digits(123456.7), "123457");
}

TEST(BarText, FitsTheLine) {
  EXPECT_EQ(bar_text(0, "x", 80), "[                        ]   0 % x");
  EXPECT_EQ(bar_text(0.5, "x", 80), "[############            ]  50 % x");
  EXPECT_EQ(bar_text(2, "x", 80), "[########################] 100 % x");
  EXPECT_EQ(bar_text(0.5, "a long description", 20).size(), 20u);
}

TEST(TypeOfDevice, IsFoundByItsNumber) {
  const std::string mounts =
      "1 0 8:1 / / rw - ext4 /dev/a rw\n"
      "2 1 0:50 / /mnt rw shared:1 master:2 - fuse.s3oramfs /v rw\n";
  EXPECT_EQ(type_of_device(mounts, 8, 1), "ext4");
  EXPECT_EQ(type_of_device(mounts, 0, 50), "fuse.s3oramfs");
  EXPECT_EQ(type_of_device(mounts, 0, 5), "");
  EXPECT_EQ(type_of_device("", 0, 5), "");
}

TEST(Bench, MeasuresAndLeavesNothing) {
  const TemporaryDirectory folder;
  const BenchOptions options{.size = 2 << 20, .seconds = 0.02};
  double last = 0;
  std::vector<Measurement> found;
  {
    const auto place = BenchPlace::make(folder.path(), options.size);
    ASSERT_TRUE(place) << place.error().message;
    EXPECT_FALSE(stdfs::is_empty(folder.path()));
    auto measured = measure_place(**place, options, [&](double done, const std::string& doing) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, 1);
      EXPECT_FALSE(doing.empty());
      last = done;
    });
    ASSERT_TRUE(measured) << measured.error().message;
    found = *measured;
  }
  EXPECT_TRUE(stdfs::is_empty(folder.path()));
  EXPECT_GT(last, 0.8);
  std::set<std::string> names;
  for (const Measurement& each : found) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_GT(each.value, 0) << each.name;
    EXPECT_TRUE(each.unit == "MB/s" || each.unit == "1/s" || each.unit == "ms") << each.unit;
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"seq_write", "seq_read", "rand_read_4k", "rand_read_4k_p50",
                                   "rand_read_4k_p99", "rand_read_64k", "rand_read_64k_p50",
                                   "rand_read_64k_p99", "rand_write_4k", "rand_write_64k",
                                   "sync_write_4k", "sync_write_4k_p50", "sync_write_4k_p99",
                                   "create", "stat", "list", "rename", "delete"}));
}

TEST(Bench, AnInterruptEndsItAndLeavesNothing) {
  const TemporaryDirectory folder;
  const BenchOptions options{.size = 2 << 20, .seconds = 3600};
  const auto outcome = [&]() -> Status {
    const Interrupts interrupts;
    const auto place = BenchPlace::make(folder.path(), options.size);
    if (!place) return fail(place.error());
    auto measured = measure_place(**place, options, [&](double, const std::string& doing) {
      if (doing == "random read, 4 KiB") ::raise(SIGINT);
    });
    if (!measured) return fail(measured.error());
    return {};
  }();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("interrupted"), std::string::npos);
  EXPECT_TRUE(stdfs::is_empty(folder.path()));
}

TEST(BenchPlace, RefusesWhatCannotBeMeasured) {
  const TemporaryDirectory folder;
  const auto full = BenchPlace::make(folder.path(), std::uint64_t{1} << 60);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::disk_full);
  const auto missing = BenchPlace::make(folder.path() / "none", 1);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::usage);
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_FALSE(BenchPlace::make(folder.path() / "file", 1));
}

std::vector<BenchColumn> two_columns() {
  const std::vector<Measurement> one = {{"seq_write", "sequential write", "MB/s", 7.6, true},
                                        {"x_p50", "  one takes: median", "ms", 12.3, false}};
  std::vector<Measurement> other = one;
  other[0].value = 760;
  return {{"/mnt/<private>", "fuse.s3oramfs", one},
          {"/a/very/long/name/of/a/directory", "ext4", other}};
}

TEST(BenchReport, PutsDirectoriesSideBySide) {
  EXPECT_EQ(bench_table(two_columns()),
            "                         /mnt/<private>  ...g/name/of/a/directory\n"
            "                          fuse.s3oramfs                      ext4\n"
            "sequential write   MB/s            7.60                       760\n"
            "  one takes: median  ms            12.3                      12.3\n");
}

TEST(BenchReport, HasStableNamesForPrograms) {
  const auto json = bench_json(two_columns(), {});
  EXPECT_EQ(json["directories"][0]["results"]["seq_write"]["value"], 7.6);
  EXPECT_EQ(json["directories"][1]["filesystem"], "ext4");
  EXPECT_EQ(json["size"], 64 << 20);
}

TEST(BenchReport, ThePictureHasABarForEachFigure) {
  const std::string svg = bench_picture(two_columns());
  std::size_t bars = 0;
  for (auto at = svg.find("height=\"12\" fill="); at != std::string::npos;
       at = svg.find("height=\"12\" fill=", at + 1))
    ++bars;
  EXPECT_EQ(bars, 2u + 4u);  // including the legend's bars
  EXPECT_NE(svg.find("/mnt/&lt;private&gt; (fuse.s3oramfs)"), std::string::npos);
  EXPECT_NE(svg.find("ms, less is better"), std::string::npos);
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

TEST(PictureFile, IsWhatItsNameSays) {
  const TemporaryDirectory folder;
  const auto begins = [&](const std::string& file) {
    std::ifstream in(folder.path() / file, std::ios::binary);
    std::string bytes(8, '\0');
    in.read(bytes.data(), 8);
    return bytes;
  };
  const std::string svg = bench_picture(two_columns());
  const std::string png = folder.path() / "a.png", vector = folder.path() / "a.svg";
  ASSERT_TRUE(check_picture(vector));
  ASSERT_TRUE(write_picture(vector, svg));
  EXPECT_EQ(begins("a.svg"), svg.substr(0, 8));
  const Status checked = check_picture(png);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_FALSE(stdfs::exists(png));
  ASSERT_TRUE(write_picture(png, svg));
  EXPECT_EQ(begins("a.png"), "\x89PNG\r\n\x1a\n");
  EXPECT_GT(stdfs::file_size(png), 5000u);
}

TEST(PictureFile, IsRefusedBeforeItIsMeasuredFor) {
  const TemporaryDirectory folder;
  for (const char* name : {"a.jpg", "a", "png", "a.png.gz"}) {
    const Status status = check_picture(folder.path() / name);
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code, Errc::usage);
    EXPECT_NE(status.error().message.find("ends in .svg or .png"), std::string::npos);
  }
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  const Status status = check_picture(folder.path() / "a.png");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::unsupported);
  EXPECT_NE(status.error().message.find("install librsvg2-bin"), std::string::npos);
}

TEST(Terminal, ALineFits) {
  const std::string three =
      "making the volume: waiting for servers 1 (a.example:5760), 2 (b.example:5760), "
      "3 (c.example:5760; it has a different key than the vault says)";
  EXPECT_EQ(fitted(three, 200), three);
  EXPECT_EQ(fitted(three, 80), "making the volume: waiting for servers 1, 2, 3");
  EXPECT_EQ(fitted(three, 30), "making the volume: waiting ...");
  EXPECT_EQ(fitted("a (b", 3), "...");
  EXPECT_EQ(fitted("abc", 2), "..");
  EXPECT_EQ(fitted("na\xc3\xafve text", 6), "na...");  // no character is cut in half
}

/// The output that a person sees, on a pseudo-terminal of 60 columns.
TEST(Terminal, ProgressStaysOnItsLine) {
  winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    Progress progress("making the volume");
    for (int i = 0; i < 26; ++i) {
      progress.update(
          "servers 1 (a.example:5760), 2 (b.example:5760), 3 (c.example:5760) must admit");
      ::usleep(100'000);
    }
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  std::string seen;
  char piece[512];
  for (ssize_t got = 0; (got = ::read(terminal, piece, sizeof piece)) > 0;)
    seen.append(piece, static_cast<std::size_t>(got));
  ::waitpid(child, nullptr, 0);
  ::close(terminal);
  EXPECT_NE(seen.find("making the volume: servers 1, 2, 3 must admit"), std::string::npos) << seen;
  EXPECT_NE(seen.find(" s)"), std::string::npos) << seen;
  std::size_t lines = 0;
  for (std::size_t at = seen.find("\033[K"); at != std::string::npos; ++lines) {
    const std::size_t next = seen.find("\033[K", at + 3);
    const std::string line =
        seen.substr(at + 3, (next == std::string::npos ? seen.size() : next - 1) - at - 3);
    EXPECT_LT(line.size(), 60u) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
    at = next;
  }
  EXPECT_GE(lines, 2u);
}

}  // namespace
}  // namespace s3oram
