// The log of a program, on standard error: for people, or for the journal.
#pragma once

#include <string>

namespace s3oram {

/// Whether standard error is the journal's, as JOURNAL_STREAM says (systemd.exec(5)).
bool stderr_is_journal();

/// From now on the default logger, `name`, writes to standard error: with colors on a terminal; for
/// the journal with a priority such as <6> before each line (sd-daemon(3)), and without the time
/// and the name, which it has already. The level becomes spdlog's default.
void log_to_stderr(const std::string& name);

}  // namespace s3oram
