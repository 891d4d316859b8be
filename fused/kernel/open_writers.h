// Counts the files that programs have open for writing. Only of these may the kernel hold dirty
// pages: a close sends them, and a shared mapping keeps its file open. Also remembers which of the
// files are incomplete because a write-back failed and the kernel dropped the data, which the
// program learns only from fsync.
#pragma once

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fused/tables/rows.h"

namespace s3oram {

struct OpenWriter {
  Ino ino = 0;
  unsigned descriptors = 0;
  bool incomplete = false;
};

/// May be used on any thread.
class OpenWriters {
 public:
  std::vector<OpenWriter> state() const {
    const std::lock_guard lock(mutex_);
    std::vector<OpenWriter> state;
    for (const auto& [ino, count] : writers_)
      state.push_back({ino, count, incomplete_.contains(ino)});
    return state;
  }
  /// Takes over the state that another object's state() returned.
  void set(const std::vector<OpenWriter>& state) {
    const std::lock_guard lock(mutex_);
    for (const OpenWriter& each : state) {
      writers_[each.ino] = each.descriptors;
      if (each.incomplete) incomplete_.insert(each.ino);
    }
  }
  void opened(Ino ino) {
    const std::lock_guard lock(mutex_);
    ++writers_[ino];
  }
  void closed(Ino ino) {
    const std::lock_guard lock(mutex_);
    const auto writers = writers_.find(ino);
    if (writers == writers_.end() || --writers->second > 0) return;
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
  /// Called when the program has learned of the loss, or writes the content again from the start.
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
