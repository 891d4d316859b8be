// Root writes of S3ORAM: either every server is sent its share, as in the paper, or only one block
// is uploaded.
#pragma once

#include "oramcore/client/client_scheme.h"

namespace s3oram {

std::unique_ptr<RootUpload> s3oram_upload(const VolumeParams& params,
                                          const WriteRootRequest& request, Bytes slot,
                                          Random& random);

}  // namespace s3oram
