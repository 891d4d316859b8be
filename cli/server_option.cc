// Reads --server, and greets each new server until it answers.
#include "cli/server_option.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

// Returns whether `text` is an address to connect to. "*" is only for listening.
bool is_host_port(const std::string& text) {
  return text.find('*') == std::string::npos && parse_endpoint("tcp://" + text);
}

}  // namespace

Result<std::vector<ServerAddress>> parse_servers(const std::vector<std::string>& values,
                                                 std::string_view option) {
  std::vector<ServerAddress> servers;
  for (const std::string& value : values) {
    const std::size_t comma = value.rfind(',');
    if (comma == std::string::npos || !is_host_port(value.substr(0, comma)))
      return fail(Errc::usage, "{} {}: not of the form HOST:PORT,KEY (an IPv6 address in brackets)",
                  option, value);
    auto key = parse_public_key(value.substr(comma + 1));
    if (!key) return fail(Errc::usage, "{} {}: {}", option, value, key.error().message);
    ServerAddress server{value.substr(0, comma), *key};
    for (const ServerAddress& other : servers)
      if (other.host_port == server.host_port || other.key == server.key)
        return fail(Errc::usage, "{} {}: the same server as {}", option, value, other.host_port);
    servers.push_back(std::move(server));
  }
  return servers;
}

void show_client_key(const std::string& what, const PublicKey& key) {
  std::cout << what << "\n  " << to_text(key)
            << "\nEach server must admit it. Run there, with the server's own store:\n"
               "  s3oramfs-serverd authorize --store DIR "
            << to_text(key) << "\nA running server admits it within a second or two." << std::endl;
}

void Patience::add_to(CLI::App& app) {
  app.add_option("--timeout", timeout, "How long servers may take to answer")
      ->capture_default_str()
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86400));
  app.add_option("--wait", wait, "How long to wait until servers admit the new key")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 1 << 24));
}

Status until_admitted(const Patience& patience, const std::function<Status()>& attempt) {
  using std::chrono::seconds, std::chrono::steady_clock;
  const auto start = steady_clock::now();
  const bool for_ever = patience.wait < 0 && at_terminal();
  while (true) {
    Status outcome = attempt();
    if (outcome || outcome.error().code != Errc::refused_key) return outcome;
    if (!for_ever && steady_clock::now() - start >= seconds(std::max(patience.wait, 0)))
      return outcome;
    std::this_thread::sleep_for(seconds(1));
  }
}

}  // namespace s3oram
