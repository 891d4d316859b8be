// A strict reader of Prometheus's text format 0.0.4: what it accepts, a scraper accepts.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace s3oram {

struct Exposition {
  std::map<std::string, std::string> kinds, help;  // by family
  std::map<std::string, double> samples;           // by name and labels, as they are written
};

/// The family that a sample belongs to: without what histograms add to their names.
inline std::string family_of(const std::string& name, const Exposition& page) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    const auto kind = page.kinds.find(family);
    if (kind != page.kinds.end() && kind->second == "histogram") return family;
  }
  return name;
}

/// Adds a failure to the test for every line that is not as the format wants it.
inline Exposition read_exposition(const std::string& text) {
  static const std::regex help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\\\]|\\\\[\\\\n])+)");
  static const std::regex type("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)");
  static const std::regex sample(
      "([a-zA-Z_:][a-zA-Z0-9_:]*)"
      "(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\\]|\\\\[\\\\\"n])*\""
      "(?:,[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\\]|\\\\[\\\\\"n])*\")*\\})?"
      " ([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[+-]Inf|NaN)");
  Exposition page;
  EXPECT_TRUE(text.empty() || text.back() == '\n') << "the last line does not end";
  std::istringstream lines(text);
  std::string present;
  std::set<std::string> ended;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_TRUE(page.help.emplace(match[1], match[2]).second) << "twice: " << line;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_TRUE(page.kinds.emplace(match[1], match[2]).second) << "twice: " << line;
      EXPECT_TRUE(page.help.contains(match[1])) << "no help before: " << line;
    } else if (std::regex_match(line, match, sample)) {
      const std::string family = family_of(match[1], page);
      EXPECT_TRUE(page.kinds.contains(family)) << "no type before: " << line;
      if (family != present) {
        EXPECT_TRUE(ended.insert(family).second) << "a family in two places: " << line;
      }
      present = family;
      if (page.kinds[family] == "counter") {
        EXPECT_TRUE(family.ends_with("_total")) << line;
      }
      EXPECT_TRUE(page.samples.emplace(match[1].str() + match[2].str(), std::stod(match[3])).second)
          << "twice: " << line;
    } else {
      ADD_FAILURE() << "not understood: " << line;
    }
  }
  return page;
}

/// Buckets grow, and the last holds as many as _count says. `labels` without braces.
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
