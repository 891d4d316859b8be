// A bucket as a polynomial over GF(2^8): its Z rows are the coefficients c_0 .. c_(Z-1) of P(x) =
// c_0 + c_1 x + ... + c_(Z-1) x^(Z-1), byte by byte, and the value at point x is P(x). There are
// 256 points. Z of them hold the slots that the client chose; the other 256 - Z points are dummies
// that nobody has stored.
//
// To a server, slots are uniformly random strings (oramcore/oram/opaque_sealer.h). The rows are an
// invertible linear map of them, so they are uniformly random too, whichever points were chosen
// (docs/protocol-ring.md).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "oramcore/base/bytes.h"

namespace s3oram::ring {

using Point = std::uint8_t;
inline constexpr unsigned kPoints = 256;  // points of a bucket

/// Returns the weights of the rows in P(x): 1, x, x^2, ...
Bytes powers(Point x, std::size_t rows);

/// Writes to `rows` the coefficients of the polynomial that has the value slots[i] at points[i].
/// The points must be distinct, and as many as slots and rows; each slot and row has `length`
/// bytes.
void interpolate(std::span<const Point> points, std::span<const std::uint8_t* const> slots,
                 std::span<std::uint8_t* const> rows, std::size_t length);

/// Writes P(points[i]), `length` bytes, to values[i].
void evaluate(std::span<const std::uint8_t* const> rows, std::span<const Point> points,
              std::span<std::uint8_t* const> values, std::size_t length);

/// The points of a bucket version that were asked for, one bit each.
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
