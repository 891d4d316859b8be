// What a server sees of paths: in each view no more different ones than root slots are used,
// whoever dies in between. (An access that is finished after a crash asks for the path it asked for
// before: 3-durability.md, rule 4.)
#pragma once

#include <map>
#include <set>
#include <string>

#include "oramcore/wire/messages.h"

namespace s3oram::test {

class PathWatch {
 public:
  explicit PathWatch(std::uint16_t bucket_size) : bucket_size_(bucket_size) {}

  /// Every message that the client sends.
  void sent(const Bytes& message) {
    const Payload payload{message};
    if (message[0] != 'Q') return;
    if (message[2] == static_cast<std::uint8_t>(MessageType::retrieve)) {
      if (const auto request = decode<RetrieveRequest>(payload.body()))
        leaves_[request->view].insert(request->leaf);
    } else if (message[2] == static_cast<std::uint8_t>(MessageType::prepare)) {
      if (const auto request = decode<PrepareRequest>(payload.body())) check(*request);
    }
  }
  /// Empty: all is well.
  const std::string& failure() const { return failure_; }

 private:
  void check(const PrepareRequest& request) {
    const std::size_t paths = leaves_[request.id.eviction].size();
    // Beyond a full root, blocks go to the stash, which uses no slot.
    if (request.written < bucket_size_ && paths > request.written && failure_.empty())
      failure_ = fmt::format("in view {} {} root slots were used, but {} different paths asked for",
                             request.id.eviction, request.written, paths);
  }
  const std::uint16_t bucket_size_;
  std::map<std::uint64_t, std::set<Leaf>> leaves_;  // by view
  std::string failure_;
};

}  // namespace s3oram::test
