// Finds out whose shares of a slot are right if they do not all fit together.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "oramcore/client/scheme.h"
#include "oramcore/net/transport.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

/// A slot on which enough servers agree.
struct Agreement {
  Label label;                // of its content
  Bytes servers;              // whose shares lie on one polynomial
  std::vector<Bytes> shares;  // t + 1 of theirs, in that order

  bool holds(Party server) const;
  /// Returns what that server's share must be.
  Bytes share_of(Party server) const;
};

/// Each of them, to look at.
std::vector<ByteSpan> spans_of(const std::vector<Bytes>& all);

/// Whether any `enough` of the shares give the others; shares[i] is at points[i]. True if there are
/// no others.
bool on_one_polynomial(std::size_t enough, ByteSpan points, std::span<const ByteSpan> shares);

/// Returns t + 1 servers whose shares open together, and all others that agree with them; among
/// several choices the largest. shares[i] is that of servers[i]. What opens counts only if its
/// label `fits`: else a server could have a sound slot replaced by another one that it holds.
/// Returns nothing if none open.
std::optional<Agreement> find_agreement(
    const ClientScheme& scheme, const VolumeParams& params, ByteSpan servers,
    const std::vector<Bytes>& shares,
    const std::function<bool(const Label&)>& fits = [](const Label&) { return true; });

}  // namespace s3oram
