// The server's side of mirror: retrievals by XOR, the evictor, and the check of its rows.
#include "serverd/mirror/mirror_server.h"

#include <numeric>

#include "oramcore/field/gf256.h"
#include "oramcore/schemes/mirror/protocol/layers.h"
#include "oramcore/schemes/mirror/protocol/row_check.h"
#include "oramcore/sharing/seeded.h"
#include "serverd/mirror/selection_eviction.h"

namespace s3oram {
namespace {

class Checker final : public RowChecker {
 public:
  Checker(const Seed& seed, const VolumeParams& params, std::size_t rows)
      : report_(seed, params.slot_size(), rows, rows - params.evict_every) {}
  void add_old(std::size_t index, const std::uint8_t* row) override { report_.add_old(index, row); }
  void add_new(std::size_t place, const std::uint8_t* row) override { report_.add_new(place, row); }
  CertifyAnswer answer(bool with_list) const override { return report_.answer(with_list); }

 private:
  mirror::RowReport report_;
};

class MirrorServer final : public ServerScheme {
 public:
  explicit MirrorServer(const VolumeDescription& volume) : ServerScheme(volume) {}

  std::optional<Bytes> coefficients(const RetrieveRequest& request,
                                    std::size_t slots) const override {
    const std::size_t size = gf::bit_row(slots);
    const Bytes expanded = request.query_seed
                               ? expand(*request.query_seed, "select", request.write_number, size)
                               : Bytes();
    const ByteSpan bits = request.query_seed ? ByteSpan(expanded) : request.query;
    if (bits.size() != size) return std::nullopt;
    Bytes coefficients(slots);
    for (std::size_t i = 0; i < slots; ++i) coefficients[i] = bits[i / 8] >> i % 8 & 1;
    return coefficients;
  }
  void add_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                   MutableByteSpan sum) const override {
    std::vector<const std::uint8_t*> chosen;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (coefficients[i] != 0) chosen.push_back(rows[i]);
    gf::sum(chosen, sum);
  }
  std::uint8_t weight() const override { return 1; }
  bool adds_up() const override { return true; }
  Bytes summands() const override {
    Bytes all(params().scheme.servers);
    std::iota(all.begin(), all.end(), std::uint8_t{1});
    return all;
  }

  std::optional<std::uint8_t> part_weight(std::uint8_t number) const override {
    if (number != self()) return std::nullopt;
    return 1;
  }
  std::size_t part_size() const override { return params().slot_size() - mirror::kHeader; }
  bool takes_parts() const override { return true; }

  Result<std::shared_ptr<Eviction>> make_eviction(EvictionInput input,
                                                  const EvictionHost& host) const override {
    return SelectionEviction::make(std::move(input), host);
  }
  std::unique_ptr<RowChecker> check_rows(const Seed& seed, std::size_t rows) const override {
    return std::make_unique<Checker>(seed, params(), rows);
  }
};

}  // namespace

std::unique_ptr<ServerScheme> make_mirror_server(const VolumeDescription& volume) {
  return std::make_unique<MirrorServer>(volume);
}

}  // namespace s3oram
