// Keeps root's rights for one task after root has become another user. A separate process keeps the
// rights for work that was fixed in advance, and later only receives the order to do it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

class Errand {
 public:
  /// The work of the other process, done once. `content` comes from run(), and `files` are sent to
  /// the process that called run().
  using Work = std::function<Status(ByteSpan content, std::vector<Descriptor>& files)>;

  /// The largest size of the content in bytes, and the largest number of files.
  static constexpr std::size_t kMostContent = 128 << 10, kMostFiles = 4;

  /// Forks the process that may later do `work`. Call it while this process has only one thread and
  /// still has its rights. If this process ends first, the other one ends without doing the work.
  static Result<Errand> prepare(Work work);

  Errand() = default;
  Errand(Errand&& other) noexcept;
  Errand& operator=(Errand&& other) noexcept;
  /// Makes the other process end.
  ~Errand();

  bool is_prepared() const { return socket_.get() >= 0; }
  /// Makes the other process do the work, and returns the files that it opened. Call it once.
  /// Errors: those of the work; failed (the other process has ended).
  Result<std::vector<Descriptor>> run(ByteSpan content = {});

 private:
  void end();

  Descriptor socket_;
  pid_t process_ = -1;
};

}  // namespace s3oram
