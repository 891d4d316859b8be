// Processes: what a program does about its own process first in main(), and queries about others.
#pragma once

#include <sys/types.h>

#include <vector>

#include "oramcore/base/descriptor.h"

namespace s3oram {

/// Opens /dev/null in the place of each closed one of stdin, stdout and stderr. Otherwise the next
/// file opened would get its number, and output would go there.
void open_standard_streams();

/// Returns the open files other than these three. At the start of main(): what the caller left
/// open.
std::vector<int> open_files();

/// Opens a process: the descriptor is readable once the whole process has ended. Without a
/// descriptor errno says why.
Descriptor open_process(pid_t pid);

/// Returns whether the process is stopped, by SIGSTOP or by a debugger, until SIGCONT.
bool is_stopped(pid_t pid);

/// Forbids core dumps of this program and those it starts: they would hold keys and file contents.
void forbid_core_dumps();

}  // namespace s3oram
