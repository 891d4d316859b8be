// Writes a record of accesses. The threads that serve requests fill a buffer, and a thread empties
// it.
#include "serverd/store/access_log.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "oramcore/base/human.h"
#include "oramcore/base/quiet_thread.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

constexpr std::string_view kTitle = "# s3oramfs record 1";
constexpr std::size_t kMostWaiting = 1 << 20, kWorthWriting = 64 << 10;
constexpr std::chrono::seconds kFlushEvery{1};

constexpr std::string_view name_of(AccessLog::Cause cause) {
  switch (cause) {
    case AccessLog::Cause::access:
      return "access";
    case AccessLog::Cause::root:
      return "root";
    case AccessLog::Cause::eviction:
      return "eviction";
    case AccessLog::Cause::upkeep:
      return "upkeep";
  }
  return "";
}

/// Returns whether an existing file begins like a record, because only records are appended to.
bool is_record(int file) {
  char begin[kTitle.size()];
  return ::pread(file, begin, sizeof begin, 0) == static_cast<ssize_t>(sizeof begin) &&
         std::string_view(begin, sizeof begin) == kTitle;
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::start(const std::filesystem::path& file,
                                                    unsigned server, std::uint64_t most) {
  Descriptor opened(::open(
      file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (opened.get() < 0) return system_failure(errno, "--record {}", file.string());
  struct stat found {};
  if (::fstat(opened.get(), &found) != 0)
    return system_failure(errno, "--record {}", file.string());
  if (!S_ISREG(found.st_mode))
    return fail(Errc::usage, "--record {}: not a regular file", file.string());
  if (found.st_size > 0 && !is_record(opened.get()))
    return fail(Errc::usage,
                "--record {} holds something else, and is not overwritten; give another name",
                file.string());
  std::unique_ptr<AccessLog> record(new AccessLog(std::move(opened), file.string(),
                                                  static_cast<std::uint64_t>(found.st_size), most));
  if (found.st_size == 0)
    record->add(fmt::format("{}, of server {}\ntime,request,cause,operation,bucket,slot,slots\n",
                            kTitle, server));
  try {
    record->thread_ = start_quiet_thread([made = record.get()] { made->write_out(); });
  } catch (const std::system_error& error) {
    return system_failure(error.code().value(), "--record {}: no thread can be started",
                          file.string());
  }
  return record;
}

AccessLog::AccessLog(Descriptor file, std::string name, std::uint64_t size, std::uint64_t most)
    : file_(std::move(file)), name_(std::move(name)), most_(most), size_(size) {}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t AccessLog::begin() {
  const std::lock_guard lock(mutex_);
  return ++requests_;
}

void AccessLog::note(std::uint64_t request, Cause cause, Operation operation,
                     const RecordedSlots& slots) {
  using std::chrono::duration_cast, std::chrono::microseconds;
  const auto since = std::chrono::steady_clock::now() - began_steady_;
  const auto time = duration_cast<microseconds>(began_.time_since_epoch() + since);
  add(fmt::format("{},{},{},{},{},{},{}\n", time.count(), request, name_of(cause),
                  operation == Operation::read ? "read" : "write", slots.bucket, slots.slot,
                  slots.slots));
}

void AccessLog::add(std::string_view line) {
  bool worth_writing = false;
  {
    const std::lock_guard lock(mutex_);
    if (full_) return;
    if (waiting_.size() + line.size() > kMostWaiting) {
      ++left_out_;
      return;
    }
    waiting_ += line;
    worth_writing = waiting_.size() >= kWorthWriting;
  }
  if (worth_writing) news_.notify_one();
}

// Runs on the thread.
void AccessLog::write_out() {
  std::unique_lock lock(mutex_);
  while (!ends_ || !waiting_.empty()) {
    news_.wait_for(lock, kFlushEvery, [&] { return ends_ || waiting_.size() >= kWorthWriting; });
    std::string text;
    text.swap(waiting_);
    if (left_out_ > 0) text += fmt::format("# {} lines left out\n", left_out_);
    left_out_ = 0;
    if (text.empty()) continue;
    lock.unlock();
    const bool goes_on = append(text);
    lock.lock();
    full_ = full_ || !goes_on;
    if (full_) waiting_.clear();
  }
}

/// Appends the text, as far as it fits. Returns whether there is room for more text.
bool AccessLog::append(std::string_view text) {
  const std::string_view whole = text;
  if (size_ + text.size() > most_) {
    // Keep everything up to the last whole line that fits.
    const std::size_t room = size_ < most_ ? static_cast<std::size_t>(most_ - size_) : 0;
    const std::size_t end = room == 0 ? std::string_view::npos : text.rfind('\n', room - 1);
    text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
  }
  const bool at_limit = text.size() < whole.size();
  while (!text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      spdlog::error("record {}: {}; nothing more is recorded", name_, std::strerror(errno));
      return false;
    }
    size_ += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (at_limit)
    spdlog::warn("record {} has reached its limit, {}; nothing more is recorded", name_,
                 human_size(size_));
  return !at_limit;
}

}  // namespace s3oram
