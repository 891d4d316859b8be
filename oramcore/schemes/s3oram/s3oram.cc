// Queries and orders of S3ORAM.
#include "oramcore/schemes/s3oram/s3oram.h"

#include "oramcore/schemes/s3oram/eviction_orders.h"
#include "oramcore/schemes/s3oram/s3oram_upload.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {

// As in the paper, or t servers' shares come from seeds.
std::vector<ServerQuery> S3oram::queries(WriteNumber write_number, std::size_t slots,
                                         std::size_t index) {
  const Scheme& scheme = params_.scheme;
  std::vector<ServerQuery> queries;
  if (params_.privacy == Privacy::information_theoretic) {
    for (Bytes& share : create_query(scheme, slots, index, random_))
      queries.push_back({{}, std::move(share)});
  } else {
    std::vector<Bytes> first;
    for (unsigned i = 0; i < scheme.threshold; ++i) {
      const Seed seed = random_.seed();
      first.push_back(expand(seed, "select", write_number, slots));
      queries.push_back({seed, {}});
    }
    for (Bytes& share : complete_shares(scheme, unit_vector(slots, index), first))
      queries.push_back({{}, std::move(share)});
  }
  queries.resize(params_.workers());
  return queries;
}

std::unique_ptr<RootUpload> S3oram::upload(const WriteRootRequest& request, Bytes slot) {
  return s3oram_upload(params_, request, std::move(slot), random_);
}

std::vector<Bytes> S3oram::orders(const EvictionPlan& plan, const EvictionId&, unsigned,
                                  Random& random) {
  return eviction_orders(params_, plan, random);
}

}  // namespace s3oram
