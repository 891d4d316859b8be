// A strict reader of Prometheus's text format 0.0.4: any scraper accepts a text that it accepts.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace s3oram {

struct Exposition {
  std::map<std::string, std::string> kinds, help;  // by family
  std::map<std::string, double> samples;           // by name and labels, as in the text
};

/// Returns the family of a sample, without the suffixes that histograms add to names.
inline std::string family_of(const std::string& name, const Exposition& page) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    const auto kind = page.kinds.find(family);
    if (kind != page.kinds.end() && kind->second == "histogram") return family;
  }
  return name;
}

/// Parses a line from its beginning.
class LineScanner {
 public:
  explicit LineScanner(std::string_view line) : rest_(line) {}

  bool skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  /// Returns the name of a metric or, without `colons`, of a label; empty if there is none.
  std::string name(bool colons = true) {
    std::size_t size = 0;
    for (; size < rest_.size(); ++size) {
      const auto c = static_cast<unsigned char>(rest_[size]);
      const bool digit = std::isdigit(c) != 0;
      if (!(std::isalpha(c) || c == '_' || (colons && c == ':') || (digit && size > 0))) break;
    }
    return take(size);
  }
  /// Returns the text up to `end`, or to the end of the line. Returns std::nullopt if the line is
  /// malformed: `end` is missing, or no character of `escapes` follows a backslash.
  std::optional<std::string> text(std::string_view escapes, std::optional<char> end) {
    std::size_t size = 0;
    for (; size < rest_.size() && rest_[size] != end; ++size)
      if (rest_[size] == '\\' &&
          (++size == rest_.size() || escapes.find(rest_[size]) == std::string_view::npos))
        return std::nullopt;
    if (end && size == rest_.size()) return std::nullopt;
    return take(size);
  }
  /// Skips {name="value",...}, which may be missing. Returns false if it is malformed.
  bool labels() {
    if (!skip("{")) return true;
    do {
      if (name(false).empty() || !skip("=\"") || !text("\\\"n", '"') || !skip("\"")) return false;
    } while (skip(","));
    return skip("}");
  }
  std::optional<double> value() {
    const std::string written = take(rest_.size());
    const bool named = written == "+Inf" || written == "-Inf" || written == "NaN";
    if (written.empty() ||
        (!named && written.find_first_not_of("0123456789+-.e") != std::string::npos))
      return std::nullopt;
    char* end = nullptr;
    const double number = std::strtod(written.c_str(), &end);
    return *end == 0 ? std::optional(number) : std::nullopt;
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string take(std::size_t size) {
    std::string taken(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_;
};

/// Adds the line to the page. Returns false if it violates the format.
inline bool read_line(const std::string& line, Exposition& page, std::string& family) {
  LineScanner scan(line);
  if (scan.skip("# HELP ")) {
    const std::string name = scan.name();
    if (name.empty() || !scan.skip(" ")) return false;
    const auto text = scan.text("\\n", std::nullopt);
    return text && !text->empty() && page.help.emplace(name, *text).second;
  }
  if (scan.skip("# TYPE ")) {
    const std::string name = scan.name();
    if (!page.help.contains(name) || !scan.skip(" ")) return false;
    const std::string kind = scan.name();
    return scan.left() == 0 && (kind == "counter" || kind == "gauge" || kind == "histogram") &&
           page.kinds.emplace(name, kind).second;
  }
  const std::string name = scan.name();
  if (name.empty() || !scan.labels()) return false;
  const std::string key = line.substr(0, line.size() - scan.left());
  if (!scan.skip(" ")) return false;
  const auto value = scan.value();
  family = family_of(name, page);
  return value && page.kinds.contains(family) && page.samples.emplace(key, *value).second &&
         (page.kinds[family] != "counter" || family.ends_with("_total"));
}

/// Parses a page. Adds a failure to the test for every line that violates the format.
inline Exposition read_exposition(const std::string& text) {
  Exposition page;
  EXPECT_TRUE(text.empty() || text.back() == '\n') << "the last line does not end";
  std::istringstream lines(text);
  std::string present;
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    std::string family;
    EXPECT_TRUE(read_line(line, page, family)) << line;
    if (family.empty() || family == present) continue;
    EXPECT_TRUE(seen.insert(family).second) << "a family in two places: " << line;
    present = family;
  }
  return page;
}

/// Checks that no bucket is smaller than the one before, and that the last one equals _count.
/// `labels` has no braces.
inline void check_histogram(const Exposition& page, const std::string& name,
                            const std::string& labels = "") {
  const std::string first = name + "_bucket{" + labels + (labels.empty() ? "" : ",") + "le=\"";
  std::map<double, double> buckets;
  for (const auto& [key, value] : page.samples)
    if (key.starts_with(first)) buckets[std::stod(key.substr(first.size()))] = value;
  ASSERT_GE(buckets.size(), 2u) << name;
  double before = 0;
  for (const auto& [bound, count] : buckets) {
    EXPECT_GE(count, before) << name << " at " << bound;
    before = count;
  }
  EXPECT_TRUE(std::isinf(buckets.rbegin()->first)) << name;
  const std::string rest = labels.empty() ? "" : "{" + labels + "}";
  ASSERT_TRUE(page.samples.contains(name + "_count" + rest)) << name;
  EXPECT_EQ(page.samples.at(name + "_count" + rest), before) << name;
  EXPECT_TRUE(page.samples.contains(name + "_sum" + rest)) << name;
}

}  // namespace s3oram
