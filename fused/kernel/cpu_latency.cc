// Writes the kernel's limit of CPU latency.
#include "fused/kernel/cpu_latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace s3oram {
namespace {

constexpr unsigned kFew = 8;  // processors; a bound, because all of them stay awake

}  // namespace

Descriptor CpuLatency::of_this_machine() {
  std::string driver;
  std::ifstream("/sys/devices/system/cpu/cpuidle/current_driver") >> driver;
  if (driver != "haltpoll" || std::thread::hardware_concurrency() > kFew) return {};
  return Descriptor(::open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC));
}

void CpuLatency::set(std::int32_t latency) {
  if (limit_.get() < 0 || latency == latency_) return;
  // A failure only makes answers slower.
  if (::write(limit_.get(), &latency, sizeof latency) == sizeof latency) latency_ = latency;
}

}  // namespace s3oram
