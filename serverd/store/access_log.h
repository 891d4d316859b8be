// A record of what a server reads and writes. It shows its operator what a curious server can
// learn. docs/formats.md describes its lines.
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
  std::uint32_t slots = 0;  // 0 if the bucket was requested, but never written
};

/// Costs little, whatever happens: lines wait in at most a mebibyte of memory for a thread that
/// appends them to the file, the file grows only to a limit, and lines for which there is no room
/// are counted and left out. A failing disk ends the record, not the server. Thread-safe.
class AccessLog {
 public:
  enum class Cause { access, root, eviction, upkeep };
  enum class Operation { read, write };

  /// Appends to `file`, or creates it (0600), until it has `most` bytes. Errors: usage (not a
  /// regular file, or not a record), disk_full, failed.
  static Result<std::unique_ptr<AccessLog>> start(const std::filesystem::path& file,
                                                  unsigned server, std::uint64_t most);
  /// Returns once everything noted is in the file.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  /// Returns a number for the lines of one request: one more than the previous call returned.
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
  std::uint64_t size_;  // size of the file; used only by the thread

  std::mutex mutex_;  // guards the members below; no other lock is taken under it
  std::condition_variable news_;
  std::string waiting_;
  std::uint64_t requests_ = 0;
  std::uint64_t left_out_ = 0;
  bool full_ = false;  // nothing more is taken
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace s3oram
