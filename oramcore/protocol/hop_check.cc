// Computes the verdict on a shuffle's hops.
#include "oramcore/protocol/hop_check.h"

#include "oramcore/base/rules.h"

namespace s3oram {

HopVerdict judge_hops(const HopPlan& plan, const HopMasks& masks, const HopReports& reports) {
  const auto& [first, second, third] = reports;
  const std::size_t rows = plan.pi_1.size();
  const std::size_t kept = masks.first_to_third.size();
  const Permutation from_3 = inverse(plan.pi_3);
  HopVerdict verdict;
  gf128::Element audited = masks.audit;
  for (std::size_t s = 0; s < rows; ++s) {
    verdict.first_to_second &= second.received[s] == third.own[s] + masks.first_to_second[s];
    audited += gf128::multiply(masks.weights[s], third.own_again[s]);
    const std::size_t p = plan.pi_1[s];
    verdict.second_to_third &=
        third.received_second[p] == first.own[s] + third.own_again[s] + masks.second_to_third[p];
  }
  if (rule_holds(Rule::hop_audit)) verdict.audit = first.audit[0] == audited;
  for (std::size_t r = 0; r < rows; ++r)
    verdict.third_to_first &= first.received[r] == second.sent[from_3[r]] + masks.third_to_first[r];
  for (std::size_t r = 0; r < kept && rule_holds(Rule::hop_check_of_last); ++r)
    verdict.first_to_third &= third.received_first[r] == masks.first_to_third[r];
  return verdict;
}

}  // namespace s3oram
