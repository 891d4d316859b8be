// S3ORAM at the client: a slot holds a sealed block, shared among the servers by polynomials of
// degree t.
#pragma once

#include "oramcore/client/client_scheme.h"
#include "oramcore/schemes/s3oram/seal.h"

namespace s3oram {

class S3oram final : public ClientScheme {
 public:
  S3oram(const VolumeParams& params, const Seed& sealing_key, Random& random)
      : params_(params),
        random_(random),
        sealer_(sealing_key, random),
        mark_keys_(Prg(sealing_key, as_bytes("keys of share marks")).seed()) {}
  ~S3oram() override;

  Bytes seal(const Label& label, ByteSpan content) override { return sealer_.seal(label, content); }
  Result<OpenedBlock> open(ByteSpan slot) const override { return sealer_.open(slot); }
  std::vector<ServerQuery> queries(WriteNumber write_number, std::size_t slots,
                                   std::size_t index) override;
  std::unique_ptr<RootUpload> upload(const WriteRootRequest& request, Bytes slot,
                                     const InStep& servers) override;
  bool keeps_marks() const override { return is_checked(); }
  Seed mark_key(std::uint64_t eviction, Party server) const override;
  SchemeOrders orders(const EvictionPlan& plan, const EvictionId& id, unsigned height,
                      std::uint64_t epoch, unsigned tries, const InStep& servers,
                      Random& random) override;

 private:
  /// Returns whether the servers' work in evictions is checked.
  bool is_checked() const {
    return params_.security == Security::malicious && params_.evictor == Evictor::shuffle;
  }

  const VolumeParams params_;
  Random& random_;
  Sealer sealer_;
  Seed mark_keys_;  // all keys of marks follow from this
  // The check of an eviction has failed, so servers sign what they pass on from now on.
  const std::shared_ptr<bool> doubted_ = std::make_shared<bool>(false);
};

}  // namespace s3oram
