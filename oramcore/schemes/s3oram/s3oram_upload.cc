// Root writes of S3ORAM (Protocol 2): whole shares, or parts of which one is not random.
#include "oramcore/schemes/s3oram/s3oram_upload.h"

#include <sodium.h>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {
namespace {

/// Sends every server its share, as in the paper.
class ShareUpload final : public RootUpload {
 public:
  ShareUpload(const VolumeParams& params, const WriteRootRequest& request, ByteSpan slot,
              Random& random)
      : request_(request), shares_(create_shares(params.scheme, slot, random)) {}
  Bytes message(Party server) const override {
    WriteRootRequest message = request_;
    message.share = shares_[server - 1u];
    return encode(message);
  }
  Bytes whole(Party server) const override { return message(server); }
  std::vector<Party> relayed_by(Party) const override { return {}; }

 private:
  const WriteRootRequest request_;
  const std::vector<Bytes> shares_;
};

/// Uploads only one block: of the block's three parts (sharing/seeded.h), part `lacking` is not
/// random. Two servers need it: `giver` gets it from the client and relays it to `taker`.
class PartUpload final : public RootUpload {
 public:
  PartUpload(const WriteRootRequest& request, Bytes slot, Random& random)
      : request_(request),
        lacking_(static_cast<Party>(1 + request.write_number % 3)),
        giver_(static_cast<Party>(1 + lacking_ % 3)),
        taker_(static_cast<Party>(1 + giver_ % 3)),
        part_(std::move(slot)) {
    for (const Party number : {giver_, taker_}) {
      seeds_[number] = random.seed();
      random_[number] = expand(seeds_[number], "root part", request_.access, part_.size());
      gf::multiply_add(1, random_[number], part_);
    }
  }
  Bytes message(Party server) const override;
  Bytes whole(Party server) const override;
  std::vector<Party> relayed_by(Party server) const override {
    return server == giver_ ? std::vector<Party>{taker_} : std::vector<Party>();
  }

 private:
  const WriteRootRequest request_;
  const Party lacking_, giver_, taker_;
  Bytes part_;       // number `lacking`
  Seed seeds_[4];    // seeds of the other parts, by number
  Bytes random_[4];  // those parts, expanded from the seeds
};

Bytes PartUpload::message(Party server) const {
  WriteRootRequest message = request_;
  for (const Party number : {lacking_, giver_, taker_}) {
    if (number == server) continue;
    SharePart& each = message.parts.emplace_back();
    each.number = number;
    if (number != lacking_) {
      each.seed = seeds_[number];
    } else if (server == giver_) {
      each.content = part_;
    } else {
      crypto_generichash(each.digest.emplace().data(), sizeof(Digest), part_.data(), part_.size(),
                         nullptr, 0);
    }
  }
  if (server == giver_) message.relay_to = taker_;
  return encode(message);
}

Bytes PartUpload::whole(Party server) const {
  WriteRootRequest message = request_;
  Bytes share(part_.size());
  gf::multiply_add(part_weight(lacking_, server), part_, share);
  for (const Party number : {giver_, taker_})
    gf::multiply_add(part_weight(number, server), random_[number], share);
  message.share = share;
  return encode(message);
}

}  // namespace

std::unique_ptr<RootUpload> s3oram_upload(const VolumeParams& params,
                                          const WriteRootRequest& request, Bytes slot,
                                          Random& random) {
  if (params.privacy == Privacy::computational && params.scheme == Scheme{1, 3})
    return std::make_unique<PartUpload>(request, std::move(slot), random);
  return std::make_unique<ShareUpload>(params, request, slot, random);
}

}  // namespace s3oram
