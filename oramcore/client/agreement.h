// Finds out whose shares of a slot are right when the shares contradict each other.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "oramcore/client/client_scheme.h"
#include "oramcore/net/transport.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

/// A slot on which enough servers agree.
struct Agreement {
  Label label;                // label of the slot's content
  Bytes servers;              // servers whose shares lie on one polynomial
  std::vector<Bytes> shares;  // t + 1 of their shares, in the same order

  bool holds(Party server) const;
  /// Returns what that server's share must be.
  Bytes share_of(Party server) const;
};

/// Returns views of these shares, which must outlive the result.
std::vector<ByteSpan> spans_of(const std::vector<Bytes>& all);

/// Returns whether any `enough` of the shares determine the others; shares[i] is at points[i]. True
/// if there are no others.
bool on_one_polynomial(std::size_t enough, ByteSpan points, std::span<const ByteSpan> shares);

/// Returns t + 1 servers whose shares open together, and all others that agree with them; the
/// largest such set, if there are several. shares[i] belongs to servers[i]. Content that opens
/// counts only if its label `fits`; otherwise a server could have a sound slot replaced by another
/// one that it holds. Returns std::nullopt if no shares open.
std::optional<Agreement> find_agreement(
    const ClientScheme& scheme, const VolumeParams& params, ByteSpan servers,
    const std::vector<Bytes>& shares,
    const std::function<bool(const Label&)>& fits = [](const Label&) { return true; });

}  // namespace s3oram
