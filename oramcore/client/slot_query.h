// Asks the servers for the inner product of a query and the slots of a path: one slot of it, which
// no t servers know.
#pragma once

#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class SlotQuery {
 public:
  explicit SlotQuery(VolumeState& state) : state_(state) {}

  /// Returns slot `index` of the path to `leaf`, or zeros from path.count() on, in the tree version
  /// that is read now. One attempt. Errors: the gravest of the servers'.
  Task<Result<Bytes>> ask(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                          std::size_t index);
  /// Whether there are servers enough for ask_each().
  bool can_ask_each() const;
  struct Named {
    Bytes slot;
    Bytes liars;  // servers whose answers are wrong
  };
  /// Asks every server to answer for itself, so that the answers show which of them are wrong.
  /// If those are more than t, they may show anything.
  Task<Result<Named>> ask_each(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                               std::size_t index);

 private:
  struct SumAttempt;
  RetrieveRequest request_for(WriteNumber write_number, Leaf leaf, const PathSlots& path) const;
  Task<Result<Bytes>> ask_for_shares(RetrieveRequest request, std::size_t slots, std::size_t index);
  Task<Result<std::vector<Bytes>>> shares_of_product(RetrieveRequest request, std::size_t slots,
                                                     std::size_t index, unsigned servers);
  Task<Result<Bytes>> ask_for_sum(RetrieveRequest request, std::size_t slots, std::size_t index);
  Task<void> ask_for_masked_share(Party server, std::size_t nth, Bytes message, SumOrder order,
                                  std::shared_ptr<SumAttempt> attempt);
  Bytes workers_of(std::uint64_t request_id) const;

  VolumeState& state_;
};

}  // namespace s3oram
