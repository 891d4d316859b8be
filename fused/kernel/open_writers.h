// Counts the files that programs have open for writing: only of these may the kernel hold dirty
// pages. (A close sends them, and a shared map keeps its file open.) Also remembers which of them
// are incomplete, because a write-back failed and the kernel dropped the data: the program learns
// that only from fsync.
#pragma once

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fused/tables/rows.h"

namespace s3oram {

/// Any thread.
class OpenWriters {
 public:
  void opened(Ino ino) {
    const std::lock_guard lock(mutex_);
    ++writers_[ino];
  }
  void closed(Ino ino) {
    const std::lock_guard lock(mutex_);
    const auto writers = writers_.find(ino);
    if (--writers->second > 0) return;
    writers_.erase(writers);
    incomplete_.erase(ino);
  }
  void refused(Ino ino) {
    const std::lock_guard lock(mutex_);
    ++refused_;
    if (writers_.contains(ino)) incomplete_.insert(ino);
  }
  /// Returns how often a write-back was refused.
  unsigned refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  /// Called when the program learns of the loss, or writes the content again from the start.
  void told(Ino ino) {
    const std::lock_guard lock(mutex_);
    incomplete_.erase(ino);
  }
  bool any_incomplete(const std::vector<Ino>& files) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(files, [this](Ino ino) { return incomplete_.contains(ino); });
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return writers_.empty();
  }
  std::vector<Ino> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<Ino> files;
    for (const auto& [ino, count] : writers_) files.push_back(ino);
    return files;
  }
  bool contains(Ino ino) const {
    const std::lock_guard lock(mutex_);
    return writers_.contains(ino);
  }
  bool any_of(const std::vector<Ino>& files) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(files, [this](Ino ino) { return writers_.contains(ino); });
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Ino, unsigned> writers_;
  std::unordered_set<Ino> incomplete_;
  unsigned refused_ = 0;
};

}  // namespace s3oram
