// The check of a shuffle. Every message that a role passes on to another (a hop) is compared with
// what it must be according to the others' shares and the client's masks. The comparison uses
// digests under a key that the sender lacks.
//
// Three keys c_1, c_2, c_3 belong to the roles; role i computes with the other two keys, and
// reports lists of digests of 16 bytes, one for each row. The places of rows are named as in
// docs/protocol.md: s before the shuffle, p after pi_1, q after pi_2, and r after pi_3, of which
// the last k are kept. Role 3 passes on all rows to 1: if "3 to 1" were compared only at kept
// places, 2 could report a false digest of a row that it sent, and learn from the outcome whether
// pi_3 keeps that row. A(x), B(x) are the weights of content and mask in the line at x; L(a, b) is
// a's Lagrange coefficient at 0 for the points a and b.
//
//   role  list             rows  key  digest of
//   1     own              s     c_2  L(1,3) * its share
//         received         r     c_3  what 3 sent
//         audit            1     c_2  w times L(3,1) * the share of 3, and a mask
//   2     received         s     c_1  b2 + L(2,3) * its share, where b2 is taken at pi_1(s)
//         sent             q     c_3  A(1) * what it sent
//   3     own              s     c_1  L(3,2) * its share
//         received_first   r     c_1  what 1 sent, kept places
//         received_second  p     c_2  c3, taken at pi_2(p)
//         own_again        s     c_2  L(3,1) * its share
//
// The client computes the digests of the masks itself, from their seeds. The content of a slot is
// L(1,2) s1 + L(2,1) s2 = L(2,3) s2 + L(3,2) s3 = L(1,3) s1 + L(3,1) s3. So in an honest run:
//
//   1 to 2   2.received(s) = 3.own(s) + G13(pi_1 s)
//   2 to 3   3.received_second(p) = 1.own(s) + 3.own_again(s) + G21(pi_2 p), p = pi_1 s
//   3 to 1   1.received(r) = 2.sent(q) + A(1) G13(p) + B(1) G32(r), r = pi_3 q = pi_3 pi_2 p
//   1 to 3   3.received_first(r) = A(3) G21(q) + B(3) G12(r), r = pi_3 q
//   audit    1.audit = sum of w(s) 3.own_again(s), and the mask
//
// No equation against a role contains a report of that role, or a key that it knows, so an error in
// a message is caught except with a probability of 2^-128. A false report must be caught with the
// same certainty, and independently of pi. If two of one role's reports met in one equation, in an
// order that the role does not know, they could cancel each other exactly when the role guesses
// that order; whether it is caught would then tell it the order. So each role has only one report
// in an equation. The exception is role 3, with two in "2 to 3". There the audit covers one of
// them: 1 and 2 know the shares of 3 (on a line with theirs) and add them up with weights w that 3
// does not know; 2 adds a mask and gives the sum to 1, who computes the digest, because 2 must not
// know c_2.
//
// So all equations hold if and only if nobody lied, and whether they hold depends only on the lie:
// the liar learns nothing about pi by being caught or not.
#pragma once

#include <optional>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/field/gf128.h"
#include "oramcore/protocol/permutation.h"

namespace s3oram {

/// Digests by row.
using HopList = std::vector<gf128::Element>;

/// The reports of the roles. visit() lists the members in the order in which they are sent, with
/// `rows` of the whole path and `kept` of those that are kept behind pi_3.
struct FirstReport {
  HopList own, received, audit;
  template <class Visit>
  void visit(std::size_t rows, std::size_t, Visit each) {
    each(own, rows), each(received, rows), each(audit, 1);
  }
};
struct SecondReport {
  HopList received, sent;
  template <class Visit>
  void visit(std::size_t rows, std::size_t, Visit each) {
    each(received, rows), each(sent, rows);
  }
};
struct ThirdReport {
  HopList own, received_first, received_second, own_again;
  template <class Visit>
  void visit(std::size_t rows, std::size_t kept, Visit each) {
    each(own, rows), each(received_first, kept), each(received_second, rows), each(own_again, rows);
  }
};

/// Converts a report to bytes, and back. unpack() returns std::nullopt if `bytes` has the wrong
/// size.
template <class Report>
Bytes pack(Report& report, std::size_t rows, std::size_t kept) {
  Bytes packed;
  report.visit(rows, kept, [&](const HopList& list, std::size_t) {
    for (const gf128::Element& digest : list) {
      const auto bytes = gf128::to_bytes(digest);
      packed.insert(packed.end(), bytes.begin(), bytes.end());
    }
  });
  return packed;
}
template <class Report>
std::optional<Report> unpack(ByteSpan bytes, std::size_t rows, std::size_t kept) {
  constexpr std::size_t kDigest = sizeof(gf128::Element);
  Report report;
  std::size_t wanted = 0;
  report.visit(rows, kept, [&](HopList&, std::size_t size) { wanted += size * kDigest; });
  if (bytes.size() != wanted) return std::nullopt;
  report.visit(rows, kept, [&](HopList& list, std::size_t size) {
    for (; list.size() < size; bytes = bytes.subspan(kDigest))
      list.push_back(gf128::from_bytes(bytes.first(kDigest)));
  });
  return report;
}

struct HopReports {
  FirstReport first;
  SecondReport second;
  ThirdReport third;
};

/// The digests that the client computes itself: those of the masks in each equation, by the places
/// noted.
struct HopMasks {
  HopList first_to_second;  // s
  HopList second_to_third;  // p
  HopList third_to_first;   // r, all places
  HopList first_to_third;   // r, kept places
  gf128::Element audit;
  HopList weights;  // w, by s
};

/// The permutations of a shuffle. Only the client has all three.
struct HopPlan {
  Permutation pi_1, pi_2, pi_3;
};

/// The result of comparing the reports, for each hop and for the audit.
struct HopVerdict {
  bool first_to_second = true, second_to_third = true, third_to_first = true, first_to_third = true,
       audit = true;
  bool sound() const {
    return first_to_second && second_to_third && third_to_first && first_to_third && audit;
  }
  friend bool operator==(const HopVerdict&, const HopVerdict&) = default;
};

/// Compares the reports with the plan and the masks. A pure function. The lists must have the sizes
/// that visit() names.
HopVerdict judge_hops(const HopPlan& plan, const HopMasks& masks, const HopReports& reports);

}  // namespace s3oram
