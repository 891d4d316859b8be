// The option --server HOST:PORT,KEY, and what a server must be told.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns the servers in order. Errors: usage (malformed, or an address or key occurs twice,
/// because one server with two shares would learn everything).
/// `option` is the name of the option, for errors.
Result<std::vector<ServerAddress>> parse_servers(const std::vector<std::string>& values,
                                                 std::string_view option = "--server");

/// Prints `what` and the key, and tells the user to have each server admit it.
void show_client_key(const std::string& what, const PublicKey& key);

/// The options --timeout and --wait, of the commands that make a key known to servers.
struct Patience {
  int timeout = 20;  // s
  int wait = -1;     // s; -1: forever at a terminal, not at all elsewhere
  void add_to(CLI::App& app);
};

/// Calls `attempt` every second while servers refuse the key, for as long as `patience` says.
/// Returns the last outcome. `attempt` shows the user what it waits for.
Status until_admitted(const Patience& patience, const std::function<Status()>& attempt);

}  // namespace s3oram
