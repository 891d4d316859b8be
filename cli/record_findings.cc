// Counts and tests over the accesses of a record.
#include "cli/record_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/statistics.h"

namespace s3oram {
namespace {

constexpr std::size_t kMostBins = 64;
constexpr std::size_t kEnough = 64;  // the number of accesses whose paths say something

std::string percent(double part) { return fmt::format("{:.1f} %", part * 100); }

/// Returns a list such as "1, 512 and 233".
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

template <class Text>
std::string of_each(const std::vector<StretchFindings>& all, Text text) {
  std::vector<std::string> words;
  for (const StretchFindings& each : all) words.push_back(text(each));
  return listed(words);
}

/// Returns the least probability, over all pairs, that the two come from the same source.
double least_same_p(const std::vector<StretchFindings>& all,
                    std::vector<std::uint64_t> StretchFindings::*bins) {
  double least = 1;
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) least = std::min(least, same_p(all[a].*bins, all[b].*bins));
  return least;
}

std::size_t different(const std::vector<double>& places) {
  return std::set<double>(places.begin(), places.end()).size();
}

}  // namespace

std::vector<double> accessed_places(const std::vector<RecordedRequest>& seen, unsigned& level) {
  std::vector<const RecordedRequest*> accesses;
  for (const RecordedRequest& each : seen)
    if (each.cause == RecordedRequest::Cause::access) accesses.push_back(&each);
  const auto deepest = std::ranges::max_element(accesses, {}, &RecordedRequest::level);
  level = deepest == accesses.end() ? 0 : (*deepest)->level;
  // From the end, take accesses as long as they reach this level; if these are few, take a level
  // above.
  const std::size_t enough = std::min(kEnough, accesses.size() / 2);
  std::vector<double> places;
  for (;; --level) {
    places.clear();
    const double paths = std::exp2(level);
    for (auto each = accesses.rbegin(); each != accesses.rend() && (*each)->level >= level; ++each)
      places.push_back(std::floor((*each)->place * paths) / paths);
    if (level == 0 || places.size() >= enough) break;
  }
  std::ranges::reverse(places);
  return places;
}

StretchFindings find_in(const RecordStretch& stretch) {
  StretchFindings found;
  unsigned level = 0;
  const std::vector<double> places = accessed_places(stretch.seen, level);
  found.accesses = static_cast<std::size_t>(std::count_if(
      stretch.seen.begin(), stretch.seen.end(),
      [](const RecordedRequest& each) { return each.cause == RecordedRequest::Cause::access; }));
  found.places = different(places);
  found.of = std::size_t{1} << level;
  found.repeats = repeated_part(places);
  found.bins = binned(places, std::min(kMostBins, found.of));
  found.uniform_p = uniform_p(found.bins);

  std::vector<double> asked;
  std::size_t writes = 0;
  for (const AskedBlock& each : stretch.asked) {
    asked.push_back(each.place);
    writes += each.writes ? 1 : 0;
  }
  found.asked_places = different(asked);
  found.asked_repeats = repeated_part(asked);
  found.asked_bins = binned(asked, kMostBins);
  if (!asked.empty())
    found.asked_writes = static_cast<double>(writes) / static_cast<double>(asked.size());
  return found;
}

std::string probability_text(double p) {
  if (p < 1e-6) return "below 0.000001";
  return p < 0.001 ? fmt::format("{:.6f}", p) : fmt::format("{:.3f}", p);
}

FindingsTable compare(const std::vector<RecordStretch>& stretches) {
  std::vector<StretchFindings> all;
  for (const RecordStretch& stretch : stretches) all.push_back(find_in(stretch));
  const std::size_t paths = all.empty() ? 0 : all.front().of;
  FindingsTable table{{"", "A plain server", "This server"}};
  const std::string accesses =
      of_each(all, [](const auto& each) { return fmt::format("{}", each.accesses); });
  table.push_back({"Accesses", accesses, accesses});
  table.push_back(
      {"Different places used",
       of_each(all, [](const auto& each) { return fmt::format("{}", each.asked_places); }),
       of_each(all, [](const auto& each) { return fmt::format("{}", each.places); }) +
           fmt::format(", of {}", paths)});
  table.push_back({"The same place twice in a row",
                   of_each(all, [](const auto& each) { return percent(each.asked_repeats); }),
                   of_each(all, [](const auto& each) { return percent(each.repeats); }) +
                       fmt::format("; by chance {}", percent(1.0 / static_cast<double>(paths)))});
  table.push_back({"Accesses that write",
                   of_each(all, [](const auto& each) { return percent(each.asked_writes); }),
                   "every access reads and writes"});
  table.push_back({"Are two of the three alike? (least p)",
                   probability_text(least_same_p(all, &StretchFindings::asked_bins)),
                   probability_text(least_same_p(all, &StretchFindings::bins))});
  return table;
}

FindingsTable describe(const RecordStretch& stretch) {
  const StretchFindings found = find_in(stretch);
  return {
      {"", "In this record"},
      {"Accesses", fmt::format("{}", found.accesses)},
      {"Time", fmt::format("{:.0f} s", stretch.seconds)},
      {"Different paths read", fmt::format("{}, of {}", found.places, found.of)},
      {"The same path twice in a row", fmt::format("{}; by chance {}", percent(found.repeats),
                                                   percent(1.0 / static_cast<double>(found.of)))},
      {"Are all paths as likely? (p)", probability_text(found.uniform_p)}};
}

}  // namespace s3oram
