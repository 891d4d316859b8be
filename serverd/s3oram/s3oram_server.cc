// The server's side of S3ORAM: shares of slots, and the two evictors.
#include "serverd/s3oram/s3oram_server.h"

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"
#include "serverd/s3oram/matrix_eviction.h"
#include "serverd/s3oram/shuffle_eviction.h"

namespace s3oram {
namespace {

class S3oramServer final : public ServerScheme {
 public:
  explicit S3oramServer(const VolumeDescription& volume)
      : ServerScheme(volume), quorum_(quorum_points(params().scheme)) {}

  std::optional<Bytes> coefficients(const RetrieveRequest& request,
                                    std::size_t slots) const override {
    if (request.query_seed)
      return expand(*request.query_seed, "select", request.write_number, slots);
    if (request.query.size() != slots) return std::nullopt;
    return Bytes(request.query.begin(), request.query.end());
  }
  void add_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                   MutableByteSpan sum) const override {
    gf::inner_product(coefficients, rows, sum);
  }
  std::uint8_t weight() const override { return lagrange_at_zero(quorum_)[self() - 1u]; }
  bool adds_up() const override { return self() <= quorum_.size(); }
  Bytes summands() const override { return quorum_; }

  std::optional<std::uint8_t> part_weight(std::uint8_t number) const override {
    if (number < 1 || number > 3) return std::nullopt;
    return s3oram::part_weight(number, self());
  }
  std::size_t part_size() const override { return params().slot_size(); }
  bool takes_parts() const override { return params().scheme == Scheme{1, 3}; }

  Result<std::shared_ptr<Eviction>> make_eviction(EvictionInput input,
                                                  const EvictionHost& host) const override {
    return params().evictor == Evictor::shuffle ? ShuffleEviction::make(std::move(input), host)
                                                : MatrixEviction::make(std::move(input), host);
  }

 private:
  const Bytes quorum_;
};

}  // namespace

std::unique_ptr<ServerScheme> make_s3oram_server(const VolumeDescription& volume) {
  return std::make_unique<S3oramServer>(volume);
}

}  // namespace s3oram
