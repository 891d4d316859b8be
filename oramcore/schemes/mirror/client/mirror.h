// Mirror at the client: every server holds the same slots, and each slot is a sealed block under
// layers of masks (docs/protocol-mirror.md).
#pragma once

#include "oramcore/client/client_scheme.h"
#include "oramcore/oram/opaque_sealer.h"
#include "oramcore/schemes/mirror/protocol/layers.h"

namespace s3oram {

class Mirror final : public ClientScheme {
 public:
  Mirror(const VolumeParams& params, const Seed& sealing_key, Random& random)
      : params_(params), random_(random), sealer_(sealing_key, random), layers_(sealing_key) {}

  Bytes seal(const Label& label, ByteSpan content) override;
  Result<OpenedBlock> open(ByteSpan slot) const override;
  bool may_be_at(ByteSpan slot, const SlotPlace& place) const override;
  std::size_t head_size() const override { return mirror::kHead; }
  std::optional<Label> label_of(ByteSpan slot) const override;
  Task<Result<OpenedBlock>> open_on(Executor pool, Bytes slot,
                                    std::optional<unsigned> height) const override;
  std::optional<Label> label_in(ByteSpan head) const override;
  std::vector<ServerQuery> queries(WriteNumber write_number, std::size_t slots,
                                   std::size_t index) override;
  std::unique_ptr<RootUpload> upload(const WriteRootRequest& request, Bytes slot,
                                     const InStep& servers) override;
  SchemeOrders orders(const EvictionPlan& plan, const EvictionId& id, unsigned height,
                      std::uint64_t epoch, unsigned tries, const InStep& servers,
                      Random& random) override;
  std::unique_ptr<EvictionCheck> check(const EvictionPlan& plan, const EvictionId& id,
                                       unsigned height, std::uint64_t epoch, unsigned tries,
                                       const InStep& servers) override;

 private:
  /// Returns the slot without its layers; std::nullopt if its header is not sound.
  std::optional<Bytes> peeled(ByteSpan slot) const;
  Result<OpenedBlock> opened(const std::optional<Bytes>& sealed) const;

  const VolumeParams params_;
  Random& random_;
  OpaqueSealer sealer_;
  const mirror::LayerKeys layers_;
};

}  // namespace s3oram
