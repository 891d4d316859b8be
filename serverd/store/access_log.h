// A record of what a server reads and writes, for its operator to look at: what a curious server
// learns is in it. docs/formats.md has its lines.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Slots `slot` to `slot + slots` of the bucket `bucket` of the tree.
struct RecordedSlots {
  std::uint64_t bucket = 0;
  std::uint32_t slot = 0;
  std::uint32_t slots = 0;  // 0: the bucket was asked for and was never written
};

/// Costs little, whatever happens: lines wait in at most a mebibyte of memory for a thread that
/// appends them to the file, the file grows to a limit, and what finds no room is counted and left
/// out. A disk that fails ends the record, not the server. Thread-safe.
class AccessLog {
 public:
  enum class Cause { access, root, eviction, upkeep };
  enum class Operation { read, write };

  /// Appends to `file`, or makes it (0600), until it has `most` bytes. Errors: usage (not a regular
  /// file, or not a record), disk_full, failed.
  static Result<std::unique_ptr<AccessLog>> start(const std::filesystem::path& file,
                                                  unsigned server, std::uint64_t most);
  /// Returns when everything noted is in the file.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  /// Returns a number for the lines of one request: the one after that of the call before.
  std::uint64_t begin();
  void note(std::uint64_t request, Cause cause, Operation operation, const RecordedSlots& slots);

 private:
  AccessLog(Descriptor file, std::string name, std::uint64_t size, std::uint64_t most);
  void add(std::string_view line);
  void write_out();
  bool append(std::string_view text);

  const Descriptor file_;
  const std::string name_;
  const std::uint64_t most_;
  const std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();
  const std::chrono::steady_clock::time_point began_steady_ = std::chrono::steady_clock::now();
  std::uint64_t size_;  // of the file; the thread's own

  std::mutex mutex_;  // guards what follows; no other lock is taken under it
  std::condition_variable news_;
  std::string waiting_;
  std::uint64_t requests_ = 0;
  std::uint64_t left_out_ = 0;
  bool full_ = false;  // nothing more is taken
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace s3oram
