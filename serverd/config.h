// How a server is set up: options of the command line or the config file, and the store's files.
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

/// As typed. A config file has the same names: listen = "a.example:5760".
struct Options {
  std::string store;
  std::optional<unsigned> index;  // else found in the store's peers by the server's key
  std::string listen;
  std::vector<std::string> peers;  // "N=ENDPOINT[,KEY]"; these go before the store's
  std::vector<std::string> allow;  // addresses and networks that may connect; none: all
  bool exit_with_parent = false;
  int ready_fd = -1;        // -1: none
  unsigned threads = 0;     // 0: one a core
  std::uint64_t cache = 0;  // bytes; 0: default_cache_bytes()
  std::string log_level = "info";
  std::string metrics;          // ADDRESS:PORT of the page of metrics; empty: none
  bool metrics_public = false;  // that may be any address
  std::string record;           // where to record what is read and written; empty: nowhere
  std::uint64_t record_limit = std::uint64_t{1} << 30;  // bytes
};

/// `options` must outlive the parsing.
void add_options(CLI::App& app, Options& options);

/// What the transport needs, from the options and the store's files. Errors: usage, failed.
Result<ZmqConfig> network_config(const Options& options);

}  // namespace s3oram
