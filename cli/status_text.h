// Turns the JSON that `s3oramfs status` has for programs into text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace s3oram {

/// Returns what is wrong, the gravest problem first; empty if the vault is healthy, or not mounted.
std::vector<std::string> status_problems(const nlohmann::ordered_json& status);

/// Returns faults that do not stop the volume, such as a mirror's server that is away.
std::vector<std::string> status_warnings(const nlohmann::ordered_json& status);

/// Returns whether one of the problems is of this kind (kProblemKinds in fused/daemon/health.h).
bool status_has_problem(const nlohmann::ordered_json& status, std::string_view kind);

/// Returns one line of text ("healthy", "not mounted" ...), and more lines only for further
/// problems.
std::string health_text(const nlohmann::ordered_json& status);

/// Returns the line of a healthy vault for scripts: "healthy", and any warnings after it.
std::string healthy_line(const nlohmann::ordered_json& status);

/// Returns all lines. `now`: s since 1970. Members that an older or newer daemon does not send
/// count as zero or empty.
std::string status_text(const nlohmann::ordered_json& status, std::int64_t now);

}  // namespace s3oram
