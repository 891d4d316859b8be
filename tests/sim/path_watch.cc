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

void PathWatch::begin_view(std::uint64_t view) {
  if (view == view_) return;
  view_ = view;
  accesses_.clear();
}

void PathWatch::saw(Party from, Party to, const Bytes& message) {
  if (message.size() < Rpc::kHeaderSize) return;
  const auto type = static_cast<MessageType>(message[2]);
  const View body = View(message).subspan(Rpc::kHeaderSize);
  const std::uint64_t number = number_of(message);
  if (from == kClient && message[0] == 'Q') {
    healed_ |= type == MessageType::damage;
    // All servers are asked alike; the first one's questions tell.
    if (type == MessageType::retrieve && to == 1 &&
        seen_.insert(Bytes(body.begin(), body.end())).second) {
      const auto request = decode<RetrieveRequest>(body);
      begin_view(request->view);
      if (opening_)
        repeated_.push_back(request->leaf);
      else
        accesses_.push_back({request->leaf, {}});
    }
    if (type == MessageType::write_root)
      root_writes_[number] = decode<WriteRootRequest>(body)->slot;
  }
  if (to == kClient && message[0] == 'A' && type == MessageType::write_root && message[4] == 0) {
    const auto write = root_writes_.find(number);
    if (write != root_writes_.end() && write->second < accesses_.size())
      accesses_[write->second].written.insert(from);
  }
}

void PathWatch::client_died() {
  seen_.clear();
  opening_ = true;
  repeated_.clear();
  root_writes_.clear();
}

std::string PathWatch::opened() {
  if (!std::exchange(opening_, false)) return {};
  // Asking again after a healing is no access; then they cannot be told apart.
  if (std::exchange(healed_, false)) {
    view_ = ~std::uint64_t{0};
    return {};
  }
  std::size_t ended = 0;  // at most so many had ended
  while (ended < accesses_.size() && accesses_[ended].written.size() == servers_) ++ended;
  const auto same_from = [&](std::size_t first) {
    const std::size_t left = accesses_.size() - first;
    return repeated_.size() >= left &&
           std::equal(repeated_.begin(), repeated_.begin() + static_cast<std::ptrdiff_t>(left),
                      accesses_.begin() + static_cast<std::ptrdiff_t>(first), accesses_.end(),
                      [](std::uint64_t path, const Access& access) { return access.path == path; });
  };
  for (std::size_t first = 0; first <= ended; ++first) {
    if (!same_from(first)) continue;
    accesses_.resize(first);
    // They have ended now: opening waits for it.
    std::set<Party> all;
    for (Party server = 1; server <= servers_; ++server) all.insert(server);
    for (const std::uint64_t path : repeated_) accesses_.push_back({path, all});
    return {};
  }
  return "after a crash, unfinished accesses were not repeated on the same paths";
}

}  // namespace s3oram::test
