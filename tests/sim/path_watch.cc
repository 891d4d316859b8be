// Compares the path of each retrieval with the one for which its access asked first.
#include "tests/sim/path_watch.h"

#include <algorithm>
#include <cstring>

namespace s3oram::test {
namespace {

std::uint64_t number_of(const Bytes& message) {
  std::uint64_t number = 0;
  std::memcpy(&number, message.data() + Rpc::kHeaderSize - sizeof number, sizeof number);
  return number;
}

}  // namespace

void PathWatch::saw(Party from, Party to, const Bytes& message) {
  if (message.size() < Rpc::kHeaderSize) return;
  const auto type = static_cast<MessageType>(message[2]);
  const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
  const std::uint64_t number = number_of(message);
  if (from == kClient && is_question(message)) {
    // All servers that are asked get the same request.
    if (type == MessageType::retrieve) retrieved(*decode<SharedRetrieveRequest>(body));
    if (type == MessageType::write_root)
      root_writes_[{to, number}] = decode<WriteRootRequest>(body)->write_number;
  }
  if (to == kClient && is_answer(message) && type == MessageType::write_root && message[4] == 0) {
    const auto write = root_writes_.find({from, number});
    if (write != root_writes_.end()) accesses_[write->second].written.insert(from);
  }
}

void PathWatch::retrieved(const RetrieveRequest& request) {
  if (request.write_number == kNoWriteNumber) return;
  unfinished_.erase(request.write_number);
  const auto [found, first] =
      accesses_.try_emplace(request.write_number, Access{request.leaf, request.height, {}});
  const Access& access = found->second;
  // The tree may have grown meanwhile.
  const unsigned bits = std::min<unsigned>(access.height, request.height);
  if (bucket_on_path(access.path, bits) != bucket_on_path(request.leaf, bits))
    wrong_ = fmt::format("write {} has asked for two paths", request.write_number);
}

void PathWatch::client_died() {
  root_writes_.clear();
  opening_ = true;
  for (const auto& [write_number, access] : accesses_)
    if (access.written.size() < servers_) unfinished_.insert(write_number);
}

void PathWatch::client_lost() {
  unfinished_.clear();
  for (auto& [write_number, access] : accesses_)
    for (Party server = 1; server <= servers_; ++server) access.written.insert(server);
}

std::string PathWatch::opened() {
  if (std::exchange(opening_, false) && !unfinished_.empty() && wrong_.empty())
    wrong_ = fmt::format("the access of write {} was cut short and not repeated first",
                         *unfinished_.begin());
  return wrong_;
}

}  // namespace s3oram::test
