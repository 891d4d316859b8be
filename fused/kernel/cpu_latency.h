// Keeps idle processors awake while requests follow each other closely. A sleeping processor of a
// virtual machine takes about 20 us to wake, several times as long as most answers take. The kernel
// has a limit for that delay ("CPU latency QoS"), which lasts as long as the process.
#pragma once

#include <cstdint>
#include <utility>

#include "oramcore/base/descriptor.h"

namespace s3oram {

class CpuLatency {
 public:
  /// Opens this machine's limit if that is worthwhile, which it is on a virtual machine with few
  /// processors, and if the process is root. Otherwise returns no descriptor.
  static Descriptor of_this_machine();
  /// `limit` takes the greatest allowed latency, in us, as a number of 4 bytes. Without a
  /// descriptor the functions below do nothing.
  explicit CpuLatency(Descriptor limit) : limit_(std::move(limit)) {}

  /// Keeps processors awake until let_sleep(). Each of the two calls takes 2 us, or no time if it
  /// changes nothing.
  void keep_awake() { set(0); }
  void let_sleep() { set(INT32_MAX); }

 private:
  void set(std::int32_t latency);

  const Descriptor limit_;
  std::int32_t latency_ = INT32_MAX;
};

}  // namespace s3oram
