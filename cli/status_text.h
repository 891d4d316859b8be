// What `s3oramfs status` prints for a person, of the JSON that it has for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace s3oram {

/// What is wrong, the gravest first; none if it is healthy, or not mounted.
std::vector<std::string> status_problems(const nlohmann::ordered_json& status);

/// Faults in spite of which the volume goes on, such as a server of a mirror that is away.
std::vector<std::string> status_warnings(const nlohmann::ordered_json& status);

/// Whether one of the problems is of this kind (kProblemKinds in fused/daemon/health.h).
bool status_has_problem(const nlohmann::ordered_json& status, std::string_view kind);

/// One line in words, then more only for further problems: "healthy", "not mounted", ...
std::string health_text(const nlohmann::ordered_json& status);

/// All lines. `now`: s since 1970. Members that an older or newer daemon does not send count as
/// zero or empty.
std::string status_text(const nlohmann::ordered_json& status, std::int64_t now);

}  // namespace s3oram
