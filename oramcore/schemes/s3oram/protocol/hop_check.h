// The check of a shuffle: every message that a server passes on to another (a hop) is compared with
// what the others' shares and masks say it must be, by digests under a key that the sender lacks.
//
// Three keys c_1, c_2, c_3 belong to the roles; role i computes with the other two, and reports
// lists of digests of 16 bytes, one for each row. The places of rows are counted as in
// docs/protocol.md: s before the shuffle, p after pi_1, q after pi_2, and r after pi_3, where only
// the k kept places count. A(x), B(x) are the weights of content and mask in the line at x; L(a, b)
// is a's Lagrange coefficient at 0 for the points a and b.
//
//   role  list             rows  key  digest of
//   1     own              s     c_2  L(1,3) * its share
//         mask_second      q     c_2  G21
//         received         r     c_3  what 3 sent
//         mask_first       p     c_3  A(1) * G13
//   2     received         s     c_1  b2 + L(2,3) * its share, where b2 is taken at pi_1(s)
//         mask_second      q     c_1  A(3) * G21
//         line_of_1        r     c_1  B(3) * G12
//         sent             q     c_3  A(1) * what it sent
//         line_of_3        r     c_3  B(1) * G32
//   3     own              s     c_1  L(3,2) * its share
//         mask_first       p     c_1  G13
//         received_first   r     c_1  what 1 sent
//         received_second  p     c_2  c3, taken at pi_2(p)
//         own_again        s     c_2  L(3,1) * its share
//
// The content of a slot is L(1,2) s1 + L(2,1) s2 = L(2,3) s2 + L(3,2) s3 = L(1,3) s1 + L(3,1) s3.
// So an honest run has
//
//   1 to 2   2.received(s) = 3.own(s) + 3.mask_first(pi_1 s)
//   2 to 3   3.received_second(p) = 1.own(s) + 3.own_again(s) + 1.mask_second(pi_2 p), p = pi_1 s
//   3 to 1   1.received(r) = 2.sent(q) + 1.mask_first(p) + 2.line_of_3(r), r = pi_3 q = pi_3 pi_2 p
//   1 to 3   3.received_first(r) = 2.mask_second(q) + 2.line_of_1(r), r = pi_3 q
//
// No equation against a role holds a report of that role, nor a key that it knows. What a liar
// added is then caught with 1 - 2^-128, and whether it is caught depends on nothing but the lie: it
// learns nothing of pi by being caught or not.
#pragma once

#include <optional>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/field/gf128.h"
#include "oramcore/schemes/s3oram/protocol/permutation.h"

namespace s3oram {

/// By row.
using HopList = std::vector<gf128::Element>;

/// What each role reports; members are listed in the order in which they travel, with `rows` of the
/// whole path and `kept` of those behind pi_3 that are kept.
struct FirstReport {
  HopList own, mask_second, received, mask_first;
  template <class Visit>
  void visit(std::size_t rows, std::size_t kept, Visit each) {
    each(own, rows), each(mask_second, rows), each(received, kept), each(mask_first, rows);
  }
};
struct SecondReport {
  HopList received, mask_second, line_of_1, sent, line_of_3;
  template <class Visit>
  void visit(std::size_t rows, std::size_t kept, Visit each) {
    each(received, rows), each(mask_second, rows), each(line_of_1, kept), each(sent, rows),
        each(line_of_3, kept);
  }
};
struct ThirdReport {
  HopList own, mask_first, received_first, received_second, own_again;
  template <class Visit>
  void visit(std::size_t rows, std::size_t kept, Visit each) {
    each(own, rows), each(mask_first, rows), each(received_first, kept),
        each(received_second, rows), each(own_again, rows);
  }
};

/// A report as bytes; and back. std::nullopt: `bytes` has another size than such a report.
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
std::optional<Report> unpack(View bytes, std::size_t rows, std::size_t kept) {
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

/// The permutations of a shuffle, which the client alone has all of.
struct HopPlan {
  Permutation pi_1, pi_2, pi_3;
};

/// What the reports say of each hop.
struct HopVerdict {
  bool first_to_second = true, second_to_third = true, third_to_first = true, first_to_third = true;
  bool sound() const {
    return first_to_second && second_to_third && third_to_first && first_to_third;
  }
  friend bool operator==(const HopVerdict&, const HopVerdict&) = default;
};

/// A pure function: the same plan and reports give the same verdict. The lists have the sizes that
/// visit() names.
HopVerdict judge_hops(const HopPlan& plan, const HopReports& reports);

}  // namespace s3oram
