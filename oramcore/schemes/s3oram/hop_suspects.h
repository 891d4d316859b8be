// Determines who lied in a shuffle, from the reports and receipts of a signed attempt
// (signed_hops.h), and from what they had to be (honest_run.h).
#pragma once

#include "oramcore/schemes/s3oram/honest_run.h"
#include "oramcore/schemes/s3oram/hop_reports.h"

namespace s3oram {

/// Returns the server that lied; 0 if no report differs from the honest run's, or more than one
/// server has lied. At most one lies. A pure function.
Party find_liar(const EvictionOrders& orders, const HonestRun& honest,
                const ShuffleReports& reports);

}  // namespace s3oram
