// A server's configuration: the options of the command line or the config file, and the store's
// files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/zmq/zmq_transport.h"

namespace CLI {
class App;
}

namespace s3oram {

/// The options as they were typed. A config file uses the same names: listen = "a.example:5760".
struct Options {
  std::string store;
  std::optional<unsigned> index;  // if empty, found in the store's peers by the server's key
  std::string listen;
  std::vector<std::string> peers;  // "N=ENDPOINT[,KEY]"; they override the store's
  std::vector<std::string> allow;  // addresses and networks that may connect; all if empty
  bool exit_with_parent = false;
  int ready_fd = -1;        // -1: none
  unsigned threads = 0;     // if 0, one for each core
  std::uint64_t cache = 0;  // bytes; default_cache_bytes() if 0
  std::string log_level = "info";
  std::string metrics;          // ADDRESS:PORT of the page of metrics; empty if none
  bool metrics_public = false;  // `metrics` may be any address
  std::string record;           // where to record what is read and written; empty if nowhere
  std::uint64_t record_limit = std::uint64_t{1} << 30;  // bytes
};

/// `options` must outlive the parsing.
void add_options(CLI::App& app, Options& options);

/// Returns the networks from which the server may be reached; empty if from all. Errors: usage.
Result<std::vector<Network>> allowed_networks(const Options& options);

/// Returns the transport's configuration, from the options and the store's files. Errors: usage,
/// failed.
Result<ZmqConfig> network_config(const Options& options);

}  // namespace s3oram
