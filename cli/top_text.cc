// Computes rates between samples, and draws sparklines of them.
#include "cli/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr std::size_t kAddressWidth = 36, kRateWidth = 14;

/// Returns the rate between two samples; 0 if the counter was restarted between them.
double rate(std::uint64_t before, std::uint64_t after, double seconds) {
  if (seconds <= 0 || after < before) return 0;
  return static_cast<double>(after - before) / seconds;
}

std::string rate_text(double bytes) { return human_size(static_cast<std::uint64_t>(bytes)) + "/s"; }

template <class Value>
std::vector<double> rates(const std::deque<TopSample>& samples, Value value) {
  std::vector<double> all;
  for (std::size_t i = 1; i < samples.size(); ++i)
    all.push_back(
        rate(value(samples[i - 1]), value(samples[i]), samples[i].time - samples[i - 1].time));
  return all;
}

double last_of(const std::vector<double>& values) { return values.empty() ? 0 : values.back(); }

/// Returns how long the unsaved data will take at the current rate of sending.
std::string time_left(const std::deque<TopSample>& samples) {
  const TopSample& last = samples.back();
  if (last.unsaved == 0) return "";
  double sent = 0;
  for (std::size_t server = 0; server < last.servers.size(); ++server)
    sent += last_of(rates(samples, [&](const TopSample& sample) {
      return server < sample.servers.size() ? sample.servers[server].sent : 0;
    }));
  if (sent <= 0) return ", and nothing is being sent";
  return fmt::format(", about {} at this rate",
                     human_duration(static_cast<double>(last.unsaved) *
                                    static_cast<double>(last.servers.size()) / sent));
}

}  // namespace

TopSample top_sample(const nlohmann::json& status, double time) {
  TopSample sample;
  sample.time = time;
  const auto& volume = status.at("volume");
  sample.accesses = volume.at("accesses");
  sample.evictions = volume.at("evictions");
  sample.unsaved = status.at("cache").at("dirty_bytes");
  sample.unsaved_seconds = status.at("files").at("lag_seconds");
  sample.changes = status.at("files").at("uncommitted");
  sample.healthy = status.at("health").at("healthy");
  for (const auto& server : status.at("servers"))
    sample.servers.push_back({server.at("address"), server.at("answering"), server.at("bytes_sent"),
                              server.at("bytes_received")});
  return sample;
}

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t shown = std::min(values.size(), width);
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(shown);
  const double most = shown == 0 ? 0 : *std::max_element(begin, values.end());
  std::string out;
  for (auto value = begin; value != values.end(); ++value) {
    const auto bar = most > 0 ? static_cast<std::size_t>(*value / most * (kBars.size() - 1)) : 0;
    out += kBars[std::min(bar, kBars.size() - 1)];
  }
  return out;
}

std::string top_text(const std::deque<TopSample>& samples, const std::string& vault,
                     std::size_t width) {
  const TopSample& last = samples.back();
  const auto accesses = rates(samples, [](const TopSample& sample) { return sample.accesses; });
  const std::size_t left = kAddressWidth + 2 * kRateWidth + 2;
  const std::size_t spark = width > left + 8 ? width - left : 8;
  std::string out =
      fmt::format("{}: {}\n", vault, last.healthy ? "healthy" : "NOT HEALTHY: see s3oramfs status");
  out +=
      fmt::format("{:<{}}{:>{}}{:>{}}  {}\n", "accesses", kAddressWidth,
                  fmt::format("{:.1f}/s", last_of(accesses)), kRateWidth,
                  fmt::format("{} in all", last.accesses), kRateWidth, sparkline(accesses, spark));
  out += last.unsaved == 0 && last.changes == 0
             ? std::string("unsaved   nothing: all is durable\n")
             : fmt::format("unsaved   {} of contents, {} changes of names and places; since {}{}\n",
                           human_size(last.unsaved), last.changes,
                           human_duration(last.unsaved_seconds), time_left(samples));
  out += fmt::format("{:<{}}{:>{}}{:>{}}\n", "server", kAddressWidth, "up", kRateWidth, "down",
                     kRateWidth);
  for (std::size_t i = 0; i < last.servers.size(); ++i) {
    const auto of = [i](const TopSample& sample) {
      return i < sample.servers.size() ? sample.servers[i] : TopSample::Server{};
    };
    const auto up = rates(samples, [&](const TopSample& sample) { return of(sample).sent; });
    const auto down = rates(samples, [&](const TopSample& sample) { return of(sample).received; });
    std::vector<double> both;
    for (std::size_t at = 0; at < up.size(); ++at) both.push_back(up[at] + down[at]);
    std::string name = last.servers[i].address;
    if (name.size() >= kAddressWidth) name.resize(kAddressWidth - 1);
    out += fmt::format("{:<{}}{:>{}}{:>{}}  {}\n", name, kAddressWidth,
                       last.servers[i].answering ? rate_text(last_of(up)) : "NOT ANSWERING",
                       kRateWidth, rate_text(last_of(down)), kRateWidth, sparkline(both, spark));
  }
  return out;
}

}  // namespace s3oram
