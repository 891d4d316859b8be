// A file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace s3oram {

/// Also a lock (flock) that lasts as long as it. Not thread-safe; a const one may be used by all.
class Descriptor {
 public:
  Descriptor() = default;
  /// Negative: none, as open() gives it.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }

  int get() const { return fd_; }
  /// For who closes it otherwise.
  int release() { return std::exchange(fd_, -1); }
  /// For who must know whether it worked.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_ = -1;
};

/// Makes a pipe: what is written to ends[1] is read from ends[0]. Both are closed on exec. False:
/// errno says why.
inline bool open_pipe(Descriptor (&ends)[2]) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  for (const int end : {0, 1}) ends[end] = Descriptor(fds[end]);
  return true;
}

}  // namespace s3oram
