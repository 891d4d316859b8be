// Checks, before an eviction is decided, that the rows that every server has stored are what the
// plan prescribes. A row's digest is linear, h(x) = c_0 x_0 + c_1 x_1 + ... in GF(2^128) over its
// words of 16 bytes. Nobody knows the coefficients before all rows are stored, so a wrong row
// passes with a probability of 2^-128.
//
//   the servers:  O_p = h(sh(old row p)) for all p,  N = sum over j of sigma_j h(new row j)
//   the client:   N = sum over j of sigma_j (O_f(j) + h(masks of place j)),  O_nothing = 0
//
// sh() moves the header by one entry. Entry 0 of a new row is in the clear and written by each
// server itself, so it counts as zeros.
#pragma once

#include <span>
#include <vector>

#include "oramcore/base/random.h"
#include "oramcore/field/gf128.h"
#include "oramcore/protocol/messages.h"

namespace s3oram::mirror {

/// h() and the sigmas, from one seed. After construction any thread may use it.
class RowDigest {
 public:
  /// For slots of `slot_size` bytes, a multiple of 16, and `kept` new rows.
  RowDigest(const Seed& seed, std::size_t slot_size, std::size_t kept);
  /// Returns h(sh(`row`)). A row has slot_size bytes.
  gf128::Element of_old(const std::uint8_t* row) const;
  gf128::Element of_new(const std::uint8_t* row) const;
  const gf128::Element& sigma(std::size_t place) const { return sigmas_[place]; }

 private:
  std::vector<gf128::Element> coefficients_, sigmas_;
};

/// The digests that a server has computed. Threads may add different rows concurrently.
class RowReport {
 public:
  RowReport(const Seed& seed, std::size_t slot_size, std::size_t rows, std::size_t kept);
  /// Adds a row; null stands for a row of zeros.
  void add_old(std::size_t index, const std::uint8_t* row);
  void add_new(std::size_t place, const std::uint8_t* row);
  CertifyAnswer answer(bool with_list) const;

 private:
  RowDigest digest_;
  std::vector<gf128::Element> old_, new_;
};

/// Returns the digest of a list of digests, which a server sends if it does not send the list.
Digest digest_of(ByteSpan list);

}  // namespace s3oram::mirror
