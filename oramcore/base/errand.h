// What root still has to do after it has become somebody else: a process of its own keeps root's
// rights for one thing that was decided before, and learns no more than that it is to be done.
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
  /// What is done in the other process, once: `content` is what run() was given, and the files that
  /// it opens go to the process that has called run().
  using Work = std::function<Status(ByteSpan content, std::vector<Descriptor>& files)>;

  /// The most bytes of a content, and files.
  static constexpr std::size_t kMostContent = 128 << 10, kMostFiles = 4;

  /// Forks the process that may later do `work`: to be called while this one has one thread, and
  /// before it gives up its rights. The other process ends without doing it when this one ends.
  static Result<Errand> prepare(Work work);

  Errand() = default;
  Errand(Errand&& other) noexcept;
  Errand& operator=(Errand&& other) noexcept;
  /// Lets the other process end.
  ~Errand();

  bool is_prepared() const { return socket_.get() >= 0; }
  /// Has it done, and gives the files that the work has opened. Once. Errors: those of the work;
  /// failed (the other process has ended).
  Result<std::vector<Descriptor>> run(ByteSpan content = {});

 private:
  void end();

  Descriptor socket_;
  pid_t process_ = -1;
};

}  // namespace s3oram
