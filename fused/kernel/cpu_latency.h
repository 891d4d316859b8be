// Keeps idle processors from sleeping while somebody asks one thing after the other. On a virtual
// machine a processor that sleeps is taken off the host's, and takes some 20 us to wake: several
// times as long as most answers. The kernel's limit for that (its "CPU latency QoS") ends with the
// process.
#pragma once

#include <cstdint>
#include <utility>

#include "oramcore/base/descriptor.h"

namespace s3oram {

class CpuLatency {
 public:
  /// Takes this machine's limit, if that is for us: it is virtual, has few processors, and we are
  /// root.
  static Descriptor of_this_machine();
  /// `limit` takes the greatest latency in us as a number of 4 bytes; if it is none, the two below
  /// do nothing.
  explicit CpuLatency(Descriptor limit) : limit_(std::move(limit)) {}

  /// From now on they stay awake. Each takes 2 us, or nothing if it is so already.
  void keep_awake() { set(0); }
  void let_sleep() { set(INT32_MAX); }

 private:
  void set(std::int32_t latency);

  const Descriptor limit_;
  std::int32_t latency_ = INT32_MAX;
};

}  // namespace s3oram
