// Writes a benchmark's results as a table and as JSON.
#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>

namespace s3oram {
namespace {

// Characters of a directory in the table, which shows the end of a longer one.
constexpr std::size_t kLongest = 24;

std::string head(const std::string& directory) {
  if (directory.size() <= kLongest) return directory;
  return "..." + directory.substr(directory.size() - (kLongest - 3));
}

}  // namespace

std::string three_digits(double value) {
  const double size = std::abs(value);
  const int places = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return fmt::format("{:.{}f}", value, places);
}

std::string bench_table(const std::vector<BenchColumn>& columns) {
  std::size_t titles = 0;
  for (const Measurement& each : columns.front().measurements)
    titles = std::max(titles, each.title.size() + each.unit.size() + 2);
  std::vector<std::size_t> widths;
  for (const BenchColumn& column : columns)
    widths.push_back(
        std::max({head(column.directory).size(), column.filesystem.size(), std::size_t{10}}));
  std::string out;
  const auto line = [&](const std::string& title, const auto& cell) {
    out += fmt::format("{:{}}", title, titles);
    for (std::size_t i = 0; i < columns.size(); ++i)
      out += fmt::format("  {:>{}}", cell(columns[i]), widths[i]);
    out += "\n";
  };
  line("", [](const BenchColumn& column) { return head(column.directory); });
  line("", [](const BenchColumn& column) { return column.filesystem; });
  for (std::size_t row = 0; row < columns.front().measurements.size(); ++row) {
    const Measurement& first = columns.front().measurements[row];
    const std::size_t gap = titles - first.title.size() - first.unit.size();
    line(first.title + std::string(gap, ' ') + first.unit,
         [row](const BenchColumn& column) { return three_digits(column.measurements[row].value); });
  }
  return out;
}

nlohmann::ordered_json bench_json(const std::vector<BenchColumn>& columns,
                                  const BenchOptions& options) {
  nlohmann::ordered_json json;
  json["size"] = options.size;
  json["seconds"] = options.seconds;
  json["directories"] = nlohmann::ordered_json::array();
  for (const BenchColumn& column : columns) {
    nlohmann::ordered_json results = nlohmann::ordered_json::object();
    for (const Measurement& each : column.measurements)
      results[each.name] = {{"value", each.value}, {"unit", each.unit}};
    json["directories"].push_back({{"directory", column.directory},
                                   {"filesystem", column.filesystem},
                                   {"results", std::move(results)}});
  }
  return json;
}

}  // namespace s3oram
