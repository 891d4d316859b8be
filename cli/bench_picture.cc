// Draws the bars of a benchmark's results as an SVG picture.
#include <algorithm>
#include <array>
#include <iterator>

#include "cli/bench_report.h"
#include "cli/svg.h"

namespace s3oram {
namespace {

constexpr unsigned kPageWidth = 760, kPageMargin = 24;
constexpr unsigned kBars = 300;        // where the bars begin
constexpr unsigned kLongestBar = 360;  // length of the longest bar
constexpr unsigned kBar = 12, kBarGap = 3, kRows = 16;
constexpr std::array kColors = {"#2a6f97", "#e07a5f", "#81b29a", "#f2cc8f", "#6d597a"};

}  // namespace

std::string bench_picture(const std::vector<BenchColumn>& columns) {
  const auto color = [](std::size_t column) { return kColors[column % kColors.size()]; };
  const std::size_t rows = columns.front().measurements.size();
  const std::size_t row_height = columns.size() * (kBar + kBarGap) + kRows;
  const std::size_t top = kPageMargin + 40 + columns.size() * 20;
  const std::size_t height = top + rows * row_height + kPageMargin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"{3}\" font-size=\"17\">s3oramfs bench</text>\n",
      kPageWidth, height, kPageMargin, kPageMargin + 14);
  const auto put = [&](fmt::string_view format, const auto&... values) {
    fmt::vformat_to(std::back_inserter(out), format, fmt::make_format_args(values...));
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t y = kPageMargin + 34 + i * 20;
    put("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", kPageMargin, y,
        color(i));
    const std::string name = columns[i].directory + " (" + columns[i].filesystem + ")";
    put("<text x=\"{}\" y=\"{}\">{}</text>\n", kPageMargin + 20, y + 10, escaped(name));
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const Measurement& first = columns.front().measurements[row];
    const std::size_t y = top + row * row_height;
    double most = 0;
    for (const BenchColumn& column : columns) most = std::max(most, column.measurements[row].value);
    const std::size_t indented = first.title.find_first_not_of(' ');
    put("<text x=\"{}\" y=\"{}\">{}</text>\n", kPageMargin + indented * 6, y + 10,
        escaped(first.title.substr(indented)));
    put("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#777\">{}{}</text>\n", kBars - 10,
        y + 10, first.unit, first.more_is_better ? "" : ", less is better");
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double value = columns[i].measurements[row].value;
      const double length = most > 0 ? std::max(1.0, value / most * kLongestBar) : 1.0;
      const std::size_t at = y + i * (kBar + kBarGap);
      put("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n", kBars, at,
          length, kBar, color(i));
      put("<text x=\"{:.1f}\" y=\"{}\" font-size=\"11\">{}</text>\n", kBars + length + 6, at + 10,
          three_digits(value));
    }
  }
  return out + "</svg>\n";
}

}  // namespace s3oram
