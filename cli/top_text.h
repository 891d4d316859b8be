// What s3oramfs top shows, as text: pure, so that it can be tested.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace s3oram {

/// The counts of a mounted vault's daemon at one moment.
struct TopSample {
  struct Server {
    std::string address;
    bool answering = false;
    std::uint64_t sent = 0, received = 0;  // bytes, by this machine
  };
  double time = 0;  // s, of a clock that does not go back
  std::uint64_t accesses = 0, evictions = 0;
  std::uint64_t unsaved = 0;  // bytes of contents that are not yet written
  double unsaved_seconds = 0;
  std::uint64_t changes = 0;  // of names and places
  bool healthy = false;
  std::vector<Server> servers;
};

/// Of the daemon's answer to "status".
TopSample top_sample(const nlohmann::json& status, double time);

/// Bars of eight heights, the last `width` of the values; the highest of them fills its line.
std::string sparkline(const std::vector<double>& values, std::size_t width);

/// The lines for the samples so far, oldest first; there is at least one.
std::string top_text(const std::deque<TopSample>& samples, const std::string& vault,
                     std::size_t width);

}  // namespace s3oram
