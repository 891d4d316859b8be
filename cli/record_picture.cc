// Draws panels of dots and bars, and a page around them.
#include "cli/record_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/svg.h"

namespace s3oram {
namespace {

using Cause = RecordedRequest::Cause;

constexpr double kMargin = 20, kBetween = 22, kRow = 130, kClockRow = 80, kTitle = 22;
constexpr unsigned kWidth = 960;
constexpr double kDot = 2.4;
constexpr std::size_t kMostDots = 6000;
constexpr std::string_view kReads = "#2a6f97", kWrites = "#e07a5f", kQuiet = "#777";

/// An area of the picture. Its content has coordinates from 0 to 1 in both directions.
struct Panel {
  double x, y, width, height;
  std::pair<double, double> at(double across, double down) const {
    constexpr double kInset = 4;
    return {x + kInset + across * (width - 2 * kInset), y + kInset + down * (height - 2 * kInset)};
  }
};

/// Keeps every n-th dot if there are too many to draw.
std::vector<std::pair<double, double>> thinned(std::vector<std::pair<double, double>> all) {
  if (all.size() <= kMostDots) return all;
  std::vector<std::pair<double, double>> some;
  const double step = static_cast<double>(all.size()) / kMostDots;
  for (double i = 0; i < static_cast<double>(all.size()); i += step)
    some.push_back(all[static_cast<std::size_t>(i)]);
  return some;
}

void draw_asked(Svg& svg, const Panel& panel, const RecordStretch& stretch) {
  std::vector<std::pair<double, double>> reads, writes;
  const auto count = static_cast<double>(stretch.asked.size());
  for (std::size_t i = 0; i < stretch.asked.size(); ++i)
    (stretch.asked[i].writes ? writes : reads)
        .push_back(panel.at(static_cast<double>(i) / count, stretch.asked[i].place));
  svg.dots(thinned(std::move(reads)), kDot, kReads);
  svg.dots(thinned(std::move(writes)), kDot, kWrites);
}

enum class Across { accesses, time };

/// Draws the paths that accesses read, and those that evictions write.
void draw_seen(Svg& svg, const Panel& panel, const RecordStretch& stretch, Across across) {
  std::vector<std::pair<double, double>> reads, writes;
  std::size_t accesses = 0, before = 0;
  for (const RecordedRequest& each : stretch.seen) accesses += each.cause == Cause::access ? 1 : 0;
  for (const RecordedRequest& each : stretch.seen) {
    if (each.cause == Cause::access) ++before;
    const bool access = each.cause == Cause::access;
    if (!access && !(each.cause == Cause::eviction && each.writes)) continue;
    const double x =
        across == Across::time
            ? (each.time - stretch.begin) / std::max(stretch.seconds, 1e-9)
            : static_cast<double>(before) / static_cast<double>(std::max<std::size_t>(accesses, 1));
    (access ? reads : writes).push_back(panel.at(std::clamp(x, 0.0, 1.0), each.place));
  }
  svg.dots(thinned(std::move(writes)), 2 * kDot, kWrites, 0.5);
  svg.dots(thinned(std::move(reads)), kDot, kReads);
}

/// Returns how many accesses there are in each of `parts` equal parts of the time.
std::vector<double> rates(const RecordStretch& stretch, std::size_t parts) {
  std::vector<double> counts(parts);
  for (const RecordedRequest& each : stretch.seen) {
    if (each.cause != Cause::access) continue;
    const double at = (each.time - stretch.begin) / std::max(stretch.seconds, 1e-9);
    const auto part =
        static_cast<std::size_t>(std::clamp(at, 0.0, 1.0) * static_cast<double>(parts));
    ++counts[std::min(part, parts - 1)];
  }
  return counts;
}

void draw_clock(Svg& svg, const Panel& panel, const std::vector<double>& counts, double most) {
  const double width = panel.width / static_cast<double>(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double height = most > 0 ? counts[i] / most * (panel.height - 4) : 0;
    if (height > 0)
      svg.rect(panel.x + static_cast<double>(i) * width, panel.y + panel.height - height,
               std::max(width - 1, 0.5), height, kReads);
  }
}

double most_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

void draw_legend(Svg& svg, double y) {
  const double x = kWidth - kMargin - 150;
  svg.dots({{x, y - 4}}, 8, kReads);
  svg.text(x + 10, y, "reads");
  svg.dots({{x + 70, y - 4}}, 8, kWrites);
  svg.text(x + 80, y, "writes");
}

/// Draws the table. Returns where it ends.
double draw_table(Svg& svg, double y, const FindingsTable& table) {
  constexpr double kLine = 18;
  const double column = (kWidth - 2 * kMargin - 250) / 2;
  for (std::size_t row = 0; row < table.size(); ++row, y += kLine)
    for (std::size_t cell = 0; cell < table[row].size(); ++cell)
      svg.text(cell == 0 ? kMargin : kMargin + 250 + static_cast<double>(cell - 1) * column, y,
               table[row][cell], {.weight = row == 0 ? "bold" : "normal"});
  return y;
}

unsigned table_height(const FindingsTable& table) {
  return table.empty() ? 0 : static_cast<unsigned>(18 * table.size() + 24);
}

std::string html_table(const FindingsTable& table) {
  std::string out = "<table>\n";
  for (std::size_t row = 0; row < table.size(); ++row) {
    out += "<tr>";
    for (std::size_t cell = 0; cell < table[row].size(); ++cell) {
      const char* tag = row == 0 || cell == 0 ? "th" : "td";
      out += fmt::format("<{0}>{1}</{0}>", tag, escaped(table[row][cell]));
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

std::string comparison_picture(const std::vector<RecordStretch>& stretches,
                               const FindingsTable& table) {
  const auto height =
      static_cast<unsigned>(kMargin + 44 + 3 * (kTitle + 8) + 2 * kRow + kClockRow + 30) +
      table_height(table);
  Svg svg(kWidth, height);
  const auto columns = static_cast<double>(stretches.size());
  const double width = (kWidth - 2 * kMargin - (columns - 1) * kBetween) / columns;
  const auto left = [&](std::size_t i) {
    return kMargin + static_cast<double>(i) * (width + kBetween);
  };
  double y = kMargin + 10;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    svg.text(left(i), y, stretches[i].title, {.size = 15, .weight = "bold"});
    svg.text(left(i), y + 18, stretches[i].about, {.fill = kQuiet});
  }
  y += 34;
  const auto row = [&](double row_height, const std::string& title, const std::string& id,
                       auto draw) {
    svg.text(kMargin, y + 14, title, {.size = 13, .weight = "bold"});
    y += kTitle;
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      const Panel panel{left(i), y, width, row_height};
      svg.frame(panel.x, panel.y, panel.width, panel.height, fmt::format("{}-{}", id, i + 1));
      draw(panel, stretches[i]);
    }
    y += row_height + 8;
  };
  draw_legend(svg, y + 14);
  row(kRow, "What a plain server sees, even of encrypted files: which block, each time", "plain",
      [&](const Panel& panel, const RecordStretch& each) { draw_asked(svg, panel, each); });
  row(kRow, "What an s3oramfs server sees: which path of its tree, each time", "seen",
      [&](const Panel& panel, const RecordStretch& each) {
        draw_seen(svg, panel, each, Across::accesses);
      });
  constexpr std::size_t kParts = 60;
  double most = 0;
  for (const RecordStretch& each : stretches) most = std::max(most, most_of(rates(each, kParts)));
  row(kClockRow, "What still shows, against the clock: when, and how many", "clock",
      [&](const Panel& panel, const RecordStretch& each) {
        draw_clock(svg, panel, rates(each, kParts), most);
        svg.text(panel.x, panel.y + panel.height + 14, "0 s", {.size = 11, .fill = kQuiet});
        svg.text(panel.x + panel.width, panel.y + panel.height + 14,
                 fmt::format("{:.0f} s", each.seconds),
                 {.size = 11, .fill = kQuiet, .anchor = "end"});
      });
  draw_table(svg, y + 34, table);
  return svg.finished();
}

std::string record_picture(const RecordStretch& stretch, const FindingsTable& table) {
  const auto height =
      static_cast<unsigned>(kMargin + 30 + 3 * (kTitle + 8) + 2 * kRow + kClockRow + 46) +
      table_height(table);
  Svg svg(kWidth, height);
  const double width = kWidth - 2 * kMargin;
  svg.text(kMargin, kMargin + 10, stretch.title, {.size = 15, .weight = "bold"});
  double y = kMargin + 24;
  draw_legend(svg, y + 14);
  const auto panel = [&](double panel_height, const std::string& title, const std::string& id) {
    svg.text(kMargin, y + 14, title, {.size = 13, .weight = "bold"});
    y += kTitle;
    const Panel made{kMargin, y, width, panel_height};
    svg.frame(made.x, made.y, made.width, made.height, id);
    y += panel_height + 8;
    return made;
  };
  draw_seen(svg,
            panel(kRow, "Which path of its tree the server reads and writes, over time", "seen"),
            stretch, Across::time);
  const StretchFindings found = find_in(stretch);
  const Panel bins =
      panel(kRow, "How often each part of the tree was read; the line: on average", "places");
  std::vector<double> counts(found.bins.begin(), found.bins.end());
  draw_clock(svg, bins, counts, 2 * most_of(counts));
  if (double sum = 0; most_of(counts) > 0) {
    for (const double each : counts) sum += each;
    const double line =
        bins.y + bins.height -
        sum / static_cast<double>(counts.size()) / (2 * most_of(counts)) * (bins.height - 4);
    svg.line(bins.x, line, bins.x + bins.width, line, kWrites);
  }
  const Panel clock =
      panel(kClockRow, "What shows: when there are accesses, and how many", "clock");
  const auto per_part = rates(stretch, 240);
  draw_clock(svg, clock, per_part, most_of(per_part));
  svg.text(clock.x, y + 6, "0 s", {.size = 11, .fill = kQuiet});
  svg.text(clock.x + clock.width, y + 6, fmt::format("{:.0f} s", stretch.seconds),
           {.size = 11, .fill = kQuiet, .anchor = "end"});
  draw_table(svg, y + 36, table);
  return svg.finished();
}

std::string record_page(const std::string& title, const std::vector<std::string>& before,
                        const std::string& picture, const FindingsTable& table,
                        const std::vector<std::string>& after) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>\n"
      "body {{ font: 16px/1.5 sans-serif; color: #222; background: #fff; max-width: 960px; "
      "margin: 2em auto; padding: 0 1em }}\n"
      "svg {{ max-width: 100%; height: auto }}\n"
      "table {{ border-collapse: collapse }}\n"
      "th, td {{ text-align: left; vertical-align: top; padding: .3em 1em .3em 0; "
      "border-bottom: 1px solid #ddd; font-weight: normal }}\n"
      "tr:first-child th {{ font-weight: bold }}\n"
      "</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      escaped(title), escaped(title));
  const auto add = [&](const std::vector<std::string>& paragraphs) {
    for (const std::string& each : paragraphs) out += fmt::format("<p>{}</p>\n", escaped(each));
  };
  add(before);
  out += picture + html_table(table);
  add(after);
  return out + "</body>\n</html>\n";
}

}  // namespace s3oram
