// Processes: what a program settles about its own before all else in main(), and others.
#pragma once

#include <sys/types.h>

#include <vector>

#include "oramcore/base/descriptor.h"

namespace s3oram {

/// Opens /dev/null in the place of each of stdin, stdout and stderr that is closed: the next file
/// opened would have its number, and what is printed would go there.
void open_standard_streams();

/// The open files that are none of these three. First thing: what the caller has left open.
std::vector<int> open_files();

/// A process: readable once it has ended, whole. None: errno says why.
Descriptor open_process(pid_t pid);

/// Whether the process is stopped, by SIGSTOP or by a debugger, and does nothing until SIGCONT.
bool is_stopped(pid_t pid);

/// No core dump of this program, nor of those it starts: it would hold keys and what files hold.
void forbid_core_dumps();

}  // namespace s3oram
