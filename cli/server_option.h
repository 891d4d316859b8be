// --server HOST:PORT,KEY, and what a server must be told.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "oramcore/state/vault.h"

namespace s3oram {

/// The servers in order. Errors: usage; also where an address or key comes twice, because one
/// server with two shares would learn everything.
Result<std::vector<ServerAddress>> parse_servers(const std::vector<std::string>& options);

/// Tells the user to have each server admit `key`, after the words `what`.
void show_client_key(const std::string& what, const PublicKey& key);

/// Tries again every second while servers refuse the key, for `wait` seconds; if that is negative,
/// for ever at a terminal and once elsewhere. Gives the last outcome, and shows the others.
Status until_admitted(int wait, Progress& progress, const std::function<Status()>& attempt);

}  // namespace s3oram
