// Places residents first, then the top's blocks, oldest first; each as deep as it may lie.
#include "oramcore/schemes/ring/client/eviction_plan.h"

#include <algorithm>
#include <bit>

#include "oramcore/base/rules.h"

namespace s3oram::ring {

unsigned depth_on_path(Leaf leaf, Leaf path, unsigned height) {
  return std::min<unsigned>(height, static_cast<unsigned>(std::countr_zero(leaf ^ path)));
}

EvictionPlan plan_eviction(const EvictionPath& path) {
  const auto depth = [&](const Candidate& each) {
    return depth_on_path(each.leaf, path.leaf, path.height);
  };
  std::vector<Candidate> order;
  for (const auto& bucket : path.residents) order.insert(order.end(), bucket.begin(), bucket.end());
  const auto residents = static_cast<std::ptrdiff_t>(order.size());
  order.insert(order.end(), path.top.begin(), path.top.end());
  if (!rule_holds(Rule::oldest_first)) std::reverse(order.begin() + residents, order.end());
  const auto end = rule_holds(Rule::residents_first) ? order.begin() + residents : order.end();
  std::stable_sort(order.begin(), end,
                   [&](const Candidate& a, const Candidate& b) { return depth(a) > depth(b); });

  EvictionPlan plan;
  plan.buckets.resize(path.height - path.top_levels + 1);
  for (const Candidate& each : order) {
    unsigned levels = depth(each) + 1;
    while (levels > path.top_levels &&
           plan.buckets[levels - 1 - path.top_levels].size() == path.bucket_size)
      --levels;
    if (levels > path.top_levels)
      plan.buckets[levels - 1 - path.top_levels].push_back(each);
    else
      plan.left.push_back(each);
  }
  return plan;
}

}  // namespace s3oram::ring
