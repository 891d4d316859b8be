// A bucket as a polynomial over GF(2^8): its Z rows are the coefficients c_0 .. c_(Z-1) of
// P(x) = c_0 + c_1 x + ... + c_(Z-1) x^(Z-1), byte by byte, and what lies at point x is P(x). There
// are 256 points. The Z slots that the client chose lie at Z of them; the other 256 - Z points are
// dummies that nobody has stored.
//
// Slots are uniformly random strings to a server (oramcore/oram/opaque_sealer.h). The rows are an
// invertible linear map of them, so they are uniformly random too, whichever points were chosen
// (docs/protocol-ring.md).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "oramcore/base/bytes.h"

namespace s3oram::ring {

using Point = std::uint8_t;
inline constexpr unsigned kPoints = 256;  // of a bucket

/// The weights of the rows in P(x): 1, x, x^2, ...
Bytes powers(Point x, std::size_t rows);

/// Writes to `rows` the coefficients of the polynomial that has the value slots[i] at points[i].
/// The points are distinct, and as many as slots and rows; each slot and row has `length` bytes.
void interpolate(std::span<const Point> points, std::span<const std::uint8_t* const> slots,
                 std::span<std::uint8_t* const> rows, std::size_t length);

/// Writes P(points[i]) to values[i], of `length` bytes.
void evaluate(std::span<const std::uint8_t* const> rows, std::span<const Point> points,
              std::span<std::uint8_t* const> values, std::size_t length);

/// Which points of a bucket version were asked for, a bit each.
class AskedPoints {
 public:
  void add(Point point) { bits_[point / 8] |= static_cast<std::uint8_t>(1u << point % 8); }
  bool has(Point point) const { return (bits_[point / 8] >> point % 8 & 1u) != 0; }
  unsigned count() const;
  const std::array<std::uint8_t, kPoints / 8>& bits() const { return bits_; }
  std::array<std::uint8_t, kPoints / 8>& bits() { return bits_; }
  friend bool operator==(const AskedPoints&, const AskedPoints&) = default;
  template <class A>
  void fields(A& a) {
    a(bits_);
  }

 private:
  std::array<std::uint8_t, kPoints / 8> bits_{};
};

}  // namespace s3oram::ring
