// Asks the servers for the inner product of a query and the slots of a path. The product is one
// slot of the path, and no t servers learn which one.
#pragma once

#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class SlotQuery {
 public:
  explicit SlotQuery(VolumeState& state) : state_(state) {}

  /// Returns slot `index` of the path to `leaf`, or zeros if `index` >= path.count(), in the tree
  /// version that is read now. Makes one attempt. Errors: the most serious one that a server
  /// returns; servers_disagree (a part of the answer has not come, although all servers say that
  /// they have sent theirs).
  Task<Result<Bytes>> ask(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                          std::size_t index);
  /// Returns whether there are enough servers for ask_each().
  bool can_ask_each() const;
  struct Named {
    Bytes slot;
    Bytes liars;  // servers whose answers are wrong
  };
  /// Asks every server to answer for itself, so that the answers show which servers are wrong. If
  /// more than t are wrong, the result may be anything.
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
  void note_late(const Bytes& workers, std::size_t adding, const SumAttempt& attempt);
  Error withheld(const Bytes& workers, std::size_t adding, const Error& said);

  VolumeState& state_;
};

}  // namespace s3oram
