// Makes the text that s3oramfs top shows. The functions are pure, so that they can be tested.
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
  std::uint64_t unsaved = 0;  // bytes of contents that are not written yet
  double unsaved_seconds = 0;
  std::uint64_t changes = 0;  // changes to names and places
  bool healthy = false;
  std::vector<Server> servers;
};

/// Returns the sample in the daemon's answer to "status".
TopSample top_sample(const nlohmann::json& status, double time);

/// Returns the last `width` values as bars of eight heights. The largest value gets the highest
/// bar.
std::string sparkline(const std::vector<double>& values, std::size_t width);

/// Returns the lines for the samples so far, which are given oldest first; there must be at least
/// one.
std::string top_text(const std::deque<TopSample>& samples, const std::string& vault,
                     std::size_t width);

}  // namespace s3oram
