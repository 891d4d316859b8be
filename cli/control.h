// Questions to the daemon of a mounted vault: one line each way over VAULT/run/control.sock.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/terminal.h"
#include "oramcore/state/vault.h"

namespace s3oram {

/// Longer than a daemon asks its servers before it answers "status".
constexpr std::chrono::seconds kStatusPatience{15};

/// Asks a question of fused/control.h and gives the answer, an object. Errors: not_mounted (no
/// daemon listens), unreachable (none answers within `patience`, if that is not zero), and what the
/// daemon itself answers.
Result<nlohmann::json> ask_daemon(const Vault& vault, const std::string& question,
                                  std::chrono::seconds patience = std::chrono::seconds(0));

/// The same of a question that takes long: `progress` goes on meanwhile. A daemon that does not
/// even say how it is, is unreachable.
Result<nlohmann::json> ask_daemon(const Vault& vault, const std::string& question,
                                  Progress& progress,
                                  std::chrono::seconds patience = std::chrono::seconds(0));

}  // namespace s3oram
