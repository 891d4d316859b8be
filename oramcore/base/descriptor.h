// A file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace s3oram {

/// Closes the descriptor on destruction, which also ends an flock on it. Not thread-safe; all
/// threads may use a const one.
class Descriptor {
 public:
  Descriptor() = default;
  /// A negative `fd`, as open() returns it on failure, is no descriptor.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }

  int get() const { return fd_; }
  /// Returns the descriptor, which the caller must then close.
  int release() { return std::exchange(fd_, -1); }
  /// Closes the descriptor now. Returns false if that failed.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_ = -1;
};

/// Makes a pipe: data written to ends[1] is read from ends[0]. Both are closed on exec. If it
/// returns false, errno says why.
inline bool open_pipe(Descriptor (&ends)[2]) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  for (const int end : {0, 1}) ends[end] = Descriptor(fds[end]);
  return true;
}

}  // namespace s3oram
