// The registry of the client's schemes: a line for each.
#include "oramcore/schemes/registry.h"

#include "oramcore/schemes/mirror/client/mirror.h"
#include "oramcore/schemes/s3oram/s3oram.h"

namespace s3oram {

std::unique_ptr<ClientScheme> client_scheme(const VolumeParams& params, const Seed& sealing_key,
                                            Random& random) {
  switch (params.kind()) {
    case SchemeKind::mirror:
      return std::make_unique<Mirror>(params, sealing_key, random);
    case SchemeKind::s3oram:
      return std::make_unique<S3oram>(params, sealing_key, random);
    case SchemeKind::ring:
      break;  // has an engine of its own (schemes/ring/client/ring_engine.h)
  }
  return nullptr;
}

}  // namespace s3oram
