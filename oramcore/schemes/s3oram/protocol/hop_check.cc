// The verdict on a shuffle's hops.
#include "oramcore/schemes/s3oram/protocol/hop_check.h"

namespace s3oram {

HopVerdict judge_hops(const HopPlan& plan, const HopReports& reports) {
  const auto& [first, second, third] = reports;
  const std::size_t rows = plan.pi_1.size();
  const std::size_t kept = first.received.size(), dropped = rows - kept;
  const Permutation from_1 = inverse(plan.pi_1), from_2 = inverse(plan.pi_2),
                    from_3 = inverse(plan.pi_3);
  HopVerdict verdict;
  for (std::size_t s = 0; s < rows; ++s)
    verdict.first_to_second &= second.received[s] == third.own[s] + third.mask_first[plan.pi_1[s]];
  for (std::size_t p = 0; p < rows; ++p) {
    const std::size_t s = from_1[p];
    verdict.second_to_third &= third.received_second[p] ==
                               first.own[s] + third.own_again[s] + first.mask_second[plan.pi_2[p]];
  }
  for (std::size_t r = 0; r < kept; ++r) {
    const std::size_t q = from_3[dropped + r], p = from_2[q];
    verdict.third_to_first &=
        first.received[r] == second.sent[q] + first.mask_first[p] + second.line_of_3[r];
    verdict.first_to_third &=
        third.received_first[r] == second.mask_second[q] + second.line_of_1[r];
  }
  return verdict;
}

}  // namespace s3oram
