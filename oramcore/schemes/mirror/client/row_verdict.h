// The client's side of the check of an eviction's rows (row_check.h). A pure function of the plan,
// the seed and the answers.
#pragma once

#include "oramcore/client/client_scheme.h"
#include "oramcore/field/gf128.h"
#include "oramcore/schemes/mirror/client/selection.h"
#include "oramcore/schemes/mirror/protocol/layers.h"

namespace s3oram::mirror {

/// The result that an eviction should have.
struct Prescribed {
  Selection selection;
  LayerAttempt attempt{};
  unsigned workers = 0;  // t + 1, so that one of as many servers is honest
  std::size_t rows = 0;  // rows in the old path
  std::size_t slot_size = 0;
};

/// Returns what the workers' masks add to the sum that servers report of the new rows. This is most
/// of the work of a check, and needs no report.
gf128::Element sum_of_masks(const Prescribed& prescribed, const LayerKeys& keys, const Seed& seed);

/// Checks that all servers report the same, and that it is what is prescribed; answers[i] is that
/// of servers[i], and `masks` the result of sum_of_masks(). One server was asked for its list; that
/// of another one does not count.
RowsVerdict judge_rows(const Prescribed& prescribed, const gf128::Element& masks, const Seed& seed,
                       ByteSpan servers, const std::vector<CertifyAnswer>& answers, Party lister);

}  // namespace s3oram::mirror
