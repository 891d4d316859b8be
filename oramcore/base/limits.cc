// Raises inherited limits as far as allowed, and checks the rest.
#include "oramcore/base/limits.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <semaphore>
#include <system_error>
#include <thread>
#include <vector>

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr std::size_t kThreadStack = 2 << 20;
constexpr rlim_t kMainStack = 8 << 20;
constexpr std::string_view kMoreThreads = "raise the limit of processes (ulimit -u, TasksMax=)";

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNoLimit;
  return limit.rlim_cur == RLIM_INFINITY ? kNoLimit : limit.rlim_cur;
}

/// Raises a soft limit to the hard one, or to `most` if that is less. Never lowers it.
void raise_limit(int resource, rlim_t most = RLIM_INFINITY) {
  const auto which = static_cast<__rlimit_resource>(resource);
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, most)) return;
  limit.rlim_cur = std::min(limit.rlim_max, most);
  ::setrlimit(which, &limit);  // a limit that cannot be raised is checked later, where it matters
}

/// Leaves time between the soft limit of processor time (SIGXCPU) and the hard one (SIGKILL), so
/// that a program can end in an orderly way.
void raise_processor_time() {
  constexpr rlim_t kToEnd = 10;  // seconds
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0) return;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max <= 2 * kToEnd)
    return raise_limit(RLIMIT_CPU);
  limit.rlim_cur = limit.rlim_max - kToEnd;
  ::setrlimit(RLIMIT_CPU, &limit);
}

void set_thread_stack() {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, kThreadStack) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

/// Memory reserved for the last message.
std::atomic<char*> reserve = nullptr;
constexpr std::size_t kReserve = 256 << 10;

[[noreturn]] void end_without_memory() {
  std::set_new_handler(nullptr);
  delete[] reserve.exchange(nullptr);
  constexpr std::string_view kWords =
      "s3oramfs: there is no more memory; raise its limit (ulimit -v, ulimit -d, MemoryMax=), or "
      "give a smaller --cache\n";
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, kWords.data(), kWords.size());
  spdlog::critical(
      "there is no more memory, and this process ends; what it reported as durable is durable");
  spdlog::shutdown();
  ::_exit(static_cast<int>(Errc::failed));
}

Status too_little(std::string_view what, std::string_view resource, const std::string& allowed,
                  const std::string& needed, std::string_view how) {
  return fail(Errc::unsupported,
              "{}: the limit of {} is {}, and at least {} are needed; raise it ({})", what,
              resource, allowed, needed, how);
}

}  // namespace

void settle_limits() {
  ::signal(SIGXFSZ, SIG_IGN);
  for (const int resource : {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_NPROC})
    raise_limit(resource);
  raise_processor_time();
  raise_limit(RLIMIT_STACK, kMainStack);
  set_thread_stack();
  ::umask(077);
  if (auto* bytes = new (std::nothrow) char[kReserve]) reserve = bytes;
  std::set_new_handler(end_without_memory);
}

std::uint64_t file_size_limit() { return limit_of(RLIMIT_FSIZE); }
std::uint64_t address_space_limit() { return std::min(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA)); }
std::uint64_t processor_time_limit() { return limit_of(RLIMIT_CPU); }

Status check_limits(std::string_view what, const Needs& needs) {
  if (const auto most = file_size_limit(); most < needs.file_bytes)
    return too_little(what, "file sizes", human_size(most), human_size(needs.file_bytes),
                      "ulimit -f, LimitFSIZE=");
  if (const auto most = limit_of(RLIMIT_NOFILE); most < needs.open_files)
    return too_little(what, "open files", fmt::to_string(most), fmt::to_string(needs.open_files),
                      "ulimit -n, LimitNOFILE=");
  if (const auto most = address_space_limit(); most < needs.address_space)
    return too_little(what, "address space", human_size(most), human_size(needs.address_space),
                      "ulimit -v, ulimit -d, LimitAS=, LimitDATA=");
  return {};
}

Status check_threads(unsigned count) {
  std::counting_semaphore<> end(0);
  std::vector<std::thread> threads;
  int error = 0;
  try {
    threads.reserve(count);
    while (threads.size() < count) threads.emplace_back([&end] { end.acquire(); });
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  }
  end.release(static_cast<std::ptrdiff_t>(threads.size()));
  for (std::thread& thread : threads) thread.join();
  if (error == 0) return {};
  return fail(Errc::failed, "only {} of {} threads can be started: {}", threads.size(), count,
              reason_not_started(error));
}

std::string reason_of(int error) {
  if (const auto most = file_size_limit(); error == EFBIG && most != kNoLimit)
    return fmt::format(
        "the limit of file sizes is {}: raise it (ulimit -f, LimitFSIZE=), and start the program "
        "again",
        human_size(most));
  if (error == EFBIG) return "the file system takes no larger files";
  if (error == EMFILE) return "too many open files: raise their limit (ulimit -n, LimitNOFILE=)";
  return std::strerror(error);
}

std::string reason_not_started(int error) {
  if (error != EAGAIN && error != ENOMEM) return reason_of(error);
  if (address_space_limit() != kNoLimit)
    return fmt::format("{}, or that of address space (ulimit -v, ulimit -d)", kMoreThreads);
  return std::string(kMoreThreads);
}

std::string reason_of(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception))
    return "there is no more memory; raise its limit (ulimit -v, ulimit -d, MemoryMax=)";
  const auto* system = dynamic_cast<const std::system_error*>(&exception);
  const bool bare =  // without a text of our own
      system && system->what() == system->code().message();
  return bare ? reason_not_started(system->code().value()) : exception.what();
}

}  // namespace s3oram
