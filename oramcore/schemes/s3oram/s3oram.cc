// Queries and orders of S3ORAM.
#include "oramcore/schemes/s3oram/s3oram.h"

#include <sodium.h>

#include "oramcore/schemes/s3oram/eviction_orders.h"
#include "oramcore/schemes/s3oram/hop_masks.h"
#include "oramcore/schemes/s3oram/hop_reports.h"
#include "oramcore/schemes/s3oram/hop_suspects.h"
#include "oramcore/schemes/s3oram/s3oram_upload.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {
namespace {

/// Checks what the servers passed on to each other in a shuffle (hop_check.h).
class HopCheck final : public ReportCheck {
 public:
  HopCheck(const VolumeParams& params, EvictionOrders orders, const ShuffleAttempt& attempt,
           std::shared_ptr<bool> doubted)
      : params_(params),
        orders_(std::move(orders)),
        attempt_(attempt),
        doubted_(std::move(doubted)) {}
  void expect() override { masks_ = make_hop_masks(params_, orders_, attempt_); }
  Status verdict(std::span<const Payload> reports) const override {
    Status status = check_hops(orders_, *masks_, read_reports(params_, orders_, reports));
    *doubted_ = *doubted_ || !status;
    return status;
  }
  bool can_find_liar() const override { return orders_.shuffle.sign.has_value(); }
  Party find_liar(std::span<const Payload> reports, const PathShares& shares) const override {
    return s3oram::find_liar(orders_, run_honestly(params_, orders_, attempt_, shares),
                             read_reports(params_, orders_, reports));
  }

 private:
  const VolumeParams params_;
  const EvictionOrders orders_;
  const ShuffleAttempt attempt_;
  std::optional<HopMasks> masks_;
  const std::shared_ptr<bool> doubted_;  // whether a check has failed
};

}  // namespace

S3oram::~S3oram() { sodium_memzero(mark_keys_.data(), mark_keys_.size()); }

// Makes queries as in the paper, or with the shares of t servers as seeds.
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
  return queries;
}

std::unique_ptr<RootUpload> S3oram::upload(const WriteRootRequest& request, Bytes slot,
                                           const InStep&) {
  return s3oram_upload(params_, request, std::move(slot), random_);
}

// Derived, so that vault.db needs no keys. A server that repeats an eviction uses the same key
// again, which is harmless because nobody else has it.
Seed S3oram::mark_key(std::uint64_t eviction, Party server) const {
  Writer use;
  use(as_bytes("share marks"), eviction, server);
  return Prg(mark_keys_, use.take()).seed();
}

SchemeOrders S3oram::orders(const EvictionPlan& plan, const EvictionId& id, unsigned,
                            std::uint64_t epoch, unsigned tries, const InStep&, Random& random) {
  EvictionOrders orders = eviction_orders(params_, plan, random, tries, *doubted_);
  std::vector<Bytes> messages = orders.messages;
  if (!is_checked()) return {std::move(messages), nullptr};
  return {std::move(messages), std::make_shared<HopCheck>(params_, std::move(orders),
                                                          ShuffleAttempt{epoch, id}, doubted_)};
}

}  // namespace s3oram
