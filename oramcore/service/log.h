// A program's log on standard error, formatted for people or for the journal.
#pragma once

#include <string>

namespace s3oram {

/// Returns whether standard error leads to the journal, by JOURNAL_STREAM (systemd.exec(5)).
bool stderr_is_journal();

/// Makes the default logger, called `name`, write to standard error: with colors on a terminal; for
/// the journal with a priority such as <6> before each line (sd-daemon(3)), and without the time
/// and the name, which the journal adds itself. Its level is spdlog's default.
void log_to_stderr(const std::string& name);

}  // namespace s3oram
