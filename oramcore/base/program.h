// Runs another program and waits for it.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Returns the arguments for exec: pointers into `words`, followed by a null pointer.
std::vector<char*> argument_pointers(std::vector<std::string>& words);

struct ProgramEnd {
  int status = 0;  // wait status, as waitpid() gives it
  Bytes said;      // captured output; never copied in memory, so that a caller can wipe it
  bool succeeded() const;
};

/// Runs words[0], which is looked up as by a shell, with the other words as its arguments, and
/// waits until it ends. Keeps the first `most` bytes that it writes to the descriptor `captured` (1
/// or 2; -1 for none). Its standard input is `input`, unless that is -1; it inherits everything
/// else.
/// Errors: failed (it cannot be run).
Result<ProgramEnd> run_program(std::vector<std::string> words, int captured = -1,
                               std::size_t most = 0, int input = -1);

}  // namespace s3oram
