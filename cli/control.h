// Questions to the daemon of a mounted vault: one line each way over VAULT/run/control.sock.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "oramcore/state/vault.h"

namespace s3oram {

/// Asks "status" or "sync" and gives the answer, an object. Errors: not_mounted (no daemon
/// listens), and what the daemon itself answers.
Result<nlohmann::json> ask_daemon(const Vault& vault, const std::string& question);

}  // namespace s3oram
