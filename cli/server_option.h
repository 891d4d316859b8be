// --server HOST:PORT,KEY, and what a server must be told.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// The servers in order. Errors: usage; also where an address or key comes twice, because one
/// server with two shares would learn everything.
Result<std::vector<ServerAddress>> parse_servers(const std::vector<std::string>& options);

/// Tells the user to have each server admit `key`, after the words `what`.
void show_client_key(const std::string& what, const PublicKey& key);

/// --timeout and --wait, of the commands by which servers come to know a key.
struct Patience {
  int timeout = 20;  // s
  int wait = -1;     // s; -1: for ever at a terminal, not at all elsewhere
  void add_to(CLI::App& app);
};

/// Tries again every second while servers refuse the key, as long as `patience` says. Gives the
/// last outcome. What it waits for, `attempt` shows.
Status until_admitted(const Patience& patience, const std::function<Status()>& attempt);

}  // namespace s3oram
