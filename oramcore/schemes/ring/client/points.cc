// Draws the secret order of a bucket version's points.
#include "oramcore/schemes/ring/client/points.h"

#include "oramcore/base/codec.h"
#include "oramcore/base/rules.h"

namespace s3oram::ring {
namespace {

Permutation drawn(const Seed& key, BucketIndex bucket, VersionStamp stamp) {
  if (!rule_holds(Rule::own_order)) stamp = 0;
  Writer context;
  context(as_bytes("ring points"), bucket, stamp);
  Prg prg(key, context.take());
  return random_permutation(kPoints, prg);
}

}  // namespace

Points::Points(const Seed& key, BucketIndex bucket, VersionStamp stamp)
    : order_(drawn(key, bucket, stamp)) {}

}  // namespace s3oram::ring
