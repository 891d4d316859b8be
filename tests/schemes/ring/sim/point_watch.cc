// Remembers which points and paths the turns of a ring have asked for.
#include "tests/schemes/ring/sim/point_watch.h"

#include <cstring>

#include "oramcore/net/rpc.h"

namespace s3oram::ring::test {
namespace {

std::uint64_t number_of(const Bytes& message) {
  std::uint64_t number = 0;
  std::memcpy(&number, message.data() + Rpc::kHeaderSize - sizeof number, sizeof number);
  return number;
}

}  // namespace

void PointWatch::saw(Party from, Party to, const Bytes& message) {
  if (message.size() < Rpc::kHeaderSize) return;
  const auto type = static_cast<MessageType>(message[2] | message[3] << 8);
  const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
  if (from == kClient && is_question(message)) {
    if (type == MessageType::retrieve) asked(decode<RetrieveRequest>(body).value());
    if (type == MessageType::write_root)
      log_writes_[number_of(message)] = decode<WriteLogRequest>(body)->turn;
  }
  if (to == kClient && is_answer(message) && type == MessageType::write_root && message[4] == 0) {
    const auto write = log_writes_.find(number_of(message));
    if (write != log_writes_.end()) written_.insert(write->second);
  }
}

void PointWatch::asked(const RetrieveRequest& request) {
  unfinished_.erase(request.turn);
  auto& path = paths_[request.turn];
  for (const Ask& ask : request.asks) {
    const auto turn =
        points_.try_emplace({ask.bucket, ask.stamp, ask.point}, request.turn).first->second;
    if (turn != request.turn)
      wrong_ = fmt::format("turns {} and {} have asked for one point of bucket {}", turn,
                           request.turn, ask.bucket);
    if (path.try_emplace(level_of(ask.bucket), ask.bucket).first->second != ask.bucket)
      wrong_ = fmt::format("turn {} has asked for two paths", request.turn);
  }
}

void PointWatch::client_died() {
  log_writes_.clear();
  opening_ = true;
  for (const auto& [turn, path] : paths_)
    if (!written_.contains(turn)) unfinished_.insert(turn);
}

void PointWatch::client_lost() {
  std::erase_if(points_, [this](const auto& point) { return !written_.contains(point.second); });
  std::erase_if(paths_, [this](const auto& path) { return !written_.contains(path.first); });
  unfinished_.clear();
}

std::string PointWatch::opened() {
  if (std::exchange(opening_, false) && !unfinished_.empty() && wrong_.empty())
    wrong_ =
        fmt::format("the access of turn {} was cut short and not repeated", *unfinished_.begin());
  return wrong_;
}

}  // namespace s3oram::ring::test
