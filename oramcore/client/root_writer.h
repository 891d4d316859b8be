// Root writes (Protocol 2): sends a block's shares to the root slot of its write number, and lets
// the writes count in their order once all servers have acknowledged them.
#pragma once

#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class RootWriter {
 public:
  /// `acknowledged` is called whenever write numbers may have become acknowledged.
  RootWriter(VolumeState& state, std::function<void()> acknowledged);

  /// Sets the first access number of a new session.
  void begin_session() { next_access_ = first_access(state_.session.epoch); }
  /// Writes the block, if its version is still `replaces`. Calls `written` once the write counts,
  /// and then returns. Errors: the volume died; `written` is not called.
  Task<Status> write(WriteNumber write_number, Label label, std::uint64_t replaces,
                     ByteSpan content, std::function<void(Status)> written);
  /// Lets the acknowledged writes count, up to the first one that is not acknowledged.
  void acknowledge_in_order();
  /// Waits until all root writes that have begun so far count.
  Task<Status> await_begun();

  std::size_t under_way() const { return uploads_; }
  /// Returns how long the last root write took, divided by the number of writes that shared the
  /// line.
  Duration time_of_each() const { return upload_each_; }

 private:
  /// A root write in its slot, until it and all earlier ones are acknowledged by all servers.
  struct RootWrite {
    bool acknowledged = false;
    BlockId block = kNoBlock;  // kNoBlock: it holds no block
    // The write counts only while this is the block's version, so not after a discard.
    std::uint64_t replaces = 0;
    Leaf leaf = 0;
    std::uint64_t version = 0;
    std::function<void(Status)> written;
  };
  Task<Status> send_whole(Party server, const RootUpload& upload);
  Task<Status> send_upload(Party server, const RootUpload& upload,
                           std::shared_ptr<Servers::JointAttempt> attempt);

  VolumeState& state_;
  const std::function<void()> acknowledged_;
  std::uint64_t next_access_ = 0;
  std::vector<RootWrite> root_;  // by root slot
  WriteNumber begun_ = 0;        // the number after the last root write that has begun
  std::size_t uploads_ = 0;      // root writes under way
  Duration upload_each_{};
};

}  // namespace s3oram
