// The registry of the servers' schemes, with a line for each.
#include "serverd/schemes.h"

#include "serverd/mirror/mirror_server.h"
#include "serverd/s3oram/s3oram_server.h"

namespace s3oram {

std::unique_ptr<ServerScheme> server_scheme(const VolumeDescription& volume) {
  switch (volume.params.kind()) {
    case SchemeKind::mirror:
      return make_mirror_server(volume);
    case SchemeKind::s3oram:
      return make_s3oram_server(volume);
    case SchemeKind::ring:
      break;  // has a server of its own (any_server.cc)
  }
  return nullptr;
}

}  // namespace s3oram
