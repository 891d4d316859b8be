// The registry of the client's schemes, with one line for each.
#include "oramcore/schemes/registry.h"

#include "oramcore/schemes/mirror/client/mirror.h"
#include "oramcore/schemes/ring/client/ring_volume.h"
#include "oramcore/schemes/ring/protocol/ring_sizing.h"
#include "oramcore/schemes/s3oram/s3oram.h"
#include "oramcore/schemes/tree_kind.h"

namespace s3oram {

const VolumeKind& volume_kind(const VolumeParams& params) {
  static const TreeKind tree;
  static const ring::RingKind ring;
  if (params.is_ring()) return ring;
  return tree;
}

Result<Choice> choose_volume(const Wishes& wishes) {
  return wishes.kind == SchemeKind::ring ? ring::choose_ring(wishes) : choose_params(wishes);
}

std::unique_ptr<ClientScheme> client_scheme(const VolumeParams& params, const Seed& sealing_key,
                                            Random& random) {
  switch (params.kind()) {
    case SchemeKind::mirror:
      return std::make_unique<Mirror>(params, sealing_key, random);
    case SchemeKind::s3oram:
      return std::make_unique<S3oram>(params, sealing_key, random);
    case SchemeKind::ring:
      break;
  }
  return nullptr;
}

}  // namespace s3oram
