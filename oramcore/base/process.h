// Processes: what a program does about its own process first in main(), and queries about other
// processes.
#pragma once

#include <sys/types.h>

#include <vector>

#include "oramcore/base/descriptor.h"

namespace s3oram {

/// Opens /dev/null in place of each of stdin, stdout and stderr that is closed. Otherwise the next
/// file to be opened would get its number, and output would go to that file.
void open_standard_streams();

/// Returns the open files other than these three. At the start of main(), these are the files that
/// the caller left open.
std::vector<int> open_files();

/// Opens a process. The descriptor is readable once the whole process has ended. If it returns no
/// descriptor, errno says why.
Descriptor open_process(pid_t pid);

/// Returns whether the process is stopped, by SIGSTOP or by a debugger, until SIGCONT.
bool is_stopped(pid_t pid);

/// Forbids core dumps of this program and those that it starts, because they would contain keys and
/// file contents.
void forbid_core_dumps();

}  // namespace s3oram
