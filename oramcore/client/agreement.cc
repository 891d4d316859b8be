// Tries sets of t + 1 shares until one opens.
#include "oramcore/client/agreement.h"

#include <algorithm>
#include <utility>

namespace s3oram {
std::vector<ByteSpan> spans_of(const std::vector<Bytes>& all) { return {all.begin(), all.end()}; }

bool on_one_polynomial(std::size_t enough, ByteSpan points, std::span<const ByteSpan> shares) {
  for (std::size_t i = enough; i < shares.size(); ++i)
    if (!std::ranges::equal(recover_at(points[i], points.first(enough), shares.first(enough)),
                            shares[i]))
      return false;
  return true;
}

bool Agreement::holds(Party server) const {
  return std::ranges::find(servers, server) != servers.end();
}

Bytes Agreement::share_of(Party server) const {
  return recover_at(server, ByteSpan(servers).first(shares.size()), spans_of(shares));
}

std::optional<Agreement> find_agreement(const ClientScheme& scheme, const VolumeParams& params,
                                        ByteSpan servers, const std::vector<Bytes>& shares,
                                        const std::function<bool(const Label&)>& fits) {
  const std::size_t enough = params.enough();
  std::optional<Agreement> best;
  if (servers.size() < enough) return best;
  std::vector<bool> chosen(servers.size());
  std::fill_n(chosen.begin(), enough, true);
  do {
    Agreement each;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (!chosen[i]) continue;
      each.servers.push_back(servers[i]);
      each.shares.push_back(shares[i]);
    }
    const auto label = scheme.label_of(recover(each.servers, spans_of(each.shares)));
    if (!label || !fits(*label)) continue;
    each.label = *label;
    for (std::size_t i = 0; i < servers.size(); ++i)
      if (!chosen[i] && each.share_of(servers[i]) == shares[i]) each.servers.push_back(servers[i]);
    // Of two equally large sets, the newer block counts, because an older slot that opens can be
    // shown again.
    const auto rank = [](const Agreement& agreement) {
      return std::pair(agreement.servers.size(), agreement.label.version);
    };
    if (!best || rank(each) > rank(*best)) best = std::move(each);
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return best;
}

}  // namespace s3oram
