// Reads requests from /dev/fuse without libfuse, because no session serves the mount.
#include "fused/kernel/refusing_loop.h"

#include <linux/fuse.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::size_t kHeaders = 64 << 10;  // more than a request has besides its data

/// Reads a T from the start of `bytes`.
template <class T>
std::optional<T> read_as(ByteSpan bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Returns the answer to a request: an error number, or std::nullopt if the kernel expects none.
std::optional<int> answer_to(std::uint32_t opcode) {
  switch (opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
    case FUSE_NOTIFY_REPLY:
      return std::nullopt;
    case FUSE_FLUSH:  // everything is durable
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_DESTROY:
      return 0;
    default:
      return EACCES;
  }
}

void drop(KernelReferences& references, Ino ino, std::uint64_t count) {
  const auto found = references.counts.find(ino);
  if (found == references.counts.end()) return;
  found->second -= std::min(found->second, count);
  if (found->second == 0) references.counts.erase(found);
}

}  // namespace

RefusingLoop::RefusingLoop(int device, std::size_t largest, KernelReferences references,
                           const std::vector<OpenWriter>& writers)
    : device_(device), buffer_(largest + kHeaders), references_(std::move(references)) {
  writers_.set(writers);
}

Status RefusingLoop::start(std::function<void()> unmounted) {
  if (!open_pipe(stop_)) return system_failure(errno, "pipe");
  auto thread = start_thread("refusing requests", [this, unmounted] { run(unmounted); });
  if (!thread) return fail(std::move(thread).error());
  thread_ = std::move(*thread);
  return {};
}

void RefusingLoop::stop() {
  if (!thread_.joinable()) return;
  stop_[1].close();
  thread_.join();
}

void RefusingLoop::run(const std::function<void()>& unmounted) {
  for (;;) {
    pollfd either[] = {{device_, POLLIN, 0}, {stop_[0].get(), POLLIN, 0}};
    if (::poll(either, std::size(either), -1) < 0) continue;
    if (either[1].revents != 0) return;
    const ssize_t got = ::read(device_, buffer_.data(), buffer_.size());
    if (got < 0 && errno == ENODEV) return unmounted();
    const auto size = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    const auto header = read_as<fuse_in_header>(ByteSpan(buffer_).first(size));
    if (!header) continue;  // the request was interrupted
    take(*header, ByteSpan(buffer_).first(size).subspan(sizeof *header));
    if (const auto error = answer_to(header->opcode)) answer(*header, *error);
  }
}

/// Notes what the kernel gives back.
void RefusingLoop::take(const fuse_in_header& header, ByteSpan body) {
  if (header.opcode == FUSE_FORGET) {
    if (const auto forget = read_as<fuse_forget_in>(body))
      drop(references_, header.nodeid, forget->nlookup);
  } else if (header.opcode == FUSE_BATCH_FORGET) {
    const auto batch = read_as<fuse_batch_forget_in>(body);
    for (std::uint32_t i = 0; batch && i < batch->count; ++i) {
      const std::size_t at = sizeof *batch + i * sizeof(fuse_forget_one);
      if (at > body.size()) return;
      if (const auto one = read_as<fuse_forget_one>(body.subspan(at)))
        drop(references_, one->nodeid, one->nlookup);
    }
  } else if (header.opcode == FUSE_RELEASE) {
    const auto release = read_as<fuse_release_in>(body);
    if (release && release->fh != 0) writers_.closed(header.nodeid);  // see is_writer()
  }
}

/// Ignores a failure, which means that the request was interrupted.
void RefusingLoop::answer(const fuse_in_header& header, int error) const {
  const fuse_out_header out{sizeof(fuse_out_header), -error, header.unique};
  [[maybe_unused]] const ssize_t written = ::write(device_, &out, sizeof out);
}

}  // namespace s3oram
