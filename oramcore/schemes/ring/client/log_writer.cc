// Seals the blocks of accesses, writes them to the log, and lets the writes count in their order.
#include "oramcore/schemes/ring/client/log_writer.h"

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {

Task<Status> LogWriter::write(Turn turn, Label label, std::uint64_t replaces, ByteSpan content,
                              std::function<void(Status)> written) {
  LogWrite write{.block = label.block,
                 .replaces = replaces,
                 .access = next_access_++,
                 .place = {},
                 .written = {}};
  const std::uint64_t access = label.version = write.access;
  const Bytes sealed = sealed_block(ring_.sealer, label, content);
  std::vector<Task<Status>> both;
  both.push_back(send(turn, access, label.block, sealed));
  if (label.block != kNoBlock) {
    write.place = {.kind = Place::Kind::top,
                   .leaf = *label.leaf,
                   .version = access,
                   .cache_slot = ring_.cache.take(),
                   .turn = turn};
    both.push_back(top_.write(write.place.cache_slot, sealed));
  }
  auto done = co_await all(std::move(both));
  for (auto& status : done)
    // The turn is never acknowledged, and neither are those that follow it.
    if (!status) ring_.die(status.error());
  if (ring_.dead) co_return fail(*ring_.dead);
  write.written = std::move(written);
  writes_[turn] = std::move(write);
  acknowledge_in_order();
  while (!ring_.dead && ring_.tree.written <= turn) co_await ring_.changed.wait();
  if (ring_.tree.written <= turn) co_return fail(*ring_.dead);
  co_return Status{};
}

Task<Status> LogWriter::send(Turn turn, std::uint64_t access, BlockId block, ByteSpan sealed) {
  const WriteLogRequest request{
      .epoch = ring_.session.epoch, .turn = turn, .access = access, .sealed = sealed};
  Bytes message = encode(request);
  while (!ring_.dead && rule_holds(Rule::log_again) && still_needed(turn, block))
    co_await ring_.changed.wait();
  if (ring_.dead) co_return fail(*ring_.dead);
  auto answer = co_await ring_.servers.ask(kServer, WriteLogRequest::kType, std::move(message));
  if (!answer) co_return fail(answer.error());
  co_return Status{};
}

/// Returns whether the turn's slot of the log holds the only other copy of a block of the top. That
/// block is being logged again, or is read back from here if the cache has lost it. If it is
/// `block` itself, this turn logs it, so there is no need to wait.
bool LogWriter::still_needed(Turn turn, BlockId block) {
  const auto last = ring_.last_logged_at(turn);
  if (!last || *last == block) return false;
  if (ring_.not_cached.contains(*last)) refill_.begin();
  return true;
}

void LogWriter::acknowledge_in_order() {
  for (;;) {
    const auto next = writes_.find(ring_.tree.written);
    if (next == writes_.end()) break;
    LogWrite write = std::move(next->second);
    writes_.erase(next);
    ring_.pending.records[ring_.tree.written] = std::nullopt;
    top_.note_logged(ring_.tree.written, write.access);
    if (write.block != kNoBlock) {
      if (ring_.places.get(write.block).version == write.replaces) {
        ring_.set_place(write.block, write.place);
        ring_.mark_readable(write.block);
      } else {
        ring_.cache.give_back(write.place.cache_slot);
      }
    }
    ++ring_.tree.written;
    if (write.written) write.written({});
  }
  ring_.changed.notify_all();
  acknowledged_();
}

}  // namespace s3oram::ring
