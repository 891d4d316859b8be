// Answers the requests of a locked mount. Every request gets EACCES, except those that flush, sync
// or close a file or directory, and those that forget inodes.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "fused/files/kernel_references.h"
#include "fused/kernel/open_writers.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

struct fuse_in_header;

namespace s3oram {

class RefusingLoop {
 public:
  /// `device`: the open /dev/fuse, which must outlive it. `largest`: the most bytes of a write, as
  /// the kernel was told.
  RefusingLoop(int device, std::size_t largest, KernelReferences references,
               const std::vector<OpenWriter>& writers);
  ~RefusingLoop() { stop(); }

  /// Starts the thread. Calls `unmounted` on it when the mount has gone. Errors: failed.
  Status start(std::function<void()> unmounted);
  /// Ends the thread. Requests wait in the kernel from now on. start() may follow.
  void stop();

  /// Return what the kernel refers to, and which files are open for writing. Call them after
  /// stop().
  const KernelReferences& references() const { return references_; }
  std::vector<OpenWriter> writers() const { return writers_.state(); }

 private:
  void run(const std::function<void()>& unmounted);
  void take(const fuse_in_header& header, ByteSpan body);
  void answer(const fuse_in_header& header, int error) const;

  const int device_;
  Bytes buffer_;
  KernelReferences references_;
  OpenWriters writers_;
  Descriptor stop_[2];  // a pipe
  std::thread thread_;
};

}  // namespace s3oram
