// Watches the client's messages for two rules of ring. No point of a bucket version is asked for by
// two accesses (Rule::fresh_points). An access asks for one path only, and one that a crash cut
// short is finished when the volume is opened again (Rule::access_records).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "oramcore/schemes/ring/protocol/ring_messages.h"
#include "tests/sim/watch.h"

namespace s3oram::ring::test {

class PointWatch final : public s3oram::test::Watch {
 public:
  void saw(Party from, Party to, const Bytes& message) override;
  void client_died() override;
  /// A turn that had not ended counts as never asked, because a server that lost its power then may
  /// have forgotten it, too.
  void client_lost() override;
  std::string opened() override;

 private:
  using AskedPoint = std::tuple<BucketIndex, VersionStamp, Point>;
  void asked(const RetrieveRequest& request);

  std::map<AskedPoint, Turn> points_;
  std::map<Turn, std::map<unsigned, BucketIndex>> paths_;  // of each turn, by level
  std::map<std::uint64_t, Turn> log_writes_;               // by the number of the message
  std::set<Turn> written_;
  std::set<Turn> unfinished_;  // when the client died
  bool opening_ = true;
  std::string wrong_;
};

}  // namespace s3oram::ring::test
