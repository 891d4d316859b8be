// Every format on disk and on the wire has a number (docs/formats.md). A number that this program
// does not know is refused with the same words everywhere, before anything is read or changed.
#pragma once

#include <cstdint>

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns the error (unsupported) for the format `found`, which is not `known`. The message says
/// where the format was found, both numbers, and what to do. `where` names the file, and also the
/// table if the file has several.
inline tl::unexpected<Error> unknown_format(std::string_view where, std::int64_t found,
                                            std::int64_t known) {
  if (found > known)
    return fail(Errc::unsupported,
                "{}: its format {} is newer than this program, which knows format {}; use the "
                "version of s3oramfs that made it, or a later one; nothing was changed",
                where, found, known);
  return fail(Errc::unsupported,
              "{}: its format {} is that of a version before the first release, and this program "
              "knows format {}; copy the files out with the version that made it",
              where, found, known);
}

}  // namespace s3oram
