// Examines the hops in the order in which content passes through them: whatever comes after the
// first wrong message follows from it, and proves nothing (hop_suspects.h).
#include "oramcore/schemes/s3oram/hop_suspects.h"

#include <algorithm>
#include <set>

namespace s3oram {
namespace {

enum HopNumber : std::size_t {
  first_to_second,
  second_to_third,
  third_to_first,
  first_to_third,
  audit
};

class Inquiry {
 public:
  Inquiry(const EvictionOrders& orders, const HonestRun& honest, const ShuffleReports& reports)
      : orders_(orders), honest_(honest), reports_(reports) {}

  Party liar() {
    if (reports_.none_of != 0) return reports_.none_of;
    const auto& [first, second, third] = reports_.of;
    const auto& [first_right, second_right, third_right] = honest_.reports;
    // Reports that follow only from a server's own shares.
    expect(1, first.own == first_right.own);
    expect(3, third.own == third_right.own && third.own_again == third_right.own_again);
    // These two follow from seeds and shares, whatever else was passed on.
    expect_hop(HopNumber::first_to_third, third.received_first == third_right.received_first);
    expect_hop(HopNumber::audit, first.audit == first_right.audit);
    if (expect_hop(HopNumber::first_to_second, second.received == second_right.received)) {
      expect(2, second.sent == second_right.sent);
      if (expect_hop(HopNumber::second_to_third,
                     third.received_second == third_right.received_second))
        expect_hop(HopNumber::third_to_first, first.received == first_right.received);
    }
    return found_.size() == 1 ? *found_.begin() : Party{0};
  }

 private:
  void expect(unsigned role, bool right) {
    if (!right) found_.insert(orders_.server_of(role));
  }
  bool expect_hop(std::size_t hop, bool right) {
    if (!right) found_.insert(orders_.server_of(role_that_lied(hop)));
    return right;
  }
  /// Returns who lied about a hop whose receiver reports something other than it should have
  /// received.
  unsigned role_that_lied(std::size_t hop) const {
    const auto& [from, to, step] = kShuffleHops[hop];
    const auto& right = honest_.sent[hop];
    const HopReceipt* receipt = receipts(hop);
    bool all_right = true;
    for (std::size_t tile = 0; tile < right.size(); ++tile, ++receipt) {
      // The receiver uses only signed messages.
      if (!is_signed(orders_.shuffle.verify(from), receipt->hash, receipt->signature)) return to;
      all_right = all_right && receipt->hash == right[tile];
    }
    return all_right ? to : from;
  }
  /// Returns the receipts of the hop's receiver, by tile.
  const HopReceipt* receipts(std::size_t hop) const {
    const unsigned to = kShuffleHops[hop].to;
    const auto before =
        std::count_if(kShuffleHops.begin(), kShuffleHops.begin() + static_cast<std::ptrdiff_t>(hop),
                      [&](const ShuffleHop& each) { return each.to == to; });
    return reports_.receipts[to - 1].data() +
           static_cast<std::size_t>(before) * honest_.sent[hop].size();
  }

  const EvictionOrders& orders_;
  const HonestRun& honest_;
  const ShuffleReports& reports_;
  std::set<Party> found_;
};

}  // namespace

Party find_liar(const EvictionOrders& orders, const HonestRun& honest,
                const ShuffleReports& reports) {
  return Inquiry(orders, honest, reports).liar();
}

}  // namespace s3oram
