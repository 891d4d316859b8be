// Writes of accesses to the log at the server, and with them to top.cache. A write counts once the
// log holds it and the writes of all earlier turns.
#pragma once

#include <functional>
#include <map>

#include "oramcore/schemes/ring/client/top_refill.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class LogWriter {
 public:
  /// `acknowledged` is called whenever turns have become acknowledged.
  LogWriter(OpenRing& ring, TopBlocks& top, TopRefill& refill, std::function<void()> acknowledged)
      : ring_(ring), top_(top), refill_(refill), acknowledged_(std::move(acknowledged)) {}

  /// Sets the first access number of a new session.
  void begin_session() { next_access_ = first_access(ring_.session.epoch); }
  /// Writes the block, if its version is still `replaces`. Calls `written` once the write counts,
  /// and then returns. Errors: the volume died; `written` is not called.
  Task<Status> write(Turn turn, Label label, std::uint64_t replaces, ByteSpan content,
                     std::function<void(Status)> written);

 private:
  /// A write to the log that is acknowledged, while an earlier one is not.
  struct LogWrite {
    BlockId block = kNoBlock;
    std::uint64_t replaces = 0;  // counts only while this is the block's version
    std::uint64_t access = 0;
    Place place;
    std::function<void(Status)> written;
  };
  Task<Status> send(Turn turn, std::uint64_t access, BlockId block, ByteSpan sealed);
  bool still_needed(Turn turn, BlockId block);
  void acknowledge_in_order();

  OpenRing& ring_;
  TopBlocks& top_;
  TopRefill& refill_;
  const std::function<void()> acknowledged_;
  std::uint64_t next_access_ = 0;
  std::map<Turn, LogWrite> writes_;
};

}  // namespace s3oram::ring
