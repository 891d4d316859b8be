// Seals blocks with their labels, and opens them again.
#include "oramcore/schemes/ring/client/sealed_block.h"

#include <cstring>

#include "oramcore/protocol/label.h"

namespace s3oram::ring {
namespace {

OpaqueSealer::SealedLabel packed_label(const Label& label) {
  OpaqueSealer::SealedLabel packed;
  const std::uint64_t back = label_back(label);
  std::memcpy(packed.data(), &label.block, 8);
  std::memcpy(packed.data() + 8, &label.version, 8);
  std::memcpy(packed.data() + kLabelFront, &back, kLabelBack);
  return packed;
}

}  // namespace

Bytes sealed_block(OpaqueSealer& sealer, const Label& label, ByteSpan content) {
  return sealer.seal(packed_label(label), content);
}

Result<OpenedBlock> opened_block(const OpaqueSealer& sealer, ByteSpan sealed) {
  S3O_ASSIGN(auto found, sealer.open(sealed));
  const auto label = read_label(found.label);
  if (!label) return fail(Errc::corrupt, "an impossible label");
  return OpenedBlock{*label, std::move(found.content)};
}

Result<OpenedBlock> opened_block(const OpaqueSealer& sealer, ByteSpan sealed, BlockId block,
                                 std::uint64_t version) {
  S3O_ASSIGN(auto found, opened_block(sealer, sealed));
  if (found.label.block != block || found.label.version != version)
    return fail(Errc::corrupt, "block {}: the slot holds another block or version", block);
  return found;
}

}  // namespace s3oram::ring
