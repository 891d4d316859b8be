// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace s3oram {

class Descriptor {
 public:
  /// Negative: none, as open() gives it.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  /// For who must know whether it worked.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

}  // namespace s3oram
