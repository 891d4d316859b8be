// Makes the server read every bucket that it holds from its disk, and rebuild damaged rows.
#pragma once

#include "oramcore/schemes/ring/client/rewriter.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class RingScrubber {
 public:
  RingScrubber(OpenRing& ring, const Rewriter& rewriter) : ring_(ring), rewriter_(rewriter) {}

  /// Errors: the volume died, ...
  Task<Result<Healed>> scrub(VolumeEngine::ScrubProgress progress);

 private:
  OpenRing& ring_;
  const Rewriter& rewriter_;
};

}  // namespace s3oram::ring
