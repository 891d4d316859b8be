// Keeps attempts at an eviction apart from servers that come back or are replaced.
#pragma once

#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class EvictionGate {
 public:
  explicit EvictionGate(VolumeState& state) : state_(state) {}

  /// Begins an attempt. All servers that take part must have ended it before end_attempt(). No
  /// server may come back between the orders and the end of an attempt, because it would lack what
  /// the others have prepared.
  Task<void> begin_attempt() {
    while (!state_.dead && holds_ > 0) co_await changed_.wait();
    under_way_ = true;
  }
  void end_attempt() {
    under_way_ = false;
    changed_.notify_all();
  }

  /// Waits until no attempt is under way, and keeps new ones from beginning until release().
  Task<void> hold() {
    ++holds_;
    while (!state_.dead && under_way_) co_await changed_.wait();
  }
  void release() {
    --holds_;
    changed_.notify_all();
  }

  /// Marks that a server is being told about the volume; meanwhile nothing is decided.
  void begin_enrolling() { ++enrolling_; }
  void end_enrolling() {
    --enrolling_;
    changed_.notify_all();
  }
  bool enrolling() const { return enrolling_ > 0; }
  /// Waits until something may have changed.
  Task<void> wait() { return changed_.wait(); }

 private:
  VolumeState& state_;
  bool under_way_ = false;
  unsigned holds_ = 0;
  unsigned enrolling_ = 0;  // servers being told
  Event changed_;
};

}  // namespace s3oram
